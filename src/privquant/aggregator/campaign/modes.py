"""What an operator says about a new campaign, and the manifest that follows from it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from privquant.aggregator.campaign.local_protocol import CampaignProtocol, Options, campaign_options
from privquant.aggregator.campaign.shuffled import check_shuffled, shuffled_terms
from privquant.aggregator.campaign.shuffled_plan import ShuffleDraft
from privquant.aggregator.devices.pace import DEFAULT_SHARE
from privquant.domain import Domain
from privquant.errors import InvalidInput
from privquant.messages import Query
from privquant.privacy.coin import flip_threshold
from privquant.server.keys import KeyRing, seal_key
from privquant.validation import check_epsilon
from privquant.wire import SHUFFLED_VERSION, Manifest, SealKey, Waves, new_nonce, public_key_of

ONE_WAVE = Waves()
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Draft:
    """What an operator says about a new campaign; the rest of the manifest follows from it."""

    measurement: str
    question: str
    domain: Domain
    epsilon: float
    planned_users: int
    quantiles: tuple[float, ...] = (0.5,)
    protocol: str = "isotonic"
    options: Options = ()
    interval: float | None = None
    waves: Waves = ONE_WAVE
    opens: int | None = None
    deadline: int | None = None
    pace: float = DEFAULT_SHARE
    shuffle: ShuffleDraft | None = None
    keep_days: int | None = None


def new_manifest(draft: Draft, keys: KeyRing) -> Manifest:
    """The manifest that follows from a draft, for the current key to sign."""
    issuer, nonce, epsilon = public_key_of(keys.current), new_nonce(), check_epsilon(draft.epsilon)
    opens = int(time.time()) if draft.opens is None else draft.opens
    coin, users, options = flip_threshold(epsilon), draft.planned_users, draft.options
    trust: dict[str, Any] = {}
    if draft.shuffle is None:
        options = campaign_options(draft.protocol, options)
    else:
        seal = SealKey.of(seal_key(keys, issuer, nonce))
        terms = shuffled_terms(draft.shuffle, draft.protocol, draft.domain, users, epsilon, seal)
        coin, users = terms.most_honest_coin, sum(row.batch for row in terms.rounds)
        trust = {"trust": "shuffle", "version": SHUFFLED_VERSION, "shuffle": terms}
    as_they_are = ("measurement", "question", "domain", "quantiles", "protocol", "interval", "waves")
    return Manifest(
        **{name: getattr(draft, name) for name in as_they_are},
        epsilon=epsilon,
        flip_threshold=coin,
        options=tuple(sorted(options)),
        planned_users=users,
        opens=opens,
        deadline=opens + 30 * _DAY if draft.deadline is None else draft.deadline,
        issuer=issuer,
        nonce=nonce,
        **trust,
    )


def first_queries(manifest: Manifest) -> list[tuple[Query, int]]:
    """What is handed out at first; nothing in the shuffle model, where rounds are announced."""
    if manifest.shuffle is None:
        return CampaignProtocol(manifest).next_queries()
    check_shuffled(manifest)
    return []


def check_waves(waves: Waves) -> None:
    """`InvalidInput` where one half of what waves need is missing."""
    if waves.count > 1 and waves.seconds == 0:
        raise InvalidInput(f"waves.seconds is needed: {waves.count} waves 0 seconds apart all open at once")
    if waves.count == 1 and waves.seconds > 0:
        raise InvalidInput(f"waves.count is needed: 1 wave leaves nothing to open {waves.seconds} seconds later")

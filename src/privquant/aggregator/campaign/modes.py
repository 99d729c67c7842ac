"""Which mode a campaign has: the draft in which an operator chooses it, the manifest that fixes it, `mode_of`."""

from __future__ import annotations

import time
from dataclasses import dataclass

from privquant.aggregator.campaign.local import Local
from privquant.aggregator.campaign.local_protocol import Options
from privquant.aggregator.campaign.mode import CampaignMode
from privquant.aggregator.campaign.shuffled import Shuffled
from privquant.aggregator.campaign.shuffled_plan import ShuffleDraft
from privquant.aggregator.devices.admission_rules import DEFAULT_SHARE
from privquant.domain import Domain
from privquant.errors import InvalidInput
from privquant.server.keys import KeyRing, seal_key
from privquant.validation import check_epsilon
from privquant.wire import Manifest, SealKey, Shuffle, Waves, new_nonce, public_key_of

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
    seal = SealKey.of(seal_key(keys, issuer, nonce))
    as_they_are = ("measurement", "question", "domain", "quantiles", "protocol", "interval", "waves")
    return Manifest(
        **{name: getattr(draft, name) for name in as_they_are},
        epsilon=epsilon,
        opens=opens,
        deadline=opens + 30 * _DAY if draft.deadline is None else draft.deadline,
        issuer=issuer,
        nonce=nonce,
        **_mode_with(draft.shuffle).terms_of_draft(draft, epsilon, seal),
    )


def mode_of(manifest: Manifest) -> CampaignMode:
    """The mode of a campaign."""
    return _mode_with(manifest.shuffle)(manifest)


def _mode_with(shuffle: Shuffle | ShuffleDraft | None) -> type[Local] | type[Shuffled]:
    return Local if shuffle is None else Shuffled


def check_waves(waves: Waves) -> None:
    """`InvalidInput` where one half of what waves need is missing."""
    if waves.count > 1 and waves.seconds == 0:
        raise InvalidInput(f"waves.seconds is needed: {waves.count} waves 0 seconds apart all open at once")
    if waves.count == 1 and waves.seconds > 0:
        raise InvalidInput(f"waves.count is needed: 1 wave leaves nothing to open {waves.seconds} seconds later")

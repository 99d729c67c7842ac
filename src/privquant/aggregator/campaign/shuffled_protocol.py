"""From the rounds of a shuffled campaign to its protocol: what is asked next and estimated follows from the rounds.

Rounds are folded in their order, each whole, as it ended: counted with at least its number, or dropped. Folded
again from nothing they give the same protocol, so a round that was dropped never opens again.
"""

from __future__ import annotations

from collections.abc import Sequence

from privquant.aggregator.campaign.local_protocol import options_of
from privquant.aggregator.store.rounds import RoundRow
from privquant.errors import InvalidInput, ProtocolError
from privquant.messages import Estimate, Query
from privquant.planning.statement import stated_estimates
from privquant.privacy.coin import real_epsilon
from privquant.protocols.base import ThresholdProtocol
from privquant.protocols.registry import check_options, protocol
from privquant.validation import one_or_several
from privquant.wire import Manifest, terms_of
from privquant.wire.shuffle_promise import promise


def build_shuffled(manifest: Manifest) -> ThresholdProtocol:
    """The protocol of a manifest in the shuffle model; InvalidInput with the reason if a campaign cannot run it."""
    terms = terms_of(manifest)
    options = options_of(manifest)
    if manifest.interval is not None or "rounds" in options:
        raise InvalidInput("a shuffled campaign has the rounds of its manifest and no certified interval")
    check_options(manifest.protocol, options)
    if manifest.protocol == "isotonic":
        options["rounds"] = [(row.batch, row.coin) for row in terms.rounds]
    built = protocol(
        manifest.protocol,
        manifest.domain,
        users=sum(row.batch for row in terms.rounds),
        epsilon=real_epsilon(terms.most_honest_coin),
        quantile=one_or_several(manifest.quantiles),
        guarantee=promise(manifest),
        **options,
    )
    if not isinstance(built, ThresholdProtocol) or not built.round_table:
        raise InvalidInput(
            f"protocol {manifest.protocol!r} cannot run in a shuffled campaign: its state is more than a count per "
            "round of fixed size"
        )
    sizes = tuple(row.batch for row in terms.rounds)
    if built.coins() != {row.coin for row in terms.rounds} or built.round_sizes() != sizes:
        raise InvalidInput(f"protocol {manifest.protocol!r} would ask in other rounds than the manifest's")
    return built


class RoundFold:
    """A protocol kept up to date with the rounds of a campaign that are over."""

    def __init__(self, manifest: Manifest) -> None:
        self.protocol = build_shuffled(manifest)
        self._told = 0

    def update(self, rows: Sequence[RoundRow]) -> None:
        """Tell the protocol the rounds that ended since the last time."""
        for row in rows[self._told :]:
            if not row.over:
                break
            if row.round != self._told:
                raise ProtocolError(f"round {self._told} is missing; start from nothing")
            query = self.protocol.query_of_round(row.round, row.threshold)
            self.protocol.close_round(query, row.answered, row.ones)
            self._told += 1

    def next_threshold(self) -> int | None:
        """What the next round asks; None when there is no round left, or nothing to ask in it."""
        self.protocol.forget_in_flight()
        pairs = self.protocol.ask_counts(self.protocol.batch_size())
        if not pairs:
            return None
        query = pairs[0][0]
        assert isinstance(query, Query)
        return query.threshold

    def estimates(self) -> list[Estimate]:
        return stated_estimates(self.protocol)


def folded(manifest: Manifest, rows: Sequence[RoundRow]) -> RoundFold:
    """The fold of all rounds, from nothing."""
    fold = RoundFold(manifest)
    fold.update(rows)
    return fold


def thresholds_again(manifest: Manifest, rows: Sequence[RoundRow]) -> list[int | None]:
    """What each round would have asked, computed anew from the rounds before it."""
    fold, found = RoundFold(manifest), list[int | None]()
    for place in range(len(rows)):
        fold.update(rows[:place])
        found.append(fold.next_threshold())
    return found

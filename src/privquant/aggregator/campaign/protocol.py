"""From what is stored to a protocol: what a campaign asks next and estimates follows from it, and is no state.

In the local mode it follows from the counts. Only protocols whose whole state is a count per query are offered:
reports are stored without their order, and sums over them can be told in any order, again after a restart, and by
two processes at once.

In the shuffled mode it follows from the rounds. They are folded in their order, each whole, as it ended: counted
with at least its number, or dropped. Folded again from nothing they give the same protocol, so a round that was
dropped never opens again.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from privquant.aggregator.store.base import Counts
from privquant.aggregator.store.rounds import RoundRow
from privquant.errors import InvalidInput, ProtocolError
from privquant.messages import Estimate, Query
from privquant.planning.statement import stated_estimates
from privquant.privacy.coin import real_epsilon
from privquant.protocols.base import Protocol, ThresholdProtocol
from privquant.protocols.registry import check_options, protocol, protocol_class
from privquant.validation import one_or_several
from privquant.wire import Manifest, WireError, real_from_wire, real_to_wire, terms_of
from privquant.wire.shuffle_promise import promise

Options = tuple[tuple[str, str | int | bool | None], ...]

AT_LEAST = 64
"""Users the next queries are made for: a protocol that spreads a batch needs one to spread."""


def build_protocol(manifest: Manifest) -> ThresholdProtocol:
    """The protocol a manifest asks for; InvalidInput with the reason if a campaign cannot run it."""
    named = options_of(manifest)
    check_options(manifest.protocol, named)
    options = {**protocol_class(manifest.protocol).before_named, **named}
    if manifest.interval is not None:
        options["interval"] = manifest.interval
    built = _built(manifest, users=manifest.planned_users, epsilon=manifest.epsilon, **options)
    # Asked of the object, not the class: BayesLearn is a count table with update="counts" only.
    if not isinstance(built, ThresholdProtocol) or not built.count_table:
        raise InvalidInput(
            f"protocol {manifest.protocol!r} with the options {options} cannot run in a campaign: its state is "
            "more than a count per threshold, and a campaign stores reports without their order"
        )
    if built.coins() != {manifest.flip_threshold}:
        raise InvalidInput(
            f"protocol {manifest.protocol!r} uses other coins than the manifest's one, which is all a device throws"
        )
    return built


def _built(manifest: Manifest, **said: Any) -> Protocol:
    return protocol(manifest.protocol, manifest.domain, quantile=one_or_several(manifest.quantiles), **said)


def campaign_options(protocol_name: str, options: Options) -> Options:
    """The options a new campaign gets: what the operator said, and what a campaign needs beside it."""
    needed = {
        name: value if isinstance(value, bool) else real_to_wire(value)
        for name, value in protocol_class(protocol_name).campaign_options.items()
    }
    return tuple(sorted((needed | dict(options)).items()))


def options_of(manifest: Manifest) -> dict[str, Any]:
    """The protocol's options; a manifest writes a number with a fraction as a decimal string."""
    found: dict[str, Any] = dict(manifest.options)
    for name, value in manifest.options:
        if isinstance(value, str):
            with suppress(WireError):
                found[name] = real_from_wire(value, "option")
    return found


class CampaignProtocol:
    """A protocol kept up to date with the counts of a campaign.

    Counts only grow, so what is new is the difference to what was told; the order of reports never enters.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.protocol = build_protocol(manifest)
        self._told: dict[Query, tuple[int, int]] = {}

    def update(self, counts: Iterable[Counts]) -> bool:
        """Tell the protocol what is new; whether anything was."""
        new = False
        for row in sorted(counts, key=key_of):
            answered, ones = self._told.get(row.query, (0, 0))
            if (row.answered, row.ones) == (answered, ones):
                continue
            if row.answered < answered or row.ones < ones:
                raise ProtocolError(f"the counts of {row.query} went down; start from nothing")
            self.protocol.tell_counts(row.query, row.answered - answered, row.ones - ones)
            self._told[row.query] = (row.answered, row.ones)
            new = True
        return new

    def next_queries(self) -> list[tuple[Query, int]]:
        """What to hand out next. Users in flight count as not asked: whether they will answer is not known."""
        self.protocol.forget_in_flight()
        pairs = self.protocol.ask_counts(max(AT_LEAST, self.protocol.batch_size()))
        return [(query, users) for query, users in pairs if isinstance(query, Query)]

    def next_due(self) -> int:
        """How many reports there should be before the next queries are worth computing.

        A batch of the protocol: for isotonic search 2 % more than now. So there are some hundred refreshes over a
        campaign's life however fast reports arrive, and the table of thresholds stays small.
        """
        return self.protocol.heard + max(1, self.protocol.batch_size())

    def estimates(self) -> list[Estimate]:
        return stated_estimates(self.protocol)


def key_of(counts: Counts) -> tuple[int, int, int, int]:
    """What counts are sorted by."""
    return (counts.query.phase, counts.query.arm, counts.query.coin, counts.query.threshold)


def estimates_of(manifest: Manifest, counts: Iterable[Counts]) -> list[Estimate]:
    """The estimates that follow from counts, from nothing."""
    search = CampaignProtocol(manifest)
    search.update(counts)
    return search.estimates()


def build_shuffled(manifest: Manifest) -> ThresholdProtocol:
    """The protocol of a manifest in the shuffle model; InvalidInput with the reason if a campaign cannot run it."""
    rounds, options = terms_of(manifest).rounds, options_of(manifest)
    sizes = tuple(row.batch for row in rounds)
    if manifest.interval is not None or "rounds" in options:
        raise InvalidInput("a shuffled campaign has the rounds of its manifest and no certified interval")
    check_options(manifest.protocol, options)
    if manifest.protocol == "isotonic":
        options["rounds"] = [(row.batch, row.coin) for row in rounds]
    epsilon = real_epsilon(terms_of(manifest).most_honest_coin)
    built = _built(manifest, users=sum(sizes), epsilon=epsilon, guarantee=promise(manifest), **options)
    if not isinstance(built, ThresholdProtocol) or not built.round_table:
        raise InvalidInput(
            f"protocol {manifest.protocol!r} cannot run in a shuffled campaign: its state is more than a count per "
            "round of fixed size"
        )
    if built.coins() != {row.coin for row in rounds} or built.round_sizes() != sizes:
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

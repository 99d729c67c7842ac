"""From stored counts to a protocol: what a campaign estimates follows from its counts, and is no state of its own.

Only protocols whose whole state is a count per query are offered: reports are stored without their order, and
sums over them can be told in any order, again after a restart, and by two processes at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from privquant.aggregator.store.base import Counts
from privquant.errors import InvalidInput, ProtocolError
from privquant.messages import Estimate, Query
from privquant.planning.statement import stated_estimates
from privquant.protocols.base import ThresholdProtocol
from privquant.protocols.registry import check_options, protocol, protocol_class
from privquant.validation import one_or_several
from privquant.wire import Manifest, WireError, real_from_wire, real_to_wire

Key = tuple[int, int, int, int]
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
    built = protocol(
        manifest.protocol,
        manifest.domain,
        users=manifest.planned_users,
        epsilon=manifest.epsilon,
        quantile=one_or_several(manifest.quantiles),
        **options,
    )
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
        self.manifest = manifest
        self.protocol = build_protocol(manifest)
        self._told: dict[Key, tuple[int, int]] = {}

    def update(self, counts: Iterable[Counts]) -> bool:
        """Tell the protocol what is new; whether anything was."""
        new = False
        for row in sorted(counts, key=lambda row: key_of(row.query)):
            key = key_of(row.query)
            answered, ones = self._told.get(key, (0, 0))
            if (row.answered, row.ones) == (answered, ones):
                continue
            if row.answered < answered or row.ones < ones:
                raise ProtocolError(f"the counts of {row.query} went down; start from nothing")
            self.protocol.tell_counts(row.query, row.answered - answered, row.ones - ones)
            self._told[key] = (row.answered, row.ones)
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


def key_of(query: Query) -> Key:
    return (query.phase, query.arm, query.coin, query.threshold)


def estimates_of(manifest: Manifest, counts: Iterable[Counts]) -> list[Estimate]:
    """The estimates that follow from counts, from nothing."""
    search = CampaignProtocol(manifest)
    search.update(counts)
    return search.estimates()

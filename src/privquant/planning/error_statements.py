"""What the reports of isotonic search say about its answer: what is certain, and what is typical.

Both are read from the finished protocol's own table. `certain` holds for any data, by proof (docs/statements.md);
`typical` is experience with smooth data, and is withheld where the table does not look smooth. They differ in kind,
and are never put in each other's words.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privquant.arrays import Floats
from privquant.domain import Domain
from privquant.error_words import Certain, Lump, Typical, finite
from privquant.protocols.isotonic import certain as certainty
from privquant.protocols.isotonic import typical as experience
from privquant.protocols.isotonic.epochs import ANCHOR, BULK, KINDS, SEARCH
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.rules import is_extreme

CONFIDENCE = 0.95


def certain_of(protocol: Isotonic, quantile: float, answer: int) -> Certain | None:
    """What is certain about the answer; None where so few reports say nothing, or where a part of the run was left
    out because of what it said.
    """
    own = _own_counts(protocol, quantile)
    if not own or protocol.domain.size == 1 or protocol.believed().left_out:
        return None
    table = certainty.table_of(protocol.search, own)
    found = certainty.certain(
        table,
        protocol.search,
        quantile,
        answer,
        most=_most(protocol, quantile),
        spread=protocol.spread > 0.0,
        confidence=CONFIDENCE,
    )
    if found is None:
        return None
    low, high = (finite(value) for value in _values(found, protocol.domain).values())
    return None if low is None and high is None else replace(found, low=low, high=high)


def typical_of(protocol: Isotonic, quantile: float, answer: int) -> Typical | Lump | None:
    """What is typical of the answer on smooth data, or where the data are lumpy; None from too few reports."""
    if protocol.heard == 0 or protocol.domain.size == 1:
        return None
    boosted = protocol.run_plan.bulk > 0 and bool(is_extreme(quantile))
    part = 1.0 / len(protocol.quantiles)
    found = experience.typical(protocol.table, protocol.search, quantile, boosted, answer, part=part, people=True)
    if isinstance(found, Typical):
        most = max(quantile, 1.0 - quantile)
        if found.within >= most:
            return None  # any rank would be within it
        if found.if_lumpy is not None and found.if_lumpy >= most:
            found = replace(found, if_lumpy=None)
    return None if found is None else replace(found, **_values(found, protocol.domain))


def _values(found: Certain | Typical | Lump, domain: Domain) -> dict[str, Any]:
    """The values of the indices between which something is said; None where there is no bound."""
    low, high = found.low, found.high
    return {
        "low": None if low is None else domain.lower_edge(int(low)),
        "high": None if high is None else domain.value(int(high)),
    }


def counted_phases(protocol: Isotonic) -> set[int]:
    """The phases whose reports what is certain counts: the search itself after the opening of the run.

    Left out are the bulk phase, anchors, and the opening where it is marked (by epochs or fixed rounds): which they
    are follows from the plan and from how many were heard, not from what they answered.
    """
    if protocol.rounds is None:
        epochs = protocol.run_plan.epochs
        return {SEARCH + KINDS * epoch for epoch in range(int(certainty.OPENING * epochs), max(epochs, 1))}
    found, asked = set(), 0
    for number, (size, _) in enumerate(protocol.rounds, start=1):
        if asked >= max(certainty.OPENING * protocol.users, protocol.run_plan.bulk):
            found.add(number)
        asked += size
    return found


def _own_counts(protocol: Isotonic, quantile: float) -> list[tuple[int, int, int, int]]:
    """(row of the coin, threshold, reports, ones) of the counted reports asked by the search for this quantile."""
    arm = protocol.run_plan.roles * protocol.quantiles.index(quantile)
    rows = {coin: row for row, coin in enumerate(sorted(protocol.coins()))}
    counted = counted_phases(protocol)
    return [
        (rows[coin], threshold, reports, ones)
        for (phase, asked_by, coin, threshold), reports, ones in protocol.counts()
        if phase in counted and asked_by == arm
    ]


def _most(protocol: Isotonic, quantile: float) -> Floats | None:
    """How many reports could have been counted at most: those counted, anchors, and a bulk phase asked again.

    Where no anchor fits the search asks instead, and a bulk phase that is not believed is asked again: both follow
    from what was heard, so the number counted does too. This one does not.
    """
    if protocol.run_plan.epochs == 0:
        return None
    arm = protocol.run_plan.roles * protocol.quantiles.index(quantile)
    counted = counted_phases(protocol)
    anchors = {phase - SEARCH + ANCHOR for phase in counted}
    found, bulk = 0, -protocol.run_plan.bulk
    for (phase, asked_by, _, _), reports, _ in protocol.counts():
        if asked_by == arm and (phase in counted or phase in anchors):
            found += reports
        if phase % KINDS == BULK:
            bulk += reports
    return np.array([float(found + max(bulk, 0))])

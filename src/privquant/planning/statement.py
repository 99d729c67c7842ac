"""What may be said of an estimate: how far off it can be, what is certified, what liars can do.

A protocol computes and says nothing. Everything that is said about its answer is said here, from the finished
protocol and its estimate, once for each estimate that a person reads; a simulation of many trials never comes by.
Used by `pq.quantile`, `pq.run`, the service and the command line; for a protocol asked and told by hand:

    stated(protocol.estimate(), protocol)

What is certain holds for any data, by proof (docs/statements.md); what is typical is experience with smooth data,
and is withheld where the table does not look smooth. They differ in kind, and are never put in each other's words.
What is promised about privacy is the guarantee's own sentence (`str(estimate.guarantee)`), because it is said on
the device too.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privquant.arrays import Floats
from privquant.domain import Domain
from privquant.error_words import Certain, Interval, Lump, Rank, Typical, finite
from privquant.messages import Estimate, Guarantee
from privquant.planning.calibration import CALIBRATED_DELTA, Setting, calibrated, calibration
from privquant.planning.picture import Record
from privquant.privacy.coin import Coin
from privquant.privacy.poisoning import breakdown, shift
from privquant.privacy.shuffle import guarantee_of_rounds
from privquant.protocols.base import Protocol
from privquant.protocols.isotonic import certain as certainty
from privquant.protocols.isotonic import typical as experience
from privquant.protocols.isotonic.contradiction import HONEST_RUNS
from privquant.protocols.isotonic.epochs import ANCHOR, BULK, KINDS, SEARCH
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.rules import is_extreme
from privquant.protocols.tree.hierarchical import Hierarchical

CONFIDENCE = 0.95
# The options the calibration was measured with. It says nothing about runs that chose otherwise.
_MEASURED: dict[str, dict[str, Any]] = {
    "naive": {"behaviour": "text"},
    "bayess": {"final": "search", "behaviour": "text", "alpha": None},
    "bayeslearn": {"update": "text", "alpha": None},
    "hierarchical": {"answer": "descent", "encoding": "oue"},
}


def stated(estimate: Estimate, protocol: Protocol) -> Estimate:
    """The estimate of this protocol with all that may be said of it; said twice it is the same.

    Parameters
    ----------
    estimate : Estimate
        One of the protocol's.
    protocol : Protocol
        The protocol that gave it, as it stands.
    """
    whole = replace(estimate, guarantee=guarantee_of(protocol))
    if estimate.interval is not None:
        whole = _noted(whole, interval_sentence(estimate.interval, estimate.quantile))
    if estimate.value is None and estimate.bin is None and (failed := _failure(protocol)) is not None:
        whole = _noted(whole, failed)
    if not isinstance(protocol, Isotonic):
        return replace(whole, rank=rank_of(estimate, protocol))
    # A run on the lab's engine leaves its answer, not its table: nothing is said of it.
    if estimate.index is None or protocol.heard == 0:
        return whole
    where = (protocol, estimate.quantile, estimate.index)
    certain, typical = certain_of(*where), typical_of(*where)
    if protocol.believed().left_out:
        whole = _noted(whole, left_out_sentence(protocol))
    elif certain is None and typical is None and protocol.domain.size > 1:
        said = f"{estimate.users:,} reports, asked like this, say next to nothing about the quantile"
        whole = replace(_noted(whole, said), too_few=True)
    return replace(whole, certain=certain, typical=typical, record=_record(protocol, estimate.quantile))


def _noted(estimate: Estimate, note: str) -> Estimate:
    return estimate if note in estimate.notes else replace(estimate, notes=(*estimate.notes, note))


def stated_estimates(protocol: Protocol) -> list[Estimate]:
    """The estimates of all quantiles, each with what may be said of it."""
    return [stated(estimate, protocol) for estimate in protocol.estimates()]


def left_out_sentence(protocol: Isotonic) -> str:
    """What is to be said where a part of the run contradicts the others."""
    judgement, epochs = protocol.believed().judgement, protocol.run_plan.epochs
    reports = sum(n for (phase, *_), n, _ in protocol.counts() if phase // KINDS in judgement.dropped)
    where = ", ".join(str(epoch + 1) for epoch in judgement.dropped)
    often = (
        f"more than in any of {HONEST_RUNS:,} simulated honest runs: liars who come together do so, or a change in "
        "who answers"
        if judgement.alarm
        else "as chance alone makes it seem in fewer than 1 of 100 honest runs"
    )
    return (
        f"{reports:,} of {protocol.heard:,} reports, asked in part {where} of {epochs} of the run, contradict the "
        f"others and are left out of the answer ({often}); so nothing is certain"
    )


def _record(protocol: Isotonic, quantile: float) -> Record:
    """What `Estimate.plot` draws: all that was heard, and how the search for this quantile went."""
    heard, roles = protocol.as_heard(), protocol.run_plan.roles
    which = protocol.quantiles.index(quantile)
    if heard is None:
        return Record(protocol.state(), None)
    # a threshold is asked again in later epochs, and at anchors; what counts is when it came first
    order = dict.fromkeys(threshold for _, arm, _, threshold in heard if arm // roles == which)
    return Record(protocol.state(), tuple(order))


def _failure(protocol: Protocol) -> str | None:
    """Why there is no answer although users were asked; None where there may still be one."""
    if not protocol.asked or protocol.can_ask():
        return None
    if protocol.in_flight:
        return (
            f"{protocol.in_flight:,} of {protocol.asked:,} users asked have not answered, and nobody is left to ask"
        )
    if protocol.given_up == protocol.asked:
        return f"all {protocol.asked:,} users asked gave up"
    return f"none of {protocol.heard:,} reports came in time to be used"


def guarantee_of(protocol: Protocol) -> Guarantee:
    """What its users were promised: with every round's own number, also where a state from before had only one."""
    given = protocol.guarantee
    if given.trust == "local" or given.rounds or not isinstance(protocol, Isotonic) or protocol.rounds is None:
        return given
    real = ((size, Coin(coin).epsilon) for size, coin in protocol.rounds)
    return guarantee_of_rounds(real, epsilon=given.epsilon, delta=given.delta)


def rank_of(estimate: Estimate, protocol: Protocol) -> Rank | None:
    """How far the rank of the answer may be off, as measured in simulation; None for settings that were not.

    Experience, not a certificate: in the planner's calibration, on the hardest family of data, a share CONFIDENCE
    of runs like this one stayed within it. What isotonic search certifies is what holds for any data.
    """
    q, promised, size = estimate.quantile, estimate.guarantee, protocol.domain.size
    name = f"{protocol.name}/{promised.trust}"
    if estimate.index is None or estimate.users == 0 or size < 2:
        return None
    if name not in calibrated() or not _was_measured(protocol):
        return None
    setting: Setting = {"users": estimate.users, "epsilon": promised.epsilon, "quantile": q, "size": size}
    setting["delta"] = promised.delta or CALIBRATED_DELTA
    return Rank(q, calibration(name).error(confidence=CONFIDENCE, kind="hardest", **setting), CONFIDENCE)


def _was_measured(protocol: Protocol) -> bool:
    chosen = protocol.options()
    if isinstance(protocol, Hierarchical):
        chosen["encoding"] = protocol.encoding  # left open, it follows from the domain's size
    return all(chosen[option] == value for option, value in _MEASURED.get(protocol.name, {}).items())


def interval_sentence(interval: Interval, quantile: float) -> str:
    """What a certified interval allows to say, with its conditions."""
    sides = []
    if interval.low is not None:
        sides.append(f"at least {interval.low}")
    if interval.high is not None:
        sides.append(f"at most {interval.high}")
    if not sides:
        return "nothing can be certified about the quantile from these reports"
    return (
        f"with {interval.confidence:.4g} confidence the {quantile:g}-quantile of the population the users were "
        f"drawn from is {' and '.join(sides)}, if each user answered once and not answering is unrelated to the "
        "answer"
    )


# -- how far off it is, by the table of isotonic search -----------------------------------------------------


def certain_of(protocol: Isotonic, quantile: float, answer: int) -> Certain | None:
    """What is certain about the answer; None where so few reports say nothing, or where a part of the run was left
    out because of what it said.
    """
    arm, counted = protocol.run_plan.roles * protocol.quantiles.index(quantile), counted_phases(protocol)
    rows = {coin: row for row, coin in enumerate(sorted(protocol.coins()))}
    # the reports counted: (row of the coin, threshold, reports, ones)
    own = [
        (rows[coin], threshold, reports, ones)
        for (phase, asked_by, coin, threshold), reports, ones in protocol.counts()
        if phase in counted and asked_by == arm
    ]
    if not own or protocol.domain.size == 1 or protocol.believed().left_out:
        return None
    table = certainty.table_of(protocol.search, own)
    found = certainty.certain(
        table,
        protocol.search,
        quantile,
        answer,
        most=_most(protocol, arm, counted),
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


def _most(protocol: Isotonic, arm: int, counted: set[int]) -> Floats | None:
    """How many reports could have been counted at most: those counted, anchors, and a bulk phase asked again.

    Where no anchor fits the search asks instead, and a bulk phase that is not believed is asked again: both follow
    from what was heard, so the number counted does too. This one does not.
    """
    if protocol.run_plan.epochs == 0:
        return None
    anchors = {phase - SEARCH + ANCHOR for phase in counted}
    found, bulk = 0, -protocol.run_plan.bulk
    for (phase, asked_by, _, _), reports, _ in protocol.counts():
        if asked_by == arm and (phase in counted or phase in anchors):
            found += reports
        if phase % KINDS == BULK:
            bulk += reports
    return np.array([float(found + max(bulk, 0))])


# -- liars ---------------------------------------------------------------------------------------------------


# Figures: docs/statements.md. 5 % of all users, lying together at the end of a run, put a median anywhere.
TIMED = "This is for liars who answer at times they did not choose; those who choose their moment can do far more."
GUARDED = (
    "This is for liars who answer at times they did not choose. Parts of a run that contradict the rest are left "
    "out of the answer: with some thousand users that stops liars who come all at once. Liars thinly spread over "
    "a fifth of a run, or filling half of it, can still do far more; where the poll need not be live, admit people "
    "at times drawn at random over the whole run (waves)."
)


def liars_in_a_plan(fraction: float, *, epsilon: float | None, quantile: float) -> str:
    """What so many liars could do to a collection that is being planned, and how many could do anything."""
    if epsilon is None:
        return "No epsilon does it, so nothing can be said about liars."
    anywhere = breakdown(epsilon=epsilon, quantile=quantile)
    if fraction >= anywhere:
        return f"{fraction:.1%} liars can move the answer to an end of the domain (from {100 * anywhere:.2g}% on)."
    moved = shift(fraction, epsilon=epsilon, quantile=quantile)
    return (
        f"{fraction:.1%} liars can move the answer's rank by {100 * moved.low:+.2g} to {100 * moved.high:+.2g} "
        f"percentile points; {anywhere:.1%} can move it to an end of the domain. {GUARDED}"
    )


def liars_in_a_run(fraction: float, *, epsilon: float, quantiles: Sequence[float], guarded: bool = False) -> str:
    """What so many liars, answering at a time they did not choose, can do to each quantile of a run.

    guarded: whether the run leaves out parts of itself that contradict the rest.
    """
    several = len(quantiles) > 1
    said = "; ".join(
        f"{shift(fraction, epsilon=epsilon, quantile=q)}{f' at quantile {q:g}' if several else ''}"
        for q in quantiles
    )
    return f"With {fraction:.0%} of liars among the users, {said}. {GUARDED if guarded else TIMED}"

"""What each quantile of a plan reaches, in rank and, by a pilot, in values: by the laws, or simulated.

The laws know what a run is like, and of the data only that they are smooth. Where fewer people lie beyond a
quantile than a unit of rank it is the tail that decides, and a pilot has it. So with a pilot the laws say where to
begin, and the very job, run many times on people drawn from the pilot, the rest; they are always the same runs, so
that the same question has the same answer.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from privquant._numba import HAVE_NUMBA
from privquant.error_words import finite
from privquant.planning.pilot import Pilot
from privquant.planning.solving import RANGES, Job, failure, solve
from privquant.protocols.registry import DEFAULT_PROTOCOL

DEFAULT = {trust: f"{DEFAULT_PROTOCOL}/{trust}" for trust in ("local", "shuffle")}
"""The way of collecting a plan's verdict speaks of."""

RUNS = 600
"""Simulated runs of a plan with a pilot: a share of nine in ten is then known to .012."""

# Users in flight are asked one by one, so many in half a minute or less; fewer runs than that are not worth it.
_IN_FLIGHT = 1_200_000
_FEWEST = 200
# Users or epsilon are looked for with runs at three values, each so many times the one before; a line through the
# normal scores of their shares says where the share is the one wanted; if that is further off, on from there.
_APART = 1.3
_FURTHEST = 8.0
_TURNS = 6
# The least that a score rises with e times as many users or epsilon, so that shares that are all 1 lead somewhere.
_RISE = 0.3
LARGE_EPSILON = 5.0
_LAST_DIGIT = 1e-9

Rehearse = Callable[[Job, int, float, str, bool], Any]
"""The outcome of a job's runs with so many users, at an epsilon, under a trust, and whether progress is shown; the
lab, which lies above the planner, has it (`privquant.lab.rehearsal`)."""

Rehearsals = Callable[[int, float], Any]
"""The outcome of this job's runs with so many users at an epsilon."""


@dataclass(frozen=True)
class Target:
    """One quantile of a plan, on typical data, or on data like the pilot's where the plan was simulated.

    expected: the rank error that half of the collections stay within.
    alpha:    the rank error planned for: the plan's, or where that was the unknown this quantile's own.
    success:  the share of collections that stay within alpha: the plan's confidence, or more where another quantile
              needs more users, or where alpha reaches the end of the ranks.
    value, low, high: by the pilot: its own quantile, and the values between which as many collections find the
              answer (None: no bound). They are a little wider than alpha: the people asked differ from those of the
              pilot, and both are samples.
    width:    the width of rank that half of the certified intervals stay within; None without one, or where half
              have an open end.
    """

    quantile: float
    expected: float
    alpha: float
    success: float
    value: int | float | None = None
    low: int | float | None = None
    high: int | float | None = None
    width: float | None = None


def targets_of(unknown: str, full: dict[str, float], job: Job, trust: str) -> tuple[Target, ...]:
    """Each quantile at the numbers the plan came to, by the laws."""
    return tuple(_by_laws(unknown, full, job, trust, q) for q in job.quantiles)


def _by_laws(unknown: str, full: dict[str, float], job: Job, trust: str, q: float) -> Target:
    name = DEFAULT[trust]

    def reached(confidence: float, *, population: bool = False) -> float:
        def holds(tried: dict[str, float]) -> bool:
            return failure(name, "typical", job, q, tried, population=population) <= 1.0 - confidence

        found = solve("alpha", {key: value for key, value in full.items() if key != "alpha"}, holds)
        return math.nan if found is None else min(found, max(q, 1.0 - q))

    alpha = reached(full["confidence"]) if unknown == "alpha" else full["alpha"]
    kept = 1.0 - failure(name, "typical", job, q, {**full, "alpha": alpha})
    width = None
    if job.schedule.interval is not None:
        setting = replace(job, schedule=replace(job.schedule, interval=None)).setting(full, q)
        width = job.table(name).interval_width(0.5, job.schedule.interval, **setting)
    value = low = high = None
    if job.pilot is not None:
        value = job.pilot.quantile(q)
        # The pilot's values stand for a population's, of which the people asked are a sample themselves.
        _, _, low, high = job.pilot.reach(
            q, with_the_pilots_own(reached(kept, population=True), q, kept, job.pilot)
        )
    return Target(q, reached(0.5), alpha, kept, value, low, high, width)


def with_the_pilots_own(alpha: float, q: float, kept: float, pilot: Pilot) -> float:
    """An error of rank with that of the pilot, which is a sample too; not beyond an end it did not reach before."""
    own = NormalDist().inv_cdf((1.0 + min(kept, 0.9999)) / 2.0) ** 2 * q * (1.0 - q) / pilot.users
    wider = math.sqrt(alpha**2 + own)
    ends = [math.nextafter(end, 0.0) for end in (q, 1.0 - q) if alpha < end]
    return min([wider, *ends])


def runs_by_default(users: float, job: Job) -> int:
    """How many runs are simulated unless told otherwise: what is soon done where numba compiles, none where not."""
    if job.pilot is None or not HAVE_NUMBA:
        return 0
    runs = RUNS if job.schedule.in_flight is None else min(RUNS, math.floor(_IN_FLIGHT / users))
    return runs if runs >= _FEWEST else 0


def simulated(
    unknown: str, given: dict[str, float], job: Job, trust: str, begin: float, run: Rehearse
) -> tuple[float | None, tuple[Target, ...]]:
    """The missing number, and what each quantile reaches with it; None and nothing where no value was found.

    begin: about what it is.
    """

    @cache
    def rehearse(users: int, epsilon: float) -> Any:
        return run(job, users, epsilon, trust, sys.stderr.isatty())

    full = {**given, unknown: begin}
    if unknown in ("users", "epsilon"):
        found = _cheapest(unknown, given, job, rehearse, begin)
        if found is None:
            return None, ()
        full[unknown] = found
    outcome = rehearse(math.ceil(full["users"]), full["epsilon"])
    fitted = targets_of(unknown, full, job, trust)
    targets = tuple(_by_runs(one, which, unknown, full, job, outcome) for which, one in enumerate(fitted))
    if unknown == "alpha":
        full[unknown] = max(target.alpha for target in targets)
    elif unknown == "confidence":
        full[unknown] = min(target.success for target in targets)
    return full[unknown], targets


def _cheapest(unknown: str, given: dict[str, float], job: Job, rehearse: Rehearsals, begin: float) -> float | None:
    """The users or the epsilon at which the neediest quantile is kept as often as wanted."""
    lowest, highest = RANGES[unknown]
    wanted = NormalDist().inv_cdf(given["confidence"])
    places = np.log([1.0 / _APART, 1.0, _APART])
    centre = begin
    for _ in range(_TURNS):
        scores = []
        for place in places:
            tried = {**given, unknown: centre * math.exp(place)}
            outcome = rehearse(math.ceil(tried["users"]), tried["epsilon"])
            hits = [np.sum(outcome.hits(given["alpha"], which)) for which in range(len(job.quantiles))]
            scores.append([NormalDist().inv_cdf((hit + 0.5) / (job.simulate + 1.0)) for hit in hits])
        rises, heights = np.polyfit(places, scores, 1)
        further = float(np.max((wanted - heights) / np.maximum(rises, _RISE)))
        centre *= min(max(math.exp(further), 1.0 / _FURTHEST), _FURTHEST)
        centre = min(max(centre, lowest), highest)
        if abs(further) <= math.log(_APART) or centre == lowest:
            return centre
        if centre == highest:
            return None
    return centre


def _by_runs(fitted: Target, which: int, unknown: str, full: dict[str, float], job: Job, outcome: Any) -> Target:
    """What the runs came to at one quantile; certified widths stay those of the laws."""
    assert job.pilot is not None
    q, errors, alpha = fitted.quantile, outcome.rank_errors(which), fitted.alpha
    if unknown == "alpha":
        # an error that many runs share, such as 1 - q, must not be missed by its last digit
        alpha = float(np.quantile(errors, full["confidence"], method="higher")) + _LAST_DIGIT
    kept = outcome.success(alpha, which)
    missed = 1.0 - kept
    # Beyond an end that alpha reaches every answer is right, and all that miss do so on the other side.
    below = 0.0 if alpha >= q else missed if alpha >= 1.0 - q else missed / 2.0
    ends = (int(np.quantile(outcome.answers[:, which], p, method="nearest")) for p in (below, below + kept))
    low, high = (
        job.pilot.index_at(q + math.copysign(with_the_pilots_own(abs(rank - q), q, kept, job.pilot), rank - q))
        for rank in (job.pilot.rank(end) for end in ends)
    )
    return replace(
        fitted,
        expected=float(np.median(errors)),
        alpha=alpha,
        success=kept,
        low=None if alpha >= q else finite(job.pilot.domain.lower_edge(low)),
        high=None if alpha >= 1.0 - q else finite(job.pilot.domain.value(high)),
    )

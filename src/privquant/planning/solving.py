"""Solving for the one number a plan leaves open.

A plan is four numbers: users, alpha (rank error), epsilon and confidence. A way of collecting says of any four
whether it keeps them (`Holds`); `solve` finds the cheapest value of the missing one that is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from privquant.planning.asking import PLAIN, AskingSchedule
from privquant.planning.calibration import CALIBRATED_DELTA, Calibration, Setting, calibration
from privquant.planning.pilot import Pilot
from privquant.validation import check_choice

UNKNOWNS = ("users", "alpha", "epsilon", "confidence")

# Where each unknown is looked for. Beyond these a plan is of no use to anyone.
RANGES = {"users": (1.0, 1e15), "alpha": (1e-7, 0.999), "epsilon": (1e-3, 20.0), "confidence": (1e-3, 1 - 1e-6)}

# Two values this close are the same plan.
_CLOSE = 1e-4
# Steps from the dear end of a range to its cheap one before halving; for users each is a factor of four.
_STEPS = 25

Holds = Callable[[dict[str, float]], bool]
"""Whether a full plan (users, alpha, epsilon, confidence) is kept."""


@dataclass(frozen=True)
class Job:
    """What is to be collected, beside the four numbers.

    size: of the domain. delta: of shuffled rows. schedule: how it is asked. source: a calibration of one's own.
    simulate: how many times the job is run on people drawn from the pilot.
    """

    size: int
    quantiles: tuple[float, ...]
    delta: float = CALIBRATED_DELTA
    schedule: AskingSchedule = PLAIN
    pilot: Pilot | None = None
    source: str | Path | None = None
    simulate: int = 0

    def table(self, name: str) -> Calibration:
        return calibration(name, self.source)

    def setting(self, full: dict[str, float], q: float) -> Setting:
        """A full plan for one quantile of this job, as the laws are asked about it."""
        named: Setting = {"users": full["users"], "epsilon": full["epsilon"], "quantile": q, "size": self.size}
        return {**named, "delta": self.delta, "schedule": self.schedule}


def solve(unknown: str, given: dict[str, float], holds: Holds) -> float | None:
    """The cheapest value of the unknown that keeps the plan together with all dearer ones.

    A measured law need not be monotone where nobody measured: that ten people would do is not believed where a
    thousand would not. So the range is walked from its dear end to the first value that fails.
    """
    low, high = RANGES[check_choice(unknown, "unknown", UNKNOWNS)]
    rising = unknown != "confidence"  # more users, alpha, epsilon help; more confidence hurts

    def kept(value: float) -> bool:
        return holds({**given, unknown: value})

    last, dear = (low, high) if rising else (high, low)
    if not kept(dear):
        return None

    def between(a: float, b: float, share: float) -> float:
        return a ** (1.0 - share) * b**share if rising else a + (b - a) * share

    start = dear
    for step in range(1, _STEPS + 1):
        cheap = between(start, last, step / _STEPS)
        if not kept(cheap):
            break
        dear = cheap
    else:
        return last
    while abs(dear - cheap) > _CLOSE * abs(dear):
        middle = between(cheap, dear, 0.5)
        dear, cheap = (middle, cheap) if kept(middle) else (dear, middle)
    return dear


def failure(
    name: str,
    kind: str,
    job: Job,
    q: float,
    full: dict[str, float],
    *,
    ties: bool = True,
    population: bool = False,
) -> float:
    """The share of runs that miss alpha at one quantile; by the ties of the pilot, where there is one."""
    below = above = full["alpha"]
    if job.pilot is not None:
        below, above, _, _ = job.pilot.reach(q, full["alpha"])
        ties = False
    asked = job.setting(full, q)
    return job.table(name).failure(kind, below, above, ties=ties, population=population, **asked)


def by_measurement(name: str, kind: str, job: Job, *, ties: bool = True, population: bool = False) -> Holds:
    """Kept where every quantile, on data of this kind, is missed by no more runs than the confidence allows."""

    def holds(full: dict[str, float]) -> bool:
        return all(
            failure(name, kind, job, q, full, ties=ties, population=population) <= 1.0 - full["confidence"]
            for q in job.quantiles
        )

    return holds

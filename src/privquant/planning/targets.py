"""What each quantile of a plan reaches, in rank and, by a pilot, in values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from privquant.planning.pilot import Pilot
from privquant.planning.solving import Job, failure, solve
from privquant.protocols.registry import DEFAULT_PROTOCOL

DEFAULT = {trust: f"{DEFAULT_PROTOCOL}/{trust}" for trust in ("local", "shuffle")}
"""The way of collecting a plan's verdict speaks of."""


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

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def targets_of(unknown: str, full: dict[str, float], job: Job, trust: str) -> tuple[Target, ...]:
    """Each quantile at the numbers the plan came to, by the laws."""
    return tuple(_target(unknown, full, job, trust, q) for q in job.quantiles)


def _target(unknown: str, full: dict[str, float], job: Job, trust: str, q: float) -> Target:
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

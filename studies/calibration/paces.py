"""Measure what several quantiles, an interval, rounds and users in flight cost: see `privquant.planning.asking`.

Fitted against the law of plain runs on the typical family, which must be fitted first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from privquant.lab.experiment.cell import Cell, Registered
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.source import LISTED, Drawn
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.planning.asking import SPREAD, interval_run, shared, slowed
from privquant.planning.law import Law, Run, unit
from privquant.planning.limits import kappa_of
from studies.calibration.law_fit import Counts, Entry, as_counts, errors_counted, fitted, pooled
from studies.calibration.settings import BITS, QUANTILES, TYPICAL, between, spread_evenly
from studies.table import name

KINDS = ("quantiles", "interval", "rounds", "in_flight")
POINTS = 96
# Sets of quantiles are many: so many times the settings.
_SETS = 3
_INFORMATION = (10.0, 2e4)
_EPSILONS = (0.15, 3.0)
_CONFIDENCES = (0.8, 0.9, 0.95, 0.99)
_ROUNDS = (6.0, 200.0)
_PART = (0.005, 0.4)
# Users in flight are simulated one by one.
_LONGEST_FLIGHT = 800
# A cost beyond this would leave less than one user in a million.
_DEAREST = 30.0
_WIDTHS = np.array([0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0])


class Setting(NamedTuple):
    """number: quantiles, confidence of the interval, rounds, or users in flight."""

    users: int
    epsilon: float
    quantiles: tuple[float, ...]
    bits: int
    number: float

    def run(self, which: int = 0) -> Run:
        return Run(float(self.users), kappa_of(self.epsilon), self.quantiles[which], float(self.bits))


def settings(kind: str, count: int = POINTS) -> list[Setting]:
    times = _SETS if kind == "quantiles" else 1
    return [_setting(kind, *coordinates) for coordinates in spread_evenly(times * count, 9).tolist()]


def _setting(kind: str, e: float, c: float, b: float, x: float, *places: float) -> Setting:
    epsilon, bits = between(_EPSILONS, e), round(BITS[0] + b * (BITS[1] - BITS[0]))
    users = between(_INFORMATION, c) / kappa_of(epsilon) ** 2
    if kind == "in_flight":
        users = min(users, _LONGEST_FLIGHT)
    whole = round(users) if users <= LISTED else LISTED * round(users / LISTED)
    scores = [NormalDist().inv_cdf(end) for end in QUANTILES]
    ranks = [NormalDist().cdf(scores[0] + place * (scores[1] - scores[0])) for place in places]
    number = {
        "quantiles": float(2 + int(3 * x)),
        "interval": _CONFIDENCES[int(4 * x)],
        "rounds": float(round(between(_ROUNDS, x))),
        "in_flight": float(max(1, round(between(_PART, x) * whole))),
    }[kind]
    several = int(number) if kind == "quantiles" else 1
    return Setting(whole, epsilon, tuple(sorted(ranks[:several])), bits, number)


def cells(trials: int, points: int = POINTS) -> list[Cell]:
    return [
        Cell(
            Drawn(shape, setting.users, 2**setting.bits),
            Registered("isotonic", setting.epsilon, setting.quantiles, _options(kind, setting)),
            schedule=_schedule(kind, setting),
            claim="certified" if kind == "interval" else "",
            trials=trials,
            redraw=1,
            notes=(("cell", name("pace", kind, index, shape)),),
        )
        for kind in KINDS
        for index, setting in enumerate(settings(kind, points))
        for shape in TYPICAL
    ]


def _options(kind: str, setting: Setting) -> tuple[tuple[str, Any], ...]:
    if kind == "interval":
        return (("interval", setting.number),)
    return (("spread", SPREAD),) if kind in ("rounds", "in_flight") else ()


def _schedule(kind: str, setting: Setting) -> Schedule:
    return Schedule.of(**{kind: int(setting.number)}) if kind in ("rounds", "in_flight") else SUGGESTED


def report(found: dict[Any, Outcome], law: Law, points: int = POINTS) -> dict[str, Any]:
    """The costs, and the law of the widths of intervals."""
    counted = {kind: _counted(kind, found, points) for kind in KINDS}
    kept = _best(law, counted["interval"], lambda setting, run, k: (k, 1.0), (0.05, 1.0))
    return {
        "quantiles": _together(law, counted["quantiles"]),
        "interval": {"kept": round(kept[0], 4)},
        "rounds": _delay(law, counted["rounds"], lambda setting: 1.0 / setting.number),
        "in_flight": _delay(law, counted["in_flight"], lambda setting: setting.number / setting.users),
        "width": fitted(as_counts(pooled(_widths(found, points))), "few"),
    }


Weighed = list[tuple[Entry, Setting]]
Kept = Callable[[Setting, Run, float], tuple[float, float]]
"""(the part of the users that counts, their share of all people) under a number that is looked for."""


def _together(law: Law, counted: Weighed) -> dict[str, Any]:
    """How far the reports asked about another quantile reach, and what is left to correct then."""
    reach = round(_best(law, counted, _sharing, (0.1, 30.0))[0], 4)
    counts = as_counts([entry for entry, _ in counted])
    pairs = np.array([_sharing(setting, entry[2], reach) for entry, setting in counted])
    run = counts.run._replace(users=counts.run.users * pairs[:, 0], share=pairs[:, 1])
    z = counts.z * unit(counts.run) / unit(run)
    shifted = Counts(z, counts.above, run, counts.runs, counts.passed)
    return {"reach": reach, "company": fitted(shifted, "company", law.eta(z, counts.above, run))}


def _sharing(setting: Setting, run: Run, reach: float) -> tuple[float, float]:
    return shared(run, setting.quantiles, reach=reach) / float(run.users), 1.0 / len(setting.quantiles)


def _counted(kind: str, found: dict[Any, Outcome], points: int) -> Weighed:
    every = []
    for index, setting in enumerate(settings(kind, points)):
        outcomes = [found[name("pace", kind, index, shape)] for shape in TYPICAL]
        for which, _ in enumerate(setting.quantiles):
            run = setting.run(which)
            entries = pooled(e for outcome in outcomes for e in errors_counted(run, outcome, which, tied=False))
            every += [(entry, setting) for entry in entries]
    return every


def _widths(found: dict[Any, Outcome], points: int) -> Iterator[Entry]:
    for index, setting in enumerate(settings("interval", points)):
        run = interval_run(setting.run(), setting.number)
        scale = float(unit(run))
        for shape in TYPICAL:
            outcome = found[name("pace", "interval", index, shape)]
            widths = np.where(outcome.unbounded(), np.inf, outcome.widths())
            for z in _WIDTHS:
                if z * scale < 1.0:
                    yield float(z), 1, run, widths.size, int((widths > z * scale).sum())


def _delay(law: Law, counted: Weighed, x: Callable[[Setting], float]) -> dict[str, float]:
    """The cost, power and growth under which the counts are likeliest."""
    tried = []
    for power, growth in product((0.5, 1.0, 1.5), (0.0, 0.5, 1.0)):

        def kept(setting: Setting, run: Run, cost: float, power: float = power, growth: float = growth) -> Any:
            return slowed(x(setting), setting.bits, cost=cost, power=power, growth=growth), 1.0

        cost, likely = _best(law, counted, kept, (0.0, _DEAREST / BITS[1] ** growth))
        tried.append((likely, {"cost": round(cost, 4), "power": power, "growth": growth}))
    return max(tried, key=lambda one: one[0])[1]


def _best(law: Law, counted: Weighed, kept: Kept, ends: tuple[float, float]) -> tuple[float, float]:
    """The number between the ends under which the counts are likeliest, and their log-likelihood."""
    counts = as_counts([entry for entry, _ in counted])
    of = [(setting, entry[2]) for entry, setting in counted]

    def likelihood(number: float) -> float:
        pairs = np.array([kept(setting, run, number) for setting, run in of])
        run = counts.run._replace(users=counts.run.users * pairs[:, 0], share=pairs[:, 1])
        tail = np.clip(law.tails(counts.z * unit(counts.run), counts.above, run), 1e-9, 1.0 - 1e-9)
        return float((counts.passed * np.log(tail) + (counts.runs - counts.passed) * np.log1p(-tail)).sum())

    low, high = ends
    golden = 0.5 * (5.0**0.5 - 1.0)
    for _ in range(24):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if likelihood(left) > likelihood(right) else (left, high)
    middle = 0.5 * (low + high)
    return middle, likelihood(middle)

"""Measure what the planner plans with: the laws of rank error of every protocol.

The result is `privquant/planning/calibration.json`; `python -m studies calibration` makes it anew.

Settings (users, epsilon, quantile, size of the domain, delta) are spread evenly over all that people plan for, and
every run has users drawn for it alone, from the families of data of `privquant.planning.calibration`. A law
(`privquant.planning.law`) is fitted to all runs of a family at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

from privquant import __version__
from privquant.lab.experiment.cell import Cell, Registered, Template
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.source import LISTED, Drawn
from privquant.planning.calibration import law_of, shuffled_kappa
from privquant.planning.law import FORM, Run, cliff_run, unit
from privquant.planning.limits import kappa_of
from studies.calibration import paces, settings
from studies.calibration.cliff import Cliff
from studies.calibration.law_fit import Entry, as_counts, errors_counted, fitted, pooled
from studies.calibration.shuffled_rounds import ShuffledRounds
from studies.table import name

# The alphas a cliff is made for, in units times the root of the bits: between them it begins to be found.
_STEEP = (0.9, 2.7)
# Cliffs are out of reach of small crowds: the least share of `crowd` they are made for,
_CLIFF_CROWD = 0.3
# and most of them have people on either side.
_ONE_SIDED = 0.25
_TIE_CREDIT = 1.0
PLAIN = "isotonic/local"
# The coins of large shuffled rounds hardly flip.
HONEST = (0.1, 8.0)


@dataclass(frozen=True)
class Row:
    """One protocol in one trust model.

    shuffled: "" or the accounting method of shuffled rounds.
    stretch:  the power of log2 B with which its errors grow beyond the natural unit.
    points:   settings for each family. largest: users worth simulating. epsilons: their ends.
    families: on which it is measured.
    """

    name: str
    protocol: str
    shuffled: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    stretch: float = 0.0
    points: tuple[int, int, int] = (40, 28, 64)
    largest: int = settings.USERS[1]
    epsilons: tuple[float, float] = settings.EPSILONS
    families: tuple[str, ...] = tuple(settings.FAMILIES)

    def template(self, point: Point) -> Template:
        if self.shuffled:
            return ShuffledRounds(point.epsilon, point.delta, (point.quantile,))
        return Registered(self.protocol, point.epsilon, (point.quantile,), self.options)

    def kappa(self, point: Point) -> float:
        if not self.shuffled:
            return kappa_of(point.epsilon)
        return shuffled_kappa(self.protocol, point.users, point.epsilon, point.delta, 2**point.bits, self.shuffled)

    def run(self, point: Point) -> Run:
        return Run(point.users, self.kappa(point), point.quantile, float(point.bits), point.bits**self.stretch)


class Point(NamedTuple):
    """One setting. cliff: how steep the cliff is, from 0 to 1. sided: with people on either side where possible."""

    users: int
    epsilon: float
    quantile: float
    bits: int
    delta: float
    cliff: float
    sided: bool


ROWS = (
    Row(PLAIN, "isotonic", points=(2400, 240, 3600)),
    Row("bayeslearn/local", "bayeslearn", stretch=0.5, largest=10_000),
    Row("bayess/local", "bayess", stretch=0.5, largest=10_000),
    Row("naive/local", "naive", stretch=0.5, epsilons=HONEST),
    Row("hierarchical/local", "hierarchical", options=(("encoding", "oue"),), stretch=1.0, points=(96, 28, 64)),
    Row("isotonic/shuffle", "isotonic", "exact", points=(96, 0, 0), families=("typical",)),
)

# A shuffled naive search is the local one with another coin in every round.
SAME = {"naive/shuffle-exact": "naive/local", "naive/shuffle-lemma": "naive/local"}


def points(row: Row, family: str) -> list[Point]:
    """The settings of one family of a row."""
    count = row.points[list(settings.FAMILIES).index(family)]
    return [_point(row, family, *coordinates) for coordinates in settings.spread_evenly(count, 6).tolist()]


def _point(row: Row, family: str, e: float, c: float, q: float, b: float, d: float, z: float) -> Point:
    if family == "hardest":
        c = _CLIFF_CROWD + (1.0 - _CLIFF_CROWD) * c
    epsilon, delta = settings.between(row.epsilons, e), settings.between(settings.DELTAS, d)
    scores = [NormalDist().inv_cdf(end) for end in settings.QUANTILES]
    quantile = NormalDist().cdf(scores[0] + q * (scores[1] - scores[0]))
    bits = round(settings.BITS[0] + b * (settings.BITS[1] - settings.BITS[0]))
    if row.shuffled:
        users = settings.between((3.0 * settings.USERS[0], row.largest), c)
    else:
        information = settings.crowd(c) * bits ** (2.0 * row.stretch)
        users = min(max(information / kappa_of(epsilon) ** 2, settings.USERS[0]), row.largest)
    whole = round(users) if users <= LISTED else LISTED * round(users / LISTED)
    return Point(whole, epsilon, quantile, bits, delta, z, d >= _ONE_SIDED)


def cells(trials: int, rows: tuple[Row, ...] = ROWS, pace_points: int = paces.POINTS) -> list[Cell]:
    """All cells, those of the paces included: what a plain run's law is stretched by."""
    return [*_of_rows(trials, rows), *paces.cells(max(trials // 2, 1), pace_points)]


def _of_rows(trials: int, rows: tuple[Row, ...]) -> list[Cell]:
    return [
        Cell(
            source,
            row.template(point),
            trials=trials if family != "lumpy" else max(trials // 2, 1),
            redraw=1,
            notes=(("cell", name(row.name, family, index, shape)),),
        )
        for row in rows
        for family in row.families
        for index, point in enumerate(points(row, family))
        for shape, source in _sources(row, family, point)
    ]


def _sources(row: Row, family: str, point: Point) -> Iterator[tuple[str, Drawn | Cliff]]:
    if family != "hardest":
        yield from ((shape, Drawn(shape, point.users, 2**point.bits)) for shape in settings.FAMILIES[family])
        return
    alpha = _cliff(row, point)
    if alpha is not None:
        yield "cliff", Cliff(point.users, 2**point.bits, point.quantile, alpha)


def _cliff(row: Row, point: Point) -> float | None:
    """The cliff's alpha, up to the far end of the ranks; None if even the least passes it."""
    scale = float(unit(row.run(point))) * math.sqrt(point.bits)
    near, far = sorted((point.quantile, 1.0 - point.quantile))
    least, most = (steep * scale for steep in _STEEP)
    most = min(most, 0.95 * near if point.sided and least < 0.9 * near else 0.9 * far)
    return settings.between((least, most), point.cliff) if least < most else None


def report(results: Results, rows: tuple[Row, ...] = ROWS, pace_points: int = paces.POINTS) -> dict[str, Any]:
    """The document the planner reads."""
    found = results.by_note("cell")
    laws: dict[str, dict[str, Any]] = {
        row.name: {"stretch": row.stretch} | {family: _law(row, family, found) for family in row.families}
        for row in rows
    }
    trials = results.outcomes[0].trials
    plain = law_of(laws[PLAIN]["typical"])
    return {
        "made_by": f"python -m studies calibration --trials {trials} --seed {results.seed}",
        "version": __version__,
        "form": FORM,
        "families": settings.FAMILIES,
        "measured": {
            "epsilon": settings.EPSILONS,
            "quantile": settings.QUANTILES,
            "bits": settings.BITS,
            "users": settings.USERS,
            "delta": settings.DELTAS,
        },
        "laws": laws | {name: laws[same] for name, same in SAME.items() if same in laws},
        "paces": paces.report(found, plain, pace_points),
    }


def _law(row: Row, family: str, found: dict[Any, Outcome]) -> dict[str, Any]:
    entries = []
    for index, point in enumerate(points(row, family)):
        for shape in settings.FAMILIES[family]:
            outcome = found.get(name(row.name, family, index, shape))
            if outcome is not None:
                entries += list(_counted(row, outcome, family, point))
    features = "cliff" if family == "hardest" else "smooth" if row.name == PLAIN and family == "typical" else "few"
    law = fitted(as_counts(pooled(entries)), features)
    return {"tie_credit": _TIE_CREDIT if family == "typical" else 0.0} | law


def _counted(row: Row, outcome: Outcome, family: str, point: Point) -> Iterator[Entry]:
    """(z, side, run, runs, how many passed) for every alpha at which there is a rank to pass."""
    run = row.run(point)
    if family == "hardest":
        alpha = _cliff(row, point)
        assert alpha is not None
        # Whole users: the foot of the cliff is off by alpha or a little more, and so is its top.
        seen = cliff_run(run)
        yield (
            alpha / float(unit(seen)),
            int(alpha < min(point.quantile, 1.0 - point.quantile)),
            seen,
            outcome.trials,
            int((outcome.rank_errors() > alpha * (1.0 - 1e-9)).sum()),
        )
        return
    yield from errors_counted(run, outcome, 0, tied=family == "lumpy")


def write(document: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n")

"""Measure what the planner plans with: rank errors of every protocol on a grid of settings.

The result is `privquant/planning/calibration.json`; `privquant calibrate` makes it anew. Data are drawn afresh
every ten trials from five shapes: "typical" is the middle one of the five errors, "hardest" the largest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant import __version__
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.source import Drawn
from privquant.lab.experiment.template import Registered, Shuffled, Template
from privquant.lab.studies.table import name

SHAPES = ("pareto", "uniform", "lognormal", "ties", "tiny")
LOG2_SIZES = (8, 20, 48)
QUANTILES = (0.5, 0.9, 0.99)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
CONFIDENCES = (0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
USERS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000, 10_000_000)
DELTA = 1e-8


@dataclass(frozen=True)
class Row:
    """One line of the table: which protocol, and up to how many users it is worth simulating.

    shuffled: "" or the accounting method of shuffled rounds.
    """

    name: str
    protocol: str
    shuffled: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    largest: int = USERS[-1]

    @property
    def users(self) -> tuple[int, ...]:
        return tuple(n for n in USERS if n <= self.largest)

    def template(self, epsilon: float, quantile: float) -> Template:
        if self.shuffled:
            return Shuffled(self.protocol, epsilon, DELTA, (quantile,), self.shuffled)
        return Registered(self.protocol, epsilon, (quantile,), self.options)

    def points(self) -> Iterator[tuple[int, float, float, int]]:
        """log2 of the domain's size, quantile, epsilon, users: in the order of the table."""
        return product(LOG2_SIZES, QUANTILES, EPSILONS, self.users)


ROWS = (
    Row("isotonic/local", "isotonic"),
    Row("bayeslearn/local", "bayeslearn", largest=10_000),
    Row("bayess/local", "bayess", largest=10_000),
    Row("naive/local", "naive"),
    Row("hierarchical/local", "hierarchical", options=(("encoding", "oue"),)),
    Row("isotonic/shuffle", "isotonic", "exact"),
    Row("naive/shuffle-exact", "naive", "exact"),
    Row("naive/shuffle-lemma", "naive", "lemma"),
)


def cells(trials: int, rows: tuple[Row, ...] = ROWS) -> list[Cell]:
    return [
        Cell(
            Drawn(shape, users, 2**log2_size),
            row.template(epsilon, quantile),
            trials=trials,
            redraw=max(min(10, trials // 4), 1),
            notes=(("cell", name(row.name, log2_size, quantile, epsilon, users, shape)),),
        )
        for row in rows
        for log2_size, quantile, epsilon, users in row.points()
        for shape in SHAPES
    ]


def report(results: Results, rows: tuple[Row, ...] = ROWS) -> dict[str, Any]:
    """The document the planner reads."""
    found = results.by_note("cell")
    errors = {}
    for row in rows:
        typical, hardest = [], []
        for point in row.points():
            by_shape = [_error_quantiles(found[name(row.name, *point, s)].rank_errors()) for s in SHAPES]
            typical.append(np.median(by_shape, axis=0))
            hardest.append(np.max(by_shape, axis=0))
        shape = (len(LOG2_SIZES), len(QUANTILES), len(EPSILONS), len(row.users), len(CONFIDENCES))
        table = {"typical": np.reshape(typical, shape).tolist(), "hardest": np.reshape(hardest, shape).tolist()}
        errors[row.name] = {"users": row.users, "table": table}
    trials = results.outcomes[0].trials
    return {
        "made_by": f"privquant calibrate --trials {trials} --seed {results.seed}",
        "version": __version__,
        "shapes": SHAPES,
        "trials_a_shape": trials,
        "delta": DELTA,
        "log2_sizes": LOG2_SIZES,
        "quantiles": QUANTILES,
        "epsilons": EPSILONS,
        "confidences": CONFIDENCES,
        "errors": errors,
    }


def _error_quantiles(errors: NDArray[np.float64]) -> list[float]:
    return [float(f"{v:.3g}") for v in np.quantile(errors, CONFIDENCES, method="higher")]


def write(document: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")

"""Does an interval cover what it claims to? Certified intervals beside a set that is known to fail.

Each trial draws a new distribution and new users from it, runs isotonic search with a certified interval, and
looks whether the POPULATION's quantile is inside. The likelihood-ratio set of a plain search, which a textbook
would print, is the negative control: the same harness shows that it does not cover.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.source import Drawn
from studies.limits import rank_unit
from studies.table import Runs, markdown, name, size_text

CONFIDENCE = 0.95
SHAPES = (
    ("pareto", 4**9),
    ("uniform", 10**6),
    ("lognormal", 2**62),
    ("tiny", 2**32),
    ("ties", 10**6),
    ("atom", 2**32),
    ("gap", 10**6),
    ("gap48", 10**6),
)
# where the negative control is run: the flat stretch at the quantile is what likelihood-ratio sets do not survive
CONTROLS = ("pareto", "gap", "gap48")
EPSILONS = (0.569, 0.879, 1.357)
USERS = (2500, 10_000)


@dataclass(frozen=True)
class Coverage:
    """Shares of trials, and widths in units of sd / (kappa sqrt n) of rank.

    covered:         share of trials whose claim has the population's quantile.
    below, above:    how often it lies wholly on one side of it.
    width:           the median of its width in rank, F(high) - F(low - 1).
    no_bound:        share of trials without a bound on one side or both.
    error:           root mean square rank error of the answer given beside it.
    """

    covered: float
    below: float
    above: float
    width: float
    no_bound: float
    error: float

    @classmethod
    def of(cls, cell: Cell, outcome: Outcome) -> Coverage:
        unit = rank_unit(cell.epsilon, cell.quantile, outcome.n)
        below, above = outcome.missed()
        return cls(
            covered=1.0 - float((below | above).mean()),
            below=float(below.mean()),
            above=float(above.mean()),
            width=float(np.median(outcome.widths())) / unit,
            no_bound=float(outcome.unbounded().mean()),
            error=math.sqrt(float((outcome.rank_errors() ** 2).mean())) / unit,
        )


def cell(shape: str, size: int, epsilon: float, users: int, claim: str, trials: int) -> Cell:
    """Every trial of it has a distribution of its own."""
    return Cell.of(
        Drawn(shape, users, size),
        "isotonic",
        epsilon,
        options={"interval": CONFIDENCE} if claim == "certified" else {},
        claim=claim,
        trials=trials,
        redraw=1,
        notes={"cell": name("coverage", shape, size, epsilon, users, claim)},
    )


def cells(runs: Runs) -> list[Cell]:
    return [
        cell(shape, size, epsilon, users, claim, runs.trials)
        for users in USERS
        for epsilon in EPSILONS
        for shape, size in SHAPES
        for claim in ("certified", "likelihood-ratio")
        if claim == "certified" or shape in CONTROLS
    ]


def coverages(results: Results) -> dict[str, Coverage]:
    """What each claim came to, by the name of its cell."""
    return {
        dict(cell.notes)["cell"]: Coverage.of(cell, outcome)
        for cell, outcome in results
        if cell.claim and "cell" in dict(cell.notes)
    }


def report(results: Results) -> str:
    found = coverages(results)
    rows = []
    for users in USERS:
        for shape, size in SHAPES:
            names = [name("coverage", shape, size, epsilon, users) for epsilon in EPSILONS]
            certified = [found[f"{n} certified"] for n in names]
            controls = [found[f"{n} likelihood-ratio"] for n in names] if shape in CONTROLS else []
            rows.append(
                [
                    f"{shape} {size_text(size)}",
                    users,
                    *(f"{c.covered:.3f}" for c in certified),
                    *(f"{c.width:.1f}" for c in certified),
                    *(f"{c.no_bound:.2f}" for c in certified),
                    *(f"{c.error:.2f}" for c in certified),
                    *([f"{c.covered:.2f}" for c in controls] or ["-"] * len(EPSILONS)),
                ]
            )
    parts = ("coverage", "width", "no bound", "error", "control")
    head = ("data", "n", *(f"{part} {epsilon}" for part in parts for epsilon in EPSILONS))
    text = "Certified 95 % intervals; widths and errors in units of sd / (kappa sqrt n) of rank\n\n"
    return text + markdown(head, rows)

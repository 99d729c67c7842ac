"""Users for 90 % success, isotonic search against DpBayeSS.

Success is measured at numbers of users a quarter apart; a straight line of its normal score in sqrt(users) is read
at 90 %.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.source import Drawn
from studies.search.success import ALPHA
from studies.table import Runs, markdown, name, size_text

WANTED = 0.9

# shape, size, epsilon, and the numbers of users tried, from below 85 % success to above 93 %; "published" is
# DpBayeSS as the authors' program has it
ROWS: tuple[tuple[str, int, float, dict[str, tuple[int, ...]]], ...] = (
    (
        "pareto",
        4**9,
        0.879,
        {
            "isotonic": (1600, 2000, 2500, 3125),
            "bayess": (4000, 5000, 6250, 7812, 9766),
            "published": (5000, 6250, 7812, 9766, 12_207),
        },
    ),
    (
        "pareto",
        4**9,
        1.357,
        {
            "isotonic": (640, 800, 1000, 1250, 1562),
            "bayess": (2000, 2500, 3125, 3906, 4883),
            "published": (3125, 3906, 4883, 6104, 7629),
        },
    ),
    ("uniform", 10**6, 0.879, {"isotonic": (1600, 2000, 2500, 3125), "bayess": (3200, 4000, 5000, 6250, 7812)}),
    ("lognormal", 2**62, 0.879, {"isotonic": (1600, 2000, 2500, 3125), "bayess": (7812, 9766, 12_207, 15_259)}),
    ("tiny", 2**32, 0.879, {"isotonic": (2000, 2500, 3125, 3906), "bayess": (12_207, 15_259, 19_073, 23_842)}),
)
TITLES = {"bayess": "DpBayeSS", "published": "DpBayeSS, authors' program"}


def cells(runs: Runs) -> list[Cell]:
    return [
        Cell.of(
            Drawn(shape, n, size),
            "bayess" if rival == "published" else rival,
            epsilon,
            options={"behaviour": "published"} if rival == "published" else {},
            notes={"cell": name("users", shape, size, epsilon, rival, n)},
            **runs._asdict(),
        )
        for shape, size, epsilon, grids in ROWS
        for rival, grid in grids.items()
        for n in grid
    ]


def users_for(rates: dict[int, float]) -> float:
    normal = NormalDist()
    users = np.sqrt(np.array(sorted(rates), float))
    # A rate of 0 or 1 has no score; neither says more than these.
    scores = np.array([normal.inv_cdf((1.0 + min(max(rates[n], 1e-4), 0.9999)) / 2.0) for n in sorted(rates)])
    slope, height = np.polyfit(users, scores, 1)
    return float(((normal.inv_cdf((1.0 + WANTED) / 2.0) - height) / slope) ** 2)


def users_for_90(rates: dict[int, float], trials: int) -> tuple[float, float]:
    """Users for 90 % success, and the standard error that the number of trials leaves (a fixed-seed bootstrap)."""
    rng = np.random.default_rng(90)
    again = [
        users_for({n: float(rng.binomial(trials, rate)) / trials for n, rate in rates.items()}) for _ in range(200)
    ]
    return users_for(rates), float(np.std(again))


class Needed(NamedTuple):
    """Users each needs, and how many times isotonic search's the rival needs, with its standard error."""

    shape: str
    size: int
    epsilon: float
    rival: str
    its_users: float
    our_users: float
    ratio: float
    error: float
    its_rates: dict[int, float]
    our_rates: dict[int, float]


def needed(results: Results) -> list[Needed]:
    found = results.by_note("cell")
    rows = []
    for shape, size, epsilon, grids in ROWS:
        outcomes = {
            rival: {n: found[name("users", shape, size, epsilon, rival, n)] for n in grid}
            for rival, grid in grids.items()
        }
        rates = {rival: {n: o.success(ALPHA) for n, o in grid.items()} for rival, grid in outcomes.items()}
        trials = next(iter(outcomes["isotonic"].values())).trials
        ours, our_error = users_for_90(rates["isotonic"], trials)
        for rival in (r for r in grids if r != "isotonic"):
            theirs, their_error = users_for_90(rates[rival], trials)
            ratio = theirs / ours
            error = ratio * math.hypot(our_error / ours, their_error / theirs)
            known = (rates[rival], rates["isotonic"])
            rows.append(Needed(shape, size, epsilon, rival, theirs, ours, ratio, error, *known))
    return rows


def report(results: Results) -> str:
    rows = [
        [
            f"{row.shape} {size_text(row.size)}",
            row.epsilon,
            TITLES[row.rival],
            f"{row.its_users:.0f}",
            f"{row.our_users:.0f}",
            f"{row.ratio:.2f} +- {row.error:.2f}",
            *(" ".join(f"{rate:.3f}@{n}" for n, rate in rates.items()) for rates in (row.its_rates, row.our_rates)),
        ]
        for row in needed(results)
    ]
    head = ("data", "epsilon", "rival", "its users", "isotonic's", "ratio", "success: rival", "success: isotonic")
    return "Users for 90 % success within 0.04 (ratio with its standard error)\n\n" + markdown(head, rows)

"""Exact shuffle accounting against the paper's lemma and the bounds in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privquant.lab.experiment.results import Results, versions
from privquant.privacy.comparison import coin_noise
from privquant.privacy.shuffle import local_epsilon
from studies import style
from studies.paper.figure import Drawing, Figure

BATCH = 625_000  # a round of the paper's run: 10^7 users, log2(4^8) = 16 rounds
DELTA = 1e-8
RTOL = 1e-2  # of delta; the local epsilon then has three digits
GRID = tuple(float(e) for e in np.geomspace(0.05, 5.0, 13))


def rows(grid: Sequence[float] = GRID) -> list[dict[str, Any]]:
    """The most honest coin each method allows, and the standard deviation it leaves on a count of the batch."""
    made = []
    for method, (label, _) in style.METHODS.items():
        for epsilon in grid:
            local = local_epsilon(epsilon=epsilon, delta=DELTA, batch=BATCH, method=method, rtol=RTOL)
            made.append(
                {
                    "method": method,
                    "label": label,
                    "batch": BATCH,
                    "delta": DELTA,
                    "epsilon": epsilon,
                    "local_epsilon": local,
                    "count_sd": coin_noise(local, BATCH) * BATCH,
                    **versions(),
                }
            )
    return made


def _draw(found: Results) -> Drawing:
    figure, (left, right) = style.panels(2)
    table = rows()
    for method, (label, look) in style.METHODS.items():
        own = [row for row in table if row["method"] == method]
        x = [row["epsilon"] for row in own]
        left.plot(x, [row["local_epsilon"] for row in own], label=label, **look.line())
        right.plot(x, [row["count_sd"] for row in own], label=label, **look.line())
    left.plot(GRID, GRID, label="no shuffling", **style.LIMIT.bare())
    right.plot(GRID, [coin_noise(e, BATCH) * BATCH for e in GRID], **style.LIMIT.bare())
    right.set_yscale("log")
    for panel in (left, right):
        style.epsilon_axis(panel, label="promised ε (δ = 10$^{-8}$)")
    left.set_ylabel("largest local ε allowed")
    left.set_title("One shuffled batch of 625 000 users")
    right.set_ylabel("noise on a count (sd, users)")
    right.set_title("what it costs in accuracy")
    style.legend_below(figure, left, columns=3)
    return Drawing(figure, table)


FIGURES = (
    Figure(
        "accounting",
        "Exact shuffle accounting against the lemma and the bounds in between: local epsilon and noise",
        lambda effort: [],
        _draw,
    ),
)

"""The paper's search for the constant c of alpha~ = c sqrt(ln B / n): success of DpBayeSS against c.

Figure 2: Pareto data, n = 2500 with B = 4^9 and n = 5000 with B = 4^8, eps = 0.5, 1, 1.5; the error's distribution
for every c at eps = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privquant.lab.data import dataset
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from studies import style
from studies.paper.draw import hollow, recorded_handle
from studies.paper.figure import Drawing, Effort, Figure, lines, note
from studies.paper.mechanisms import BAYESS
from studies.published import CONSTANTS as RECORDED
from studies.published import recorded_runs

CONSTANTS = tuple(float(c) for c in np.linspace(0.1, 2.0, 10))
EPSILONS = (0.5, 1.0, 1.5)
CHOSEN = 0.6
_LOOKS = (style.Look("#E69F00", "D"), style.Look("#D55E00", "o"), style.Look("#7A2A8C", "P"))


def _cells(n: int, size: int, effort: Effort) -> list[Cell]:
    data = dataset("pareto", n=n, size=size)
    return [
        BAYESS.cell(data, epsilon, options={"c": c}, trials=effort.trials, notes={"c": c})
        for epsilon in EPSILONS
        for c in effort.thin(CONSTANTS, every=3)
    ]


def _success(axes: Any, found: Results, epsilon: float, look: style.Look) -> None:
    for _, pairs in lines(found.where(lambda cell: cell.epsilon == epsilon)):
        rates, errors = zip(*(outcome.success_rate(style.ALPHA) for _, outcome in pairs), strict=True)
        constants = [note(cell, "c") for cell, _ in pairs]
        style.bars(axes, constants, rates, errors, **look.line(label=f"ε = {epsilon:g}"))


def _distribution(axes: Any, found: Results) -> None:
    import matplotlib

    shades = matplotlib.colormaps["viridis"]
    for cell, outcome in found.where(lambda cell: cell.epsilon == 1.0):
        errors = np.sort(outcome.abs_errors())
        c = note(cell, "c")
        axes.step(
            errors,
            np.arange(1, errors.size + 1) / errors.size,
            where="post",
            color=shades((c - CONSTANTS[0]) / (CONSTANTS[-1] - CONSTANTS[0]) * 0.92),
            linewidth=1.1,
            label=f"c = {c:.2g}",
        )
    axes.legend(loc="lower right", ncols=2)


def _draw(n: int, size: int, heading: str, found: Results) -> Drawing:
    figure, (left, right) = style.panels(2, height=1.1)
    published = recorded_runs(RECORDED) if (n, size) == (2500, 4**9) else []
    for epsilon, look in zip(EPSILONS, _LOOKS, strict=True):
        _success(left, found, epsilon, look)
        hollow(left, [row for row in published if row.epsilon == epsilon], look, "c")
    left.axvline(CHOSEN, **style.LIMIT.bare())
    left.annotate(
        f"c = {CHOSEN:g}", (CHOSEN, 0.0), xytext=(4, 0), textcoords="offset points", va="bottom", fontsize=7.5
    )
    left.set_xlabel("constant c")
    style.success_axis(left)
    left.set_title(heading)
    _distribution(right, found)
    style.cdf_axis(right)
    right.set_title("error at ε = 1")
    style.legend_below(figure, left, columns=4, more=[recorded_handle()] if published else ())
    return Drawing(figure, found.rows)


def _figure(n: int, exponent: int, place: str) -> Figure:
    heading = f"DpBayeSS, Pareto data, n = {n}, B = 4$^{exponent}$"
    return Figure(
        f"constant-n{n}-B4e{exponent}",
        f"Search for the constant c: Pareto data, n = {n}, B = 4^{exponent}",
        lambda effort: _cells(n, 4**exponent, effort),
        lambda found: _draw(n, 4**exponent, heading, found),
        place,
    )


FIGURES = (_figure(2500, 9, "Figure 2a"), _figure(5000, 8, "Figure 2b"))

"""What the paper could not run: n = 10^7 for every protocol, domains up to 2^63, other quantiles, hard shapes.

Every registered protocol is in each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from privquant.lab.cells import Cell
from privquant.lab.data import dataset
from privquant.lab.paper import style
from privquant.lab.paper.arms import Arm, every_protocol
from privquant.lab.paper.figure import Drawing, Effort, Figure, Lines
from privquant.lab.paper.limit import mean_rank_error
from privquant.lab.paper.pareto import error_bars
from privquant.lab.sweep import Sweep

MANY = 10**7
EXPONENTS = (8, 16, 24, 32, 40, 48, 56, 63)
QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# Protocols that ask every user another threshold pay for each of them; the others' trials cost the same at any n.
BY_USER = ("bayess", "bayeslearn")


def mean_errors(axes: Any, lines: Lines, arms: tuple[Arm, ...], x: Callable[[Cell], float]) -> None:
    """Mean rank errors with one standard deviation of the mean."""
    looks = {arm.label: arm.look for arm in arms}
    for label, pairs in lines:
        errors = [outcome.rank_errors(cell.quantile) for cell, outcome in pairs]
        axes.errorbar(
            [x(cell) for cell, _ in pairs],
            [e.mean() for e in errors],
            yerr=[e.std() / np.sqrt(e.size) for e in errors],
            label=label,
            capsize=2,
            elinewidth=0.9,
            **looks[label].line(),
        )
    axes.set_yscale("log")
    axes.set_ylabel("mean rank error")


# -- n = 10^7 --------------------------------------------------------------------------------------------------


def _many_cells(effort: Effort) -> list[Cell]:
    data = dataset("pareto", n=MANY, size=4**8)
    made = []
    for arm in every_protocol():
        by_user = arm.protocol in BY_USER
        epsilons = effort.epsilons[::2] if by_user and effort.quick else effort.epsilons
        trials = effort.some(40, 2) if by_user else effort.some(200, 20)
        made += [arm.cell(data, e, trials=trials) for e in epsilons]
    return made


def _many(found: Sweep) -> Drawing:
    figure, (left, right) = style.panels(2)
    arms = every_protocol()
    mean_errors(left, Lines(found), arms, lambda cell: cell.epsilon)
    grid = np.geomspace(0.1, 5, 60)
    left.plot(grid, [mean_rank_error(e, MANY) for e in grid], label="limit of one bit a user", **style.LIMIT.bare())
    style.epsilon_axis(left)
    left.set_title("Pareto data, n = 10$^7$, B = 4$^8$")
    looks = {arm.label: arm.look for arm in arms}
    for label, pairs in Lines(found):
        ratio = [o.rank_errors(0.5).mean() / mean_rank_error(c.epsilon, MANY) for c, o in pairs]
        right.plot([c.epsilon for c, _ in pairs], ratio, label=label, **looks[label].line())
    right.axhline(1.0, **style.LIMIT.bare())
    right.set_yscale("log")
    right.set_ylabel("mean rank error / limit")
    style.epsilon_axis(right)
    right.set_title("against the limit")
    style.legend_below(figure, left, columns=3)
    return Drawing(figure, found.rows)


# -- B up to 2^63 ----------------------------------------------------------------------------------------------


def _huge_cells(effort: Effort) -> list[Cell]:
    sets = [
        dataset(name, n=2500, size=2**k) for name in ("pareto", "uniform-interval") for k in effort.thin(EXPONENTS)
    ]
    return [arm.cell(data, 1.0, trials=effort.trials) for arm in every_protocol() for data in sets]


def _huge(found: Sweep) -> Drawing:
    figure, axes = style.panels(2)
    arms = every_protocol()
    headings = {"pareto": "Pareto data", "uniform-interval": "Uniform on a random interval"}
    for panel, (name, heading) in zip(axes, headings.items(), strict=True):
        lines = Lines(found).where(lambda cell, name=name: cell.data.name == name)  # type: ignore[misc]
        error_bars(panel, lines, arms, lambda cell: float(np.log2(cell.data.size)))
        ticks = EXPONENTS
        panel.set_xticks(ticks, [f"2$^{{{k}}}$" for k in ticks])
        panel.set_xlabel("domain size B")
        style.success_axis(panel)
        panel.set_title(f"{heading}, n = 2500, ε = 1")
    style.legend_below(figure, axes[0], columns=5)
    return Drawing(figure, found.rows)


# -- other quantiles -------------------------------------------------------------------------------------------


def _quantile_cells(effort: Effort) -> list[Cell]:
    sets = [dataset(name, n=10_000, size=4**9) for name in ("pareto", "uniform-interval")]
    return [
        arm.cell(data, 1.0, quantile=q, trials=effort.trials)
        for arm in every_protocol()
        for data in sets
        for q in effort.thin(QUANTILES)
    ]


def _quantiles(found: Sweep) -> Drawing:
    figure, axes = style.panels(2)
    arms = every_protocol()
    headings = {"pareto": "Pareto data", "uniform-interval": "Uniform on a random interval"}
    for panel, (name, heading) in zip(axes, headings.items(), strict=True):
        lines = Lines(found).where(lambda cell, name=name: cell.data.name == name)  # type: ignore[misc]
        mean_errors(panel, lines, arms, lambda cell: cell.quantile)
        limit = mean_rank_error(1.0, 10_000)
        panel.axhline(limit, label="limit of one bit a user", **style.LIMIT.bare())
        panel.set_xlabel("quantile q")
        panel.set_title(f"{heading}, n = 10$^4$, B = 4$^9$, ε = 1")
    style.legend_below(figure, axes[0], columns=3)
    return Drawing(figure, found.rows)


# -- hard shapes -----------------------------------------------------------------------------------------------


def _shapes() -> tuple[str, ...]:
    from privquant.lab.data import dataset_names

    return tuple(name for name in dataset_names() if name != "uniform")  # the recipe's own stands for it


def _shape_cells(effort: Effort) -> list[Cell]:
    sets = [dataset(name, n=2500, size=2**32) for name in _shapes()]
    return [
        arm.cell(data, epsilon, trials=effort.trials)
        for epsilon in (0.879, 1.357)
        for arm in every_protocol()
        for data in sets
    ]


def _shape_panel(axes: Any, found: Sweep, epsilon: float, arms: tuple[Arm, ...]) -> None:
    looks = {arm.label: arm.look for arm in arms}
    names = list(_shapes())
    for label, pairs in Lines(found).where(lambda cell: cell.epsilon == epsilon):
        axes.plot(
            [outcome.success(0.5, style.ALPHA) for _, outcome in pairs],
            [names.index(cell.data.name) for cell, _ in pairs],
            label=label,
            **looks[label].line(linestyle="none", markersize=6, alpha=0.9),
        )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel(f"success rate (α = {style.ALPHA:g})")
    axes.set_title(f"n = 2500, B = 2$^{{32}}$, ε = {epsilon:g}")


def _shape_drawing(found: Sweep) -> Drawing:
    figure, axes = style.panels(2, height=1.25)
    arms = every_protocol()
    for panel, epsilon in zip(axes, (0.879, 1.357), strict=True):
        _shape_panel(panel, found, epsilon, arms)
    axes[1].tick_params(labelleft=False)
    style.legend_below(figure, axes[0], columns=5)
    return Drawing(figure, found.rows)


FIGURES = (
    Figure(
        "many-users",
        "Every protocol at n = 10^7, B = 4^8: mean rank error against epsilon, and against the limit",
        "beyond the paper",
        _many_cells,
        _many,
    ),
    Figure(
        "huge-domains",
        "Every protocol for B up to 2^63: Pareto and uniform data, n = 2500, epsilon = 1",
        "beyond the paper",
        _huge_cells,
        _huge,
    ),
    Figure(
        "quantiles",
        "Every protocol at quantiles 0.05 .. 0.95: Pareto and uniform data, n = 10^4, B = 4^9, epsilon = 1",
        "beyond the paper",
        _quantile_cells,
        _quantiles,
    ),
    Figure(
        "shapes",
        "Every protocol on the hard shapes: n = 2500, B = 2^32",
        "beyond the paper",
        _shape_cells,
        _shape_drawing,
    ),
)

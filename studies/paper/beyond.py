"""What the paper could not run: n = 10^7 for every protocol, domains up to 2^63, other quantiles, hard shapes.

Every registered protocol is in each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from privquant.lab.data import dataset, dataset_names
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from studies import style
from studies.limits import mean_rank_error
from studies.paper.draw import error_bars, mean_errors
from studies.paper.figure import Drawing, Effort, Figure, lines
from studies.paper.mechanisms import every_protocol

MANY = 10**7
EXPONENTS = (8, 16, 24, 32, 40, 48, 56, 63)
QUANTILES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
# Protocols that ask every user another threshold pay for each of them; the others' trials cost the same at any n.
BY_USER = ("bayess", "bayeslearn")


def _by_data(
    found: Results, draw: Callable[[Any, Results], str], *, columns: int, uniform: str = "Uniform interval"
) -> Drawing:
    """A panel a data set; `draw` gives what its title says behind the name of the data."""
    figure, axes = style.panels(2)
    for panel, (name, heading) in zip(axes, {"pareto": "Pareto data", "uniform-interval": uniform}.items()):
        here = found.where(lambda cell, name=name: cell.data.name == name)  # type: ignore[misc]
        panel.set_title(f"{heading}, {draw(panel, here)}")
    style.legend_below(figure, axes[0], columns=columns)
    return Drawing(figure, found.rows)


# -- n = 10^7 --------------------------------------------------------------------------------------------------


def _many_cells(effort: Effort) -> list[Cell]:
    made = []
    # In the second every value is rare, so that an error below one user's weight shows.
    fine = dataset("uniform-interval", n=effort.some(MANY, 10**6), size=2**32)
    for data in (dataset("pareto", n=MANY, size=4**8), fine):
        for mechanism in every_protocol():
            by_user = mechanism.protocol in BY_USER
            epsilons = effort.epsilons[::2] if by_user else effort.epsilons
            trials = effort.some(20, 2) if by_user else effort.some(200, 20)
            made += [mechanism.cell(data, e, trials=trials) for e in epsilons]
    return made


def _many(found: Results) -> Drawing:
    grid = np.geomspace(0.1, 5, 60)

    def panel(axes: Any, here: Results) -> str:
        data = here.cells[0].data
        limits = [mean_rank_error(e, data.n) for e in grid]
        axes.plot(grid, limits, label="limit of one bit a user", **style.LIMIT.bare())
        mean_errors(axes, here, every_protocol(), lambda cell: cell.epsilon)
        style.epsilon_axis(axes)
        size = "4$^8$" if data.name == "pareto" else "2$^{32}$"
        return f"n = 10$^{len(str(data.n)) - 1}$, B = {size}"

    return _by_data(found, panel, columns=3)


# -- B up to 2^63 ----------------------------------------------------------------------------------------------


def _huge_cells(effort: Effort) -> list[Cell]:
    sets = [
        dataset(name, n=2500, size=2**k) for name in ("pareto", "uniform-interval") for k in effort.thin(EXPONENTS)
    ]
    return [mechanism.cell(data, 1.0, trials=effort.trials) for mechanism in every_protocol() for data in sets]


def _huge(found: Results) -> Drawing:
    def panel(axes: Any, here: Results) -> str:
        error_bars(axes, here, every_protocol(), lambda cell: float(np.log2(cell.data.domain.size)))
        axes.set_xticks(EXPONENTS, [f"2$^{{{k}}}$" for k in EXPONENTS])
        axes.set_xlabel("domain size B")
        style.success_axis(axes)
        return "n = 2500, ε = 1"

    return _by_data(found, panel, columns=5, uniform="Uniform on a random interval")


# -- other quantiles -------------------------------------------------------------------------------------------


def _quantile_cells(effort: Effort) -> list[Cell]:
    sets = [dataset(name, n=10_000, size=4**9) for name in ("pareto", "uniform-interval")]
    return [
        mechanism.cell(data, 1.0, quantile=q, trials=effort.trials)
        for mechanism in every_protocol()
        for data in sets
        for q in effort.thin(QUANTILES)
    ]


def _quantiles(found: Results) -> Drawing:
    def panel(axes: Any, here: Results) -> str:
        mean_errors(axes, here, every_protocol(), lambda cell: cell.quantile)
        axes.axhline(mean_rank_error(1.0, 10_000), label="limit of one bit a user", **style.LIMIT.bare())
        axes.set_xlabel("quantile q")
        return "n = 10$^4$, B = 4$^9$, ε = 1"

    return _by_data(found, panel, columns=3)


# -- hard shapes -----------------------------------------------------------------------------------------------


def _shape_cells(effort: Effort) -> list[Cell]:
    sets = [dataset(name, n=2500, size=2**32) for name in dataset_names()]
    return [
        mechanism.cell(data, epsilon, trials=effort.trials)
        for epsilon in (0.879, 1.357)
        for mechanism in every_protocol()
        for data in sets
    ]


def _shape_panel(axes: Any, found: Results, epsilon: float) -> None:
    looks = {mechanism.label: mechanism.look for mechanism in every_protocol()}
    names = list(dataset_names())
    for label, pairs in lines(found.where(lambda cell: cell.epsilon == epsilon)):
        axes.plot(
            [outcome.success(style.ALPHA) for _, outcome in pairs],
            [names.index(cell.data.name) for cell, _ in pairs],
            label=label,
            **looks[label].line(linestyle="none", markersize=6, alpha=0.9),
        )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel(f"success rate (α = {style.ALPHA:g})")
    axes.set_title(f"n = 2500, B = 2$^{{32}}$, ε = {epsilon:g}")


def _shape_drawing(found: Results) -> Drawing:
    figure, axes = style.panels(2, height=0.1 * len(dataset_names()))
    for panel, epsilon in zip(axes, (0.879, 1.357), strict=True):
        _shape_panel(panel, found, epsilon)
    axes[1].tick_params(labelleft=False)
    style.legend_below(figure, axes[0], columns=5)
    return Drawing(figure, found.rows)


FIGURES = (
    Figure(
        "many-users",
        "Every protocol at n = 10^7: Pareto data in B = 4^8, uniform data in B = 2^32, mean rank error and limit",
        _many_cells,
        _many,
    ),
    Figure(
        "huge-domains",
        "Every protocol for B up to 2^63: Pareto and uniform data, n = 2500, epsilon = 1",
        _huge_cells,
        _huge,
    ),
    Figure(
        "quantiles",
        "Every protocol at quantiles 0.05 .. 0.95: Pareto and uniform data, n = 10^4, B = 4^9, epsilon = 1",
        _quantile_cells,
        _quantiles,
    ),
    Figure(
        "shapes",
        "Every protocol on the hard shapes: n = 2500, B = 2^32",
        _shape_cells,
        _shape_drawing,
    ),
)

"""The paper's comparison over domain sizes: uniform data on a random interval, n = 2500, eps = 0.5 and 1.

Figures 1b and 3: success against B, and the error's distribution at B = 10^6.
"""

from __future__ import annotations

from privquant.lab.data import dataset
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from studies import style
from studies.paper.draw import error_bars, error_cdf, hollow, recorded_handle
from studies.paper.figure import Drawing, Effort, Figure
from studies.paper.mechanisms import BAYESS, NAIVE, OWN
from studies.published import recorded

SIZES = (100, 10**3, 10**4, 10**5, 10**6)
MECHANISMS = (BAYESS, NAIVE, OWN)


def _cells(epsilon: float, effort: Effort) -> list[Cell]:
    sets = [dataset("uniform-interval", n=2500, size=size) for size in SIZES]
    return [mechanism.cell(data, epsilon, trials=effort.trials) for mechanism in MECHANISMS for data in sets]


def _draw(epsilon: float, found: Results) -> Drawing:
    figure, (left, right) = style.panels(2)
    error_bars(left, found, MECHANISMS, lambda cell: cell.data.domain.size)
    published = [row for row in recorded("uniform-interval", n=2500) if row.epsilon == epsilon]
    for mechanism in MECHANISMS:
        hollow(left, [row for row in published if row.mechanism == mechanism.label], mechanism.look, "size")
    left.set_xscale("log")
    left.minorticks_off()
    left.set_xlabel("domain size B")
    style.success_axis(left)
    left.set_title(f"Uniform on a random interval, n = 2500, ε = {epsilon:g}")
    error_cdf(right, found.where(lambda cell: cell.data.domain.size == SIZES[-1]), MECHANISMS)
    style.cdf_axis(right, most=0.3)
    right.set_title("error at B = 10$^6$")
    style.legend_below(figure, left, columns=4, more=[recorded_handle()] if published else ())
    return Drawing(figure, found.rows)


def _figure(epsilon: float, place: str) -> Figure:
    return Figure(
        f"uniform-eps{epsilon:g}",
        f"Uniform data, n = 2500, epsilon = {epsilon:g}: success against B, error at 10^6",
        lambda effort: _cells(epsilon, effort),
        lambda found: _draw(epsilon, found),
        place,
    )


FIGURES = (_figure(0.5, "Figure 3a"), _figure(1.0, "Figures 1b and 3b"))

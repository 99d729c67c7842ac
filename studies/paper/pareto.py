"""The paper's comparison on Pareto data: success against epsilon, and the error's distribution at eps = 0.57.

Figure 1a and the comparison of its appendix: n = 2500, 5000, 7500 and B = 4^8, 4^9, three mechanisms in the
behaviour of the authors' program, and isotonic search beside them. Hollow markers are the recorded runs, where
they exist.
"""

from __future__ import annotations

from privquant.lab.data import DataSet, dataset
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from studies import style
from studies.paper.draw import error_bars, error_cdf, hollow, recorded_handle
from studies.paper.figure import CDF_EPSILON, Drawing, Effort, Figure
from studies.paper.mechanisms import OWN, PAPER
from studies.published import recorded

USERS = (2500, 5000, 7500)
EXPONENTS = (8, 9)
MECHANISMS = (*PAPER, OWN)
IN_PAPER = {(2500, 9): "Figures 1a and 5a", (7500, 8): "Figure 5b"}


def _cells(data: DataSet, effort: Effort) -> list[Cell]:
    return [mechanism.cell(data, e, trials=effort.trials) for mechanism in MECHANISMS for e in effort.epsilons]


def _draw(data: DataSet, heading: str, found: Results) -> Drawing:
    figure, (left, right) = style.panels(2)
    error_bars(left, found, MECHANISMS, lambda cell: cell.epsilon)
    published = recorded("pareto", n=data.n, size=data.size)
    for mechanism in PAPER:
        hollow(left, [row for row in published if row.mechanism == mechanism.label], mechanism.look, "epsilon")
    style.epsilon_axis(left)
    style.success_axis(left)
    left.set_title(heading)
    error_cdf(right, found.where(lambda cell: cell.epsilon == CDF_EPSILON), MECHANISMS)
    style.cdf_axis(right)
    right.set_title(f"error at ε = {CDF_EPSILON:.2f}")
    style.legend_below(figure, left, columns=5, more=[recorded_handle()] if published else ())
    return Drawing(figure, found.rows)


def _figure(n: int, exponent: int) -> Figure:
    data = dataset("pareto", n=n, size=4**exponent)
    heading = f"Pareto data, n = {n}, B = 4$^{exponent}$"
    return Figure(
        f"pareto-n{n}-B4e{exponent}",
        f"Pareto data, n = {n}, B = 4^{exponent}: success against epsilon, error at 0.57",
        lambda effort: _cells(data, effort),
        lambda found: _draw(data, heading, found),
        IN_PAPER.get((n, exponent), "the paper's grid, not printed"),
    )


FIGURES = tuple(_figure(n, exponent) for exponent in EXPONENTS for n in USERS)

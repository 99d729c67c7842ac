"""The paper's comparison on Pareto data: success against epsilon, and the error's distribution at eps = 0.57.

Figure 1a and the comparison of its appendix: n = 2500, 5000, 7500 and B = 4^8, 4^9, three mechanisms in the
behaviour of the authors' program. Hollow markers are the recorded runs, where they exist.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privquant.lab.cells import Cell, success_sd
from privquant.lab.data import DataSet, dataset
from privquant.lab.paper import style
from privquant.lab.paper.arms import PAPER, Arm, look_of
from privquant.lab.paper.figure import CDF_EPSILON, Drawing, Effort, Figure, Lines
from privquant.lab.paper.reference import recorded
from privquant.lab.published import Recorded
from privquant.lab.sweep import Sweep

USERS = (2500, 5000, 7500)
EXPONENTS = (8, 9)
IN_PAPER = {(2500, 9): "Figures 1a and 5a", (7500, 8): "Figure 5b"}


def error_bars(axes: Any, lines: Lines, arms: tuple[Arm, ...], x: Any, alpha: float = style.ALPHA) -> None:
    """Success rates with the paper's error bars: one standard deviation of the rate."""
    for label, pairs in lines:
        rates = [outcome.success(cell.quantile, alpha) for cell, outcome in pairs]
        bars = [success_sd(rate, o.answers.size) for rate, (_, o) in zip(rates, pairs, strict=True)]
        axes.errorbar(
            [x(cell) for cell, _ in pairs],
            rates,
            yerr=bars,
            label=label,
            capsize=2,
            elinewidth=0.9,
            **look_of(label, arms).line(),
        )


def error_cdf(axes: Any, lines: Lines, arms: tuple[Arm, ...]) -> None:
    """The distribution of the paper's absolute quantile error over the trials."""
    for label, pairs in lines:
        errors = np.sort(np.concatenate([outcome.abs_errors() for _, outcome in pairs]))
        shares = np.arange(1, errors.size + 1) / errors.size
        axes.step(
            np.concatenate(([0.0], errors)),
            np.concatenate(([0.0], shares)),
            where="post",
            label=label,
            **look_of(label, arms).bare(),
        )


def hollow(axes: Any, rows: list[Recorded], arm: Arm, x: str) -> None:
    """The recorded runs of one mechanism: hollow markers of its colour."""
    axes.plot(
        [getattr(row, x) for row in rows],
        [row.success for row in rows],
        linestyle="none",
        marker=arm.look.marker,
        markersize=7.5,
        markerfacecolor="none",
        markeredgecolor=arm.look.color,
        markeredgewidth=0.8,
        zorder=1,
    )


def recorded_handle() -> Any:
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], linestyle="none", marker="o", markersize=7.5, markerfacecolor="none", color="#555555",
        label="recorded runs of the paper (hollow)",
    )  # fmt: skip


def _cells(data: DataSet, effort: Effort) -> list[Cell]:
    return [arm.cell(data, e, trials=effort.trials) for arm in PAPER for e in effort.epsilons]


def _draw(data: DataSet, heading: str, found: Sweep) -> Drawing:
    figure, (left, right) = style.panels(2)
    error_bars(left, Lines(found), PAPER, lambda cell: cell.epsilon)
    published = recorded("pareto", n=data.n, size=data.size)
    for arm in PAPER:
        hollow(left, [row for row in published if row.mechanism == arm.label], arm, "epsilon")
    style.epsilon_axis(left)
    style.success_axis(left)
    left.set_title(heading)
    error_cdf(right, Lines(found).where(lambda cell: cell.epsilon == CDF_EPSILON), PAPER)
    style.cdf_axis(right)
    right.set_title(f"error at ε = {CDF_EPSILON:.2f}")
    style.legend_below(figure, left, columns=4, more=[recorded_handle()] if published else ())
    return Drawing(figure, found.rows)


def _figure(n: int, exponent: int) -> Figure:
    data = dataset("pareto", n=n, size=4**exponent)
    heading = f"Pareto data, n = {n}, B = 4$^{exponent}$"
    return Figure(
        f"pareto-n{n}-B4e{exponent}",
        f"Pareto data, n = {n}, B = 4^{exponent}: success against epsilon, error at 0.57",
        IN_PAPER.get((n, exponent), "the paper's grid, not printed"),
        lambda effort: _cells(data, effort),
        lambda found: _draw(data, heading, found),
    )


FIGURES = tuple(_figure(n, exponent) for exponent in EXPONENTS for n in USERS)

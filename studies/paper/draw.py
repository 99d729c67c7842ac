"""What the figures have in common: success with error bars, error distributions, mean errors, recorded runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from studies import style
from studies.paper.figure import lines
from studies.paper.mechanisms import Mechanism, look_of
from studies.published import Recorded


def error_bars(
    axes: Any,
    found: Results,
    mechanisms: Sequence[Mechanism],
    x: Callable[[Cell], float],
    alpha: float = style.ALPHA,
) -> None:
    """Success rates with the paper's error bars: one standard deviation of the rate."""
    for label, pairs in lines(found):
        values, errors = zip(*(outcome.success_rate(alpha) for _, outcome in pairs), strict=True)
        style.bars(
            axes, [x(cell) for cell, _ in pairs], values, errors, **look_of(label, mechanisms).line(label=label)
        )


def error_cdf(axes: Any, found: Results, mechanisms: Sequence[Mechanism]) -> None:
    """The distribution of the paper's absolute quantile error over the trials."""
    for label, pairs in lines(found):
        errors = np.sort(np.concatenate([outcome.abs_errors() for _, outcome in pairs]))
        shares = np.arange(1, errors.size + 1) / errors.size
        axes.step(
            np.concatenate(([0.0], errors)),
            np.concatenate(([0.0], shares)),
            where="post",
            label=label,
            **look_of(label, mechanisms).bare(),
        )


def hollow(axes: Any, rows: list[Recorded], look: style.Look, x: str) -> None:
    """Recorded runs: hollow markers of this look."""
    axes.plot(
        [getattr(row, x) for row in rows],
        [row.success for row in rows],
        linestyle="none",
        marker=look.marker,
        markersize=7.5,
        markerfacecolor="none",
        markeredgecolor=look.color,
        markeredgewidth=0.8,
        zorder=1,
    )


def recorded_handle() -> Any:
    from matplotlib.lines import Line2D

    return Line2D(
        [], [], linestyle="none", marker="o", markersize=7.5, markerfacecolor="none", color="#555555",
        label="recorded runs of the paper (hollow)",
    )  # fmt: skip


def mean_errors(axes: Any, found: Results, mechanisms: Sequence[Mechanism], x: Callable[[Cell], float]) -> None:
    """Mean rank errors with one standard deviation of the mean."""
    smallest = 1.0
    for label, pairs in lines(found):
        errors = [outcome.rank_errors() for cell, outcome in pairs]
        means, deviations = [e.mean() for e in errors], [e.std() / np.sqrt(e.size) for e in errors]
        style.bars(
            axes, [x(cell) for cell, _ in pairs], means, deviations, **look_of(label, mechanisms).line(label=label)
        )
        smallest = min(smallest, *(e.mean() for e in errors if e.any()), 1.0)
    axes.set_yscale("log")
    axes.set_ylim(bottom=smallest / 2)
    axes.set_ylabel("mean rank error")
    style.log_axis(axes.yaxis)

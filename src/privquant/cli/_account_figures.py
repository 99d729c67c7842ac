"""The figures of `privquant account`. matplotlib is loaded only here, only when a figure is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privquant.errors import InvalidInput
from privquant.lab import style
from privquant.privacy.comparison import Saving, coins_by_method
from privquant.privacy.shuffle import METHODS


@contextmanager
def _figure(panels: int, file: Path) -> Iterator[tuple[Any, list[Any]]]:
    """Panels to draw on, written to the file at the end."""
    with style.styled():
        figure, axes = style.panels(panels)
        # Refuse before the curves are computed, not after.
        kinds = figure.canvas.get_supported_filetypes()
        if file.suffix[1:] not in kinds or not file.parent.is_dir():
            raise InvalidInput(
                f"the figure cannot be written to {file}: give a file in an existing folder that ends in one of "
                f"{', '.join(sorted(kinds))}"
            )
        yield figure, axes
        try:
            figure.savefig(file, dpi=160)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"the figure cannot be written to {file}: {error}") from error


def curves(file: Path, *, epsilon: float, delta: float, batch: int, points: int = 17) -> None:
    """Local epsilon and coin noise against the size of the batch, one curve a method."""
    with _figure(2, file) as (figure, (left, right)):
        top = max(batch, 10_000) * 100
        sizes = sorted({round(100 * (top / 100) ** (k / (points - 1))) for k in range(points)})
        found = {
            size: {r.method: r for r in coins_by_method(epsilon=epsilon, delta=delta, batch=size)} for size in sizes
        }
        for method in METHODS:
            results = [found[size][method] for size in sizes]
            label, look = style.METHODS[method]
            left.plot(sizes, [r.local_epsilon for r in results], label=label, **look.line())
            right.plot(sizes, [r.noise_users for r in results], label=label, **look.line())
        right.set_yscale("log")
        for axes, label in ((left, "largest local ε allowed"), (right, "coin noise (sd, users)")):
            axes.set_xscale("log")
            style.log_axis(axes.xaxis)
            axes.set_xlabel("users in the batch")
            axes.set_ylabel(label)
            axes.axvline(batch, **style.LIMIT.bare())
        style.log_axis(right.yaxis)
        left.set_title(f"One shuffled batch, ε = {epsilon:.4g}, δ = {delta:g}")
        right.set_title("what it costs in accuracy")
        style.legend_below(figure, left, columns=3)


def saved(file: Path, rows: Sequence[Saving], *, delta: float) -> None:
    """How many times fewer users exact accounting needs, against the batch, one curve an epsilon."""
    with _figure(1, file) as (figure, (axes,)):
        for place, epsilon in enumerate(sorted({row.epsilon for row in rows})):
            mine = [row for row in rows if row.epsilon == epsilon]
            look = style.SPARE[place % len(style.SPARE)]
            axes.plot(
                [row.batch for row in mine], [row.ratio for row in mine], label=f"ε = {epsilon:g}", **look.line()
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("users with exact accounting")
        axes.set_ylabel("times as many with the lemma")
        axes.set_title(f"Users for the same coin noise, δ = {delta:g}")
        style.log_axis(axes.xaxis)
        axes.set_yticks([4, 6, 8, 10, 20, 40], labels=["4", "6", "8", "10", "20", "40"])
        axes.minorticks_off()
        style.legend_below(figure, axes, columns=4)

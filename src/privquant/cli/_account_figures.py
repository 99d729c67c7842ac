"""The figures of `privquant account`. matplotlib is loaded only here, only when a figure is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privquant.errors import InvalidInput, MissingDependency
from privquant.privacy.comparison import Saving, ladder
from privquant.privacy.shuffle import METHODS

_STYLES = {"exact": "-", "stronger": "--", "clones": "-.", "theorem": ":", "lemma": (0, (5, 1, 1, 1, 1, 1))}


def _figure(panels: int, file: Path) -> tuple[Any, Any]:
    try:
        import matplotlib
    except ImportError:
        raise MissingDependency("drawing a figure", "matplotlib", "lab") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(5.6 * panels, 4.2), squeeze=False, layout="constrained")
    # Refuse before the curves are computed, not after.
    kinds = figure.canvas.get_supported_filetypes()
    if file.suffix[1:] not in kinds or not file.parent.is_dir():
        pyplot.close(figure)
        raise InvalidInput(
            f"the figure cannot be written to {file}: give a file in an existing folder that ends in one of "
            f"{', '.join(sorted(kinds))}"
        )
    return figure, axes


def _save(figure: Any, file: Path) -> None:
    from matplotlib import pyplot

    try:
        figure.savefig(file, dpi=150)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"the figure cannot be written to {file}: {error}") from error
    finally:
        pyplot.close(figure)


def curves(file: Path, *, epsilon: float, delta: float, batch: int, points: int = 17) -> None:
    """Local epsilon and coin noise against the size of the batch, one curve a method."""
    figure, ((left, right),) = _figure(2, file)
    top = max(batch, 10_000) * 100
    sizes = sorted({round(100 * (top / 100) ** (k / (points - 1))) for k in range(points)})
    found = {size: {r.method: r for r in ladder(epsilon=epsilon, delta=delta, batch=size)} for size in sizes}
    for method in METHODS:
        rungs = [found[size][method] for size in sizes]
        left.plot(sizes, [r.local_epsilon for r in rungs], linestyle=_STYLES[method], label=method)
        right.plot(sizes, [r.noise_users for r in rungs], linestyle=_STYLES[method], label=method)
    for axes, label in ((left, "local epsilon"), (right, "coin noise, in users")):
        axes.set_xscale("log")
        axes.set_xlabel("users in the batch")
        axes.set_ylabel(label)
        axes.axvline(batch, color="0.8", zorder=0)
    right.set_yscale("log")
    left.legend()
    figure.suptitle(f"Shuffled randomized response at epsilon {epsilon:.4g}, delta {delta:g}")
    _save(figure, file)


def saved(file: Path, rows: Sequence[Saving], *, delta: float) -> None:
    """How many times fewer users exact accounting needs, against the batch, one curve an epsilon."""
    figure, ((axes,),) = _figure(1, file)
    for epsilon in sorted({row.epsilon for row in rows}):
        mine = [row for row in rows if row.epsilon == epsilon]
        axes.plot([row.batch for row in mine], [row.ratio for row in mine], "o-", label=f"epsilon {epsilon:g}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("users with exact accounting")
    axes.set_ylabel("times as many with the paper's lemma")
    axes.set_title(f"Users needed for the same coin-noise error, delta {delta:g}", fontsize="medium")
    axes.set_yticks([4, 6, 8, 10, 20, 40], labels=["4", "6", "8", "10", "20", "40"])
    axes.minorticks_off()
    axes.legend()
    _save(figure, file)

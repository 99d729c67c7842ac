"""How the figures of the studies look: one colour and marker for one protocol, the same axes in all of them.

What every figure has in common, those of `privquant account` too, is `privquant.lab.style`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privquant.lab.style import LIMIT as LIMIT
from privquant.lab.style import METHODS as METHODS
from privquant.lab.style import SPARE as SPARE
from privquant.lab.style import Look as Look
from privquant.lab.style import legend_below as legend_below
from privquant.lab.style import log_axis as log_axis
from privquant.lab.style import panels as panels
from privquant.lab.style import styled as styled

ALPHA = 0.04  # the paper's alpha_test

_OWN = {
    "naive": ("DpNaiveNBS", Look("#0072B2", "s")),
    "bayess": ("DpBayeSS", Look("#D55E00", "o")),
    "bayeslearn": ("BayesLearn", Look("#E69F00", "D")),
    "hierarchical": ("Hierarchical (descent)", Look("#009E73", "^")),
    "isotonic": ("Isotonic search", Look("#7A2A8C", "P", "-", 1.9)),
}


def look(protocol: str, place: int = 0) -> Look:
    """A protocol's own look; one without takes a spare by its place."""
    return _OWN[protocol][1] if protocol in _OWN else SPARE[place % len(SPARE)]


def title(protocol: str) -> str:
    return _OWN[protocol][0] if protocol in _OWN else protocol


def bars(axes: Any, x: Sequence[float], y: Sequence[float], error: Sequence[float], **line: Any) -> None:
    """Points with error bars."""
    axes.errorbar(x, y, yerr=error, capsize=2, elinewidth=0.9, **line)


def epsilon_axis(axes: Any, *, label: str = "privacy budget ε") -> None:
    ticks = (0.1, 0.2, 0.5, 1, 2, 5)
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_xlabel(label)


def success_axis(axes: Any, *, alpha: float = ALPHA) -> None:
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel(f"success rate (α = {alpha:g})")


def cdf_axis(axes: Any, *, most: float = 0.5) -> None:
    axes.set_xlim(0, most)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("absolute quantile error")
    axes.set_ylabel("share of trials at or below")


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """PDF and PNG, the same bytes for the same numbers."""
    files = [folder / f"{name}.pdf", folder / f"{name}.png"]
    figure.savefig(files[0], metadata={"CreationDate": None, "Producer": None, "Creator": "privquant"})
    figure.savefig(files[1], dpi=160, metadata={"Software": "privquant"})
    return files

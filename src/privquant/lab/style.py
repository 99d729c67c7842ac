"""How every figure looks: one size, one type, lines that differ in colour, marker and dash.

Figures are made without pyplot, so no display, no global state and no window is ever needed. Colours are told apart
by readers with any colour vision.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from privquant.errors import MissingDependency

PANEL = (3.5, 2.75)  # inches

RC = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "pdf.fonttype": 42,
    "svg.hashsalt": "privquant",
    "figure.constrained_layout.use": True,
}


@dataclass(frozen=True)
class Look:
    """A line's colour, marker and dash."""

    color: str
    marker: str
    dash: str | tuple[int, tuple[float, ...]] = "-"
    width: float = 1.4

    def line(self, **more: Any) -> dict[str, Any]:
        return self.bare(**{"marker": self.marker, **more})

    def bare(self, **more: Any) -> dict[str, Any]:
        return {"color": self.color, "linestyle": self.dash, "linewidth": self.width, **more}


SPARE = (
    Look("#56B4E9", "v", "--"),
    Look("#8C6D31", "X", "--"),
    Look("#CC79A7", "<", "--"),
    Look("#555555", ">", "--"),
)
LIMIT = Look("#222222", "", (0, (1, 1.4)), 1.1)

METHODS = {
    "lemma": ("the paper's lemma", Look("#E69F00", "D", "--")),
    "theorem": ("Theorem 3.1 of Feldman et al.", Look("#56B4E9", "v", "--")),
    "clones": ("clones (2020)", Look("#009E73", "^", "--")),
    "stronger": ("stronger clones", Look("#0072B2", "s")),
    "exact": ("exact", Look("#D55E00", "o", "-", 1.9)),
}
"""The methods of shuffle accounting: what figures call them, and how they look."""


@contextmanager
def styled() -> Iterator[None]:
    """All drawing happens inside."""
    try:
        import matplotlib
    except ImportError:
        raise MissingDependency("drawing figures", "matplotlib", "lab") from None
    with matplotlib.rc_context(RC):
        yield


def panels(columns: int, rows: int = 1, *, height: float = 1.0) -> tuple[Any, list[Any]]:
    """A figure with rows x columns panels, and the panels in reading order."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows * height))
    grid = made.subplots(rows, columns, squeeze=False)
    return made, [axes for line in grid for axes in line]


def legend_below(figure: Any, axes: Any, *, columns: int = 3, more: Sequence[Any] = ()) -> None:
    """One legend for all panels, under them."""
    handles, labels = axes.get_legend_handles_labels()
    named = dict(zip(labels, handles, strict=True)) | {h.get_label(): h for h in more}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns)


def log_axis(axis: Any) -> None:
    """A logarithmic axis whose 1, 2 and 5 are labelled where it spans little, its powers of ten where much."""
    from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    wide = high / low > 60
    axis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(LogFormatterSciNotation(minor_thresholds=(9.0, 9.0)))

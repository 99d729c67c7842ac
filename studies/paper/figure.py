"""What a figure is: the cells it needs, and how it is drawn from their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.results import Results

EPSILONS = tuple(float(e) for e in np.geomspace(0.1, 5.0, 10))  # the paper's grid
CDF_EPSILON = EPSILONS[4]  # 0.569, the paper's "0.57"


@dataclass(frozen=True)
class Effort:
    """How much to run. `quick` thins the grid and the trials; a cell that both have is the same cell."""

    quick: bool = False

    @property
    def trials(self) -> int:
        return 50 if self.quick else 200

    @property
    def epsilons(self) -> tuple[float, ...]:
        return tuple(EPSILONS[k] for k in (0, 2, 4, 6, 9)) if self.quick else EPSILONS

    def some(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def thin(self, values: Sequence[Any], every: int = 2) -> list[Any]:
        """All of them, or every so manyth, the last always in."""
        return list(values) if not self.quick else list(values[::-1][::every][::-1])


@dataclass(frozen=True)
class Drawing:
    """A finished figure and the table behind it."""

    figure: Any
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class Figure:
    """One figure by name. `place` says where in the paper it is, or that it goes beyond it."""

    name: str
    title: str
    cells: Callable[[Effort], list[Cell]]
    draw: Callable[[Results], Drawing]
    place: str = "beyond the paper"


def lines(found: Results) -> Iterable[tuple[str, list[tuple[Cell, Outcome]]]]:
    """Cells with their outcomes as lines: grouped by label, in the order they were asked for."""
    groups: dict[str, list[tuple[Cell, Outcome]]] = {}
    for cell, outcome in found:
        groups.setdefault(cell.label, []).append((cell, outcome))
    return groups.items()


def note(cell: Cell, name: str) -> Any:
    """A column a figure gave to its cell."""
    return dict(cell.notes)[name]

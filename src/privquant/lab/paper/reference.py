"""The authors' recorded runs, as the figures and the comparison table need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from privquant.lab.cells import Cell
from privquant.lab.published import CONSTANTS, RUNS, Recorded, recorded_runs


def recorded(data: str, *, n: int, size: int | None = None) -> list[Recorded]:
    """Recorded rows of one data set, of every domain size if none is given."""
    return [row for row in recorded_runs(RUNS) if (row.data, row.n) == (data, n) and size in (None, row.size)]


def recorded_constants() -> list[Recorded]:
    """Recorded rows of the search for the constant c (n = 2500, B = 4^9)."""
    return recorded_runs(CONSTANTS)


def recorded_cells(cells: Iterable[Cell]) -> list[tuple[Recorded, Cell]]:
    """Each recorded row with the cell that repeats it, in the order of the records."""
    by_place: dict[tuple[Any, ...], Cell] = {}
    for cell in cells:
        place = (cell.data.name, cell.data.n, cell.data.size, cell.label)
        by_place.setdefault((*place, *_rounded(cell.epsilon, dict(cell.notes).get("c"))), cell)
    found = []
    for row in (*recorded_runs(RUNS), *recorded_runs(CONSTANTS)):
        match = by_place.get((row.data, row.n, row.size, row.mechanism, *_rounded(row.epsilon, row.c)))
        if match is not None:
            found.append((row, match))
    return found


def _rounded(epsilon: float, c: float | None) -> tuple[float, float | None]:
    """The records have epsilon with six digits and c with four."""
    return round(epsilon, 5), None if c is None else round(c, 3)

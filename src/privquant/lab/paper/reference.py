"""The authors' recorded runs, as the figures and the comparison table need them."""

from __future__ import annotations

import math
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
    there: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        there.setdefault((cell.data.name, cell.data.n, cell.data.size, cell.label), []).append(cell)
    found = []
    for row in (*recorded_runs(RUNS), *recorded_runs(CONSTANTS)):
        near = there.get((row.data, row.n, row.size, row.mechanism), [])
        match = next((cell for cell in near if _repeats(cell, row)), None)
        if match is not None:
            found.append((row, match))
    return found


def _repeats(cell: Cell, row: Recorded) -> bool:
    """Same epsilon and c; the records have them rounded to six and four digits."""
    c = dict(cell.notes).get("c")
    same = c is None and row.c is None
    if c is not None and row.c is not None:
        same = math.isclose(c, row.c, rel_tol=1e-3)
    return same and math.isclose(cell.epsilon, row.epsilon, rel_tol=1e-4)

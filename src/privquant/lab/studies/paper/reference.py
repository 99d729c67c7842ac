"""The authors' recorded runs, as the figures and the comparison table need them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from privquant.lab.experiment.cell import Cell
from privquant.lab.studies.paper.mechanisms import PAPER
from privquant.lab.studies.published import CONSTANTS, RUNS, Recorded, recorded_runs


def recorded(data: str, *, n: int, size: int | None = None) -> list[Recorded]:
    """Recorded rows of one data set, of every domain size if none is given."""
    return [row for row in recorded_runs(RUNS) if (row.data, row.n) == (data, n) and size in (None, row.size)]


def recorded_constants() -> list[Recorded]:
    """Recorded rows of the search for the constant c (n = 2500, B = 4^9)."""
    return recorded_runs(CONSTANTS)


def recorded_cells(cells: Iterable[Cell]) -> list[tuple[Recorded, Cell]]:
    """Each recorded row with the cell that repeats it, in the order of the records."""
    known = list(cells)
    found = []
    for row in (*recorded_runs(RUNS), *recorded_runs(CONSTANTS)):
        match = next((cell for cell in known if _repeats(cell, row)), None)
        if match is not None:
            found.append((row, match))
    return found


def _repeats(cell: Cell, row: Recorded) -> bool:
    """The same data, mechanism and setting; the records have epsilon rounded to six digits and c to four."""
    if (cell.data.name, cell.data.n, cell.data.domain.size) != (row.data, row.n, row.size):
        return False
    if not math.isclose(cell.epsilon, row.epsilon, rel_tol=1e-4):
        return False
    options = dict(cell.options)
    c = options.pop("c", None)
    if (c is None) != (row.c is None) or (row.c is not None and not math.isclose(c, row.c, rel_tol=1e-3)):
        return False
    mechanism = next(mechanism for mechanism in PAPER if mechanism.label == row.mechanism)
    setting = (cell.protocol, options, cell.quantile, str(cell.schedule), cell.draw, cell.padded)
    return setting == (mechanism.protocol, mechanism.options, 0.5, "suggested", "empirical", False)

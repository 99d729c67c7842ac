"""The authors' recorded runs, as the figures and the comparison table need them."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any

from privquant.lab.cells import Cell

RUNS = "published_runs.csv"
CONSTANTS = "published_constant_search.csv"


@lru_cache(maxsize=2)
def _table(name: str) -> tuple[dict[str, Any], ...]:
    text = (files("privquant.lab") / "data_published" / name).read_text(encoding="utf-8")
    rows = []
    for row in csv.DictReader(text.splitlines()):
        numbers: dict[str, Any] = {k: float(v) for k, v in row.items() if k not in ("data", "mechanism")}
        whole = {key: int(numbers[key]) for key in ("n", "B", "trials")}
        rows.append({"data": row["data"], "mechanism": row["mechanism"], **numbers, **whole})
    return tuple(rows)


def recorded(data: str, *, n: int, size: int | None = None) -> list[dict[str, Any]]:
    """Recorded rows of one data set (of every domain size if none is given), as numbers."""
    return [row for row in _table(RUNS) if (row["data"], row["n"]) == (data, n) and size in (None, row["B"])]


def recorded_constants() -> list[dict[str, Any]]:
    """Recorded rows of the search for the constant c (n = 2500, B = 4^9)."""
    return list(_table(CONSTANTS))


def recorded_cells(cells: Iterable[Cell]) -> list[tuple[dict[str, Any], Cell]]:
    """Each recorded row with the cell that repeats it, in the order of the records."""
    by_place: dict[tuple[Any, ...], Cell] = {}
    for cell in cells:
        c = dict(cell.notes).get("c")
        by_place.setdefault(
            (
                cell.data.name,
                cell.data.n,
                cell.data.size,
                cell.label,
                round(cell.epsilon, 5),
                None if c is None else round(c, 3),
            ),
            cell,
        )
    found = []
    for row in (*_table(RUNS), *_table(CONSTANTS)):
        c = row.get("c")
        place = (
            row["data"],
            row["n"],
            row["B"],
            row["mechanism"],
            round(row["epsilon"], 5),
            None if c is None else round(c, 3),
        )
        if place in by_place:
            found.append((row, by_place[place]))
    return found

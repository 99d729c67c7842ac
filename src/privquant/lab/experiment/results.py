"""Cells and their outcomes, as one object that reports read and that writes itself as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privquant.estimates import library
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.tables import cell_row, trial_rows, write_table
from privquant.validation import check_choice

ALPHAS = (0.02, 0.04, 0.05, 0.1)


@dataclass(frozen=True, repr=False)
class Results:
    """In the order of the cells."""

    cells: tuple[Cell, ...]
    outcomes: tuple[Outcome, ...]
    seed: int
    alphas: tuple[float, ...] = ALPHAS

    def __repr__(self) -> str:
        return f"Results({len(self.cells):,} cells, seed {self.seed})"

    def __iter__(self) -> Iterator[tuple[Cell, Outcome]]:
        return iter(zip(self.cells, self.outcomes, strict=True))

    def where(self, keep: Callable[[Cell], bool]) -> Results:
        """Those of some of the cells."""
        pairs = [pair for pair in self if keep(pair[0])]
        cells, outcomes = tuple(cell for cell, _ in pairs), tuple(outcome for _, outcome in pairs)
        return Results(cells, outcomes, self.seed, self.alphas)

    def by_note(self, name: str) -> dict[Any, Outcome]:
        """Outcomes by what a study noted on their cells."""
        return {dict(cell.notes)[name]: outcome for cell, outcome in self if name in dict(cell.notes)}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row a cell."""
        return [cell_row(cell, outcome, self.seed, self.alphas) for cell, outcome in self]

    @property
    def trial_rows(self) -> list[dict[str, Any]]:
        """One row a trial."""
        return [row for cell, outcome in self for row in trial_rows(cell, outcome, self.seed)]

    def to_pandas(self, *, per: str = "cell") -> Any:
        """A pandas DataFrame with one row per "cell" or per "trial"."""
        return library("pandas").DataFrame(self._table(per))

    def to_polars(self, *, per: str = "cell") -> Any:
        """A polars DataFrame with one row per "cell" or per "trial"."""
        # A column may begin with nulls (rounds): its kind is that of all its rows.
        return library("polars").DataFrame(self._table(per), infer_schema_length=None)

    def _table(self, per: str) -> list[dict[str, Any]]:
        return self.trial_rows if check_choice(per, "per", ("cell", "trial")) == "trial" else self.rows

    def write(self, path: str | Path, *, per: str = "cell") -> Path:
        """A tidy .csv or .parquet file with one row per "cell" or per "trial"."""
        return write_table(self._table(per), path)

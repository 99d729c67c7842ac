"""Cells and their outcomes as one object, which writes itself as a table with the versions and the seed in it."""

from __future__ import annotations

import csv
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privquant import __version__
from privquant.errors import InvalidInput, MissingDependency
from privquant.estimates import library
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome
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
        return [_cell_row(cell, outcome, self.seed, self.alphas) for cell, outcome in self]

    @property
    def trial_rows(self) -> list[dict[str, Any]]:
        """One row a trial."""
        made_with = versions()
        rows = []
        for cell, outcome in self:
            columns = _cell_columns(cell, self.seed)
            measures = zip(outcome.answers[:, 0], outcome.rank_errors(), outcome.abs_errors(), strict=True)
            for trial, (answer, rank, absolute) in enumerate(measures):
                value = cell.data.domain.value(int(answer))
                errors = {"rank_error": float(rank), "abs_error": float(absolute)}
                rows.append({**columns, "trial": trial, "value": value, **errors, **made_with})
        return rows

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


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    try:
        from numba import __version__ as numba_version
    except ImportError:
        numba_version = "absent"
    return {
        "privquant": __version__,
        "numpy": np.__version__,
        "numba": str(numba_version),
        "python": platform.python_version(),
    }


def _cell_columns(cell: Cell, root: int) -> dict[str, Any]:
    """The columns that say which cell a row is of."""
    return {
        "data": cell.data.name,
        "n": cell.data.n,
        "B": cell.data.domain.size,
        "protocol": cell.protocol,
        "options": json.dumps(cell.options, sort_keys=True, default=str),
        "label": cell.label,
        "epsilon": cell.epsilon,
        "quantile": cell.quantile,
        "rounds": int(cell.schedule.number) if cell.schedule.kind in ("rounds", "equal") else None,
        "schedule": str(cell.schedule),
        "draw": cell.draw,
        "padded": cell.padded,
        **dict(cell.notes),
        "seed": root,
        "cell_seed": cell.seed(root),
    }


def _cell_row(cell: Cell, outcome: Outcome, root: int, alphas: Sequence[float]) -> dict[str, Any]:
    """One row a cell: success rates with the paper's standard deviation, and errors."""
    row = _cell_columns(cell, root)
    seeds = {name: row.pop(name) for name in ("seed", "cell_seed")}
    row["trials"] = outcome.trials
    for alpha in alphas:
        rate = outcome.success_rate(alpha)
        row[f"success_{alpha:g}"] = rate.value
        row[f"success_sd_{alpha:g}"] = rate.error
    rank, absolute = outcome.rank_errors(), outcome.abs_errors()
    row |= {
        "rank_error_mean": float(rank.mean()),
        "rank_error_median": float(np.median(rank)),
        "abs_error_mean": float(absolute.mean()),
        "abs_error_median": float(np.median(absolute)),
    }
    further = {q: outcome.rank_errors(k) for k, q in enumerate(outcome.quantiles) if k > 0}
    row |= {f"rank_error_mean_{q:g}": float(errors.mean()) for q, errors in further.items()}
    if outcome.low.shape[1]:
        below, above = outcome.missed()
        row |= {
            "claim": cell.claim,
            "missed_below": float(below.mean()),
            "missed_above": float(above.mean()),
            "width_median": float(np.median(outcome.widths())),
            "unbounded": float(outcome.unbounded().mean()),
        }
    # Users drawn anew have a quantile of their own in every draw.
    if (outcome.truth == outcome.truth[0]).all():
        row["truth"] = cell.data.domain.value(int(outcome.truth[0, 0]))
    return {**row, **seeds, **versions()}


def check_table_path(path: str | Path) -> Path:
    """A file a table can be written to: .csv or .parquet in a folder that exists."""
    file = Path(path)
    if file.suffix.lower() not in (".csv", ".parquet"):
        raise InvalidInput(f"a table is written to .csv or .parquet, got {str(path)!r}")
    if not file.parent.is_dir():
        raise InvalidInput(f"there is no folder {file.parent}")
    return file


def write_table(rows: Sequence[Mapping[str, Any]], path: str | Path) -> Path:
    """Write rows whole or not at all: a reader never sees half a table."""
    file = check_table_path(path)
    if not rows:
        raise InvalidInput(f"there are no rows to write to {file}")
    waiting = file.with_name(f".{file.name}.part")
    names = list(dict.fromkeys(name for row in rows for name in row))
    if file.suffix.lower() == ".csv":
        with waiting.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, names)
            writer.writeheader()
            writer.writerows(rows)
    else:
        _write_parquet(rows, names, waiting)
    os.replace(waiting, file)
    return file


def _write_parquet(rows: Sequence[Mapping[str, Any]], names: Sequence[str], path: Path) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingDependency("writing Parquet", "pyarrow", "lab") from None
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        whole = [v for v in values if v is not None]
        # 2^63 values are one more than a signed 64-bit integer can say.
        wide = all(isinstance(v, int) for v in whole) and any(v >= 2**63 for v in whole)
        kind = pa.uint64() if wide else (pa.int64() if name == "rounds" else None)
        columns[name] = pa.array(values, type=kind)
    pq.write_table(pa.table(columns), path)

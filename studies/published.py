"""Our success rates beside those of the authors' recorded runs.

The package carries two tables of recorded runs, 200 trials a row: the comparison of three mechanisms, and the
search for the constant c of DpBayeSS. Every row is repeated twice: in the published behaviour, which must
agree with the record, and as the corrected text has it, which need not.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from privquant.errors import InvalidInput
from privquant.lab.data import dataset
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from studies.table import name

ALPHA = 0.04  # the paper's alpha_test
RUNS = "published_runs.csv"
CONSTANTS = "published_constant_search.csv"

# mechanism -> protocol, options that repeat the authors' program, options of the corrected text
BEHAVIOURS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "DpBayeSS": ("bayess", {"behaviour": "published"}, {"behaviour": "text"}),
    "DpNaiveNBS": ("naive", {"behaviour": "published"}, {"behaviour": "text"}),
    "Hierarchical": ("hierarchical", {"answer": "argmin", "encoding": "oue"}, {"answer": "descent"}),
}
MECHANISMS = tuple(BEHAVIOURS)


@dataclass(frozen=True, slots=True)
class Recorded:
    """One row of the authors' runs. c is None in the comparison, where it was 0.6."""

    data: str
    n: int
    size: int
    mechanism: str
    epsilon: float
    trials: int
    success: float
    c: float | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """A recorded row, our two rates, and the distance of the published one in standard errors of both samples."""

    recorded: Recorded
    trials: int
    published: float
    text: float

    @property
    def z(self) -> float:
        return two_sample_z(self.published, self.trials, self.recorded.success, self.recorded.trials)

    def to_dict(self) -> dict[str, Any]:
        ours = {"our_trials": self.trials, "ours_published": self.published, "ours_text": self.text, "z": self.z}
        return asdict(self.recorded) | ours


def two_sample_z(ours: float, our_trials: int, theirs: float, their_trials: int) -> float:
    """Difference of two success rates over its standard error under one common rate; 0 when they are equal."""
    pooled = (ours * our_trials + theirs * their_trials) / (our_trials + their_trials)
    error = math.sqrt(pooled * (1.0 - pooled) * (1.0 / our_trials + 1.0 / their_trials))
    return (ours - theirs) / error if error > 0 else 0.0


def recorded_runs(table: str = RUNS, mechanisms: Sequence[str] = MECHANISMS) -> list[Recorded]:
    """The rows of a table of recorded runs, in its order."""
    unknown = [m for m in mechanisms if m not in BEHAVIOURS]
    if unknown:
        raise InvalidInput(f"unknown mechanism {unknown[0]!r}; the recorded ones are {', '.join(MECHANISMS)}")
    text = (files("studies") / "recorded" / table).read_text(encoding="utf-8")
    return [
        Recorded(
            data=row["data"],
            n=int(row["n"]),
            size=int(row["B"]),
            mechanism=row["mechanism"],
            epsilon=float(row["epsilon"]),
            trials=int(row["trials"]),
            success=float(row[f"success_{ALPHA}"]),
            c=float(row["c"]) if row.get("c") else None,
        )
        for row in csv.DictReader(text.splitlines())
        if row["mechanism"] in mechanisms
    ]


def recorded(data: str, *, n: int, size: int | None = None) -> list[Recorded]:
    """Rows of the comparison on one data set, of every domain size if none is given."""
    return [row for row in recorded_runs() if (row.data, row.n) == (data, n) and size in (None, row.size)]


def recorded_cells(cells: Iterable[Cell]) -> list[tuple[Recorded, Cell]]:
    """Each recorded row with the one of these cells that repeats it, in the order of the records."""
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
    protocol, published, _ = BEHAVIOURS[row.mechanism]
    setting = (cell.protocol, options, cell.quantile, str(cell.schedule), cell.draw, cell.padded)
    return setting == (protocol, published, 0.5, "suggested", "empirical", False)


def cells(rows: Sequence[Recorded], trials: int) -> list[Cell]:
    """Every row twice: in the published behaviour, and as the corrected text has it."""
    return [
        Cell.of(
            dataset(row.data, n=row.n, size=row.size),
            BEHAVIOURS[row.mechanism][0],
            row.epsilon,
            options=options if row.c is None else {**options, "c": row.c},
            trials=trials,
            label=row.mechanism,
            notes={"cell": name("recorded", number, behaviour), "recorded": row.success},
        )
        for number, row in enumerate(rows)
        for behaviour, options in zip(("published", "text"), BEHAVIOURS[row.mechanism][1:], strict=True)
    ]


def report(rows: Sequence[Recorded], results: Results) -> list[Compared]:
    """The same rows beside what came out of their cells."""
    found = results.by_note("cell")
    both = [[found[name("recorded", number, b)] for b in ("published", "text")] for number in range(len(rows))]
    return [
        Compared(row, published.trials, published.success(ALPHA), text.success(ALPHA))
        for row, (published, text) in zip(rows, both, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far our published rates are from the record, over all rows."""

    rows: int
    beyond_3: int
    largest: float

    @property
    def agrees(self) -> bool:
        """At most 3 of 130 rows (that share of fewer, but at least 1) beyond 3 standard errors, none beyond 4.5."""
        return self.beyond_3 <= max(1, 3 * self.rows // 130) and self.largest <= 4.5

    def __str__(self) -> str:
        return (
            f"{self.rows} rows: {self.beyond_3} beyond 3 standard errors, the largest {self.largest:.2f}; "
            f"{'agrees' if self.agrees else 'DOES NOT AGREE'} with the recorded runs"
        )


def verdict(rows: Sequence[Compared]) -> Verdict:
    distances = [abs(row.z) for row in rows]
    return Verdict(len(rows), sum(d > 3 for d in distances), max(distances, default=0.0))

"""Our success rates beside those of the authors' recorded runs.

The package carries two tables of recorded runs, 200 trials a row: the comparison of three mechanisms, and the
search for the constant c of DpBayeSS. Every row is repeated twice: in the published behaviour, which must
agree with the record, and as the corrected text has it, which need not.
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.resources import files
from itertools import repeat
from typing import Any

import numpy as np

from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.lab.data import pareto, uniform_interval
from privquant.lab.trials import trials as run_trials
from privquant.validation import check_count

ALPHA = 0.04  # the paper's alpha_test
RUNS = "published_runs.csv"
CONSTANTS = "published_constant_search.csv"

_DATA = {"pareto": pareto, "uniform-interval": uniform_interval}

# mechanism -> protocol, options that repeat the authors' program, options of the corrected text
_ARMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "DpBayeSS": ("bayess", {"behaviour": "published"}, {"behaviour": "text"}),
    "DpNaiveNBS": ("naive", {"behaviour": "published"}, {"behaviour": "text"}),
    "Hierarchical": ("hierarchical", {"answer": "argmin", "encoding": "oue"}, {"answer": "descent"}),
}
MECHANISMS = tuple(_ARMS)


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


def recorded_runs(name: str = RUNS, mechanisms: Sequence[str] = MECHANISMS) -> list[Recorded]:
    """The rows of a table of recorded runs, in its order."""
    unknown = [m for m in mechanisms if m not in _ARMS]
    if unknown:
        raise InvalidInput(f"unknown mechanism {unknown[0]!r}; the recorded ones are {', '.join(MECHANISMS)}")
    text = (files("privquant.lab.studies") / "recorded" / name).read_text(encoding="utf-8")
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


def repeat_row(row: Recorded, trials: int, seed: int, number: int) -> Compared:
    """Our trials of one row; `number` gives it a seed of its own."""
    values = _DATA[row.data](row.n, row.size)
    name, published, text = _ARMS[row.mechanism]
    more: dict[str, Any] = {} if row.c is None else {"c": row.c}
    rates = [
        run_trials(
            values,
            protocol=name,
            epsilon=row.epsilon,
            domain=Integers(0, row.size - 1),
            trials=trials,
            seed=int(np.random.SeedSequence([seed, number, arm]).generate_state(1, np.uint64)[0]),
            **options,
            **more,
        ).success(ALPHA)
        for arm, options in enumerate((published, text))
    ]
    return Compared(row, trials, rates[0], rates[1])


def compare(
    rows: Sequence[Recorded] | None = None,
    *,
    mechanisms: Sequence[str] = MECHANISMS,
    trials: int = 1000,
    seed: int = 0,
    workers: int = 1,
) -> Iterator[Compared]:
    """Repeat recorded rows (all of the comparison unless given) and yield them as they are done, in order.

    workers: processes to use; 0 means all cores. The numbers do not depend on it.
    """
    wanted = recorded_runs(mechanisms=mechanisms) if rows is None else list(rows)
    count, root = check_count(trials, "trials", 1), check_count(seed, "seed")
    jobs = (wanted, repeat(count), repeat(root), range(len(wanted)))
    pool_size = min(workers if workers > 0 else (os.cpu_count() or 1), len(wanted))
    repeat_one: Callable[[Recorded, int, int, int], Compared] = repeat_row
    if pool_size <= 1:
        yield from map(repeat_one, *jobs)
        return
    with ProcessPoolExecutor(pool_size) as pool:
        yield from pool.map(repeat_one, *jobs)


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

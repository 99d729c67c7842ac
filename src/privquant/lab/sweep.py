"""A grid of data sets x protocols x epsilons x quantiles x rounds, on all cores.

    result = sweep(["pareto:n=2500:B=4^9"], protocols=["naive", "bayess"], epsilons=[0.5, 1.0],
                   trials=200, seed=1, out="pareto.csv")

Promises:
- the same numbers for any number of workers, and for any other cells in the grid;
- with `out`, every finished cell is kept in a journal beside it: a sweep that was interrupted (Ctrl-C, kill,
  power) goes on with `resume=True` and ends in the same file as one that was not;
- the file has the versions and the seeds in it, and `lab.trials(..., seed=cell_seed)` gives a row again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from privquant.errors import InvalidInput
from privquant.lab.data import DataSet, parse
from privquant.lab.experiment.cell import Cell, Outcome, joined, run_block
from privquant.lab.experiment.journal import Journal
from privquant.lab.experiment.tables import cell_row, check_table_path, trial_rows, versions, write_table
from privquant.validation import check_count, check_probability

ALPHAS = (0.02, 0.04, 0.05, 0.1)

ProtocolSpec = str | tuple[str, Mapping[str, Any]]
"""A protocol's name, alone or with its options."""


@dataclass(frozen=True, repr=False)
class Sweep:
    """Cells and their outcomes, in the order of the grid."""

    cells: tuple[Cell, ...]
    outcomes: tuple[Outcome, ...]
    seed: int
    alphas: tuple[float, ...] = ALPHAS

    def __repr__(self) -> str:
        return f"Sweep({len(self.cells):,} cells, seed {self.seed})"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row a cell."""
        return [cell_row(c, o, self.seed, self.alphas) for c, o in zip(self.cells, self.outcomes, strict=True)]

    @property
    def trial_rows(self) -> list[dict[str, Any]]:
        """One row a trial."""
        pairs = zip(self.cells, self.outcomes, strict=True)
        return [row for cell, outcome in pairs for row in trial_rows(cell, outcome, self.seed)]

    def write(self, path: str | Path, *, per: str = "cell") -> Path:
        """A tidy .csv or .parquet file with one row per "cell" or per "trial"."""
        return write_table(self.trial_rows if per == "trial" else self.rows, path)


def sweep(
    data: Iterable[DataSet | str],
    *,
    protocols: Iterable[ProtocolSpec],
    epsilons: Iterable[float],
    quantiles: Iterable[float] = (0.5,),
    rounds: Iterable[int | None] = (None,),
    trials: int,
    seed: int,
    draw: str = "empirical",
    alphas: Sequence[float] = ALPHAS,
    workers: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
) -> Sweep:
    """Run the grid; with `out`, write one row a cell there.

    data:      DataSet objects or lines such as "pareto:n=2500:B=4^9" (see `privquant.lab.data`).
    protocols: names, or (name, options) pairs.
    rounds:    numbers of feedback rounds; None is as the protocol suggests.
    workers:   processes; 0 means all cores.
    """
    sets = [parse(d) if isinstance(d, str) else d for d in _several(data, "data")]
    for d in sets:
        if not isinstance(d, DataSet):
            raise InvalidInput(
                f"data are DataSets or lines of text, got {d!r:.60}; see privquant.lab.data.from_values"
            )
    named = [(p, {}) if isinstance(p, str) else (p[0], dict(p[1])) for p in _several(protocols, "protocols")]
    cells = [
        Cell.of(d, name, e, quantile=q, rounds=r, options=options, draw=draw, trials=trials)
        for d, (name, options), e, q, r in product(
            sets,
            named,
            _several(epsilons, "epsilons"),
            _several(quantiles, "quantiles"),
            _several(rounds, "rounds"),
        )
    ]
    return run_cells(cells, seed=seed, alphas=alphas, workers=workers, out=out, resume=resume, progress=progress)


def _several(given: Iterable[Any], name: str) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = [given]
    found = list(given)
    if not found:
        raise InvalidInput(f"{name} is empty: a sweep needs at least one")
    return found


def run_cells(
    cells: Sequence[Cell],
    *,
    seed: int,
    alphas: Sequence[float] = ALPHAS,
    workers: int = 0,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
) -> Sweep:
    """Run any cells, e.g. with different numbers of trials. Cells that occur twice run once."""
    root = check_count(seed, "seed")
    measured = tuple(check_probability(a, "alpha") for a in alphas)
    processes = check_count(workers, "workers") or os.cpu_count() or 1
    journal = None
    if out is not None:
        table = check_table_path(out)
        journal = Journal(table.with_name(table.name + ".journal"), {"seed": root, **versions()}, resume=resume)
    elif resume:
        raise InvalidInput("resume needs out: finished cells are kept beside the file the sweep writes")
    try:
        outcomes = _outcomes(cells, root, processes, journal, progress)
    except BaseException:
        if journal is not None:
            journal.close()
        raise
    found = Sweep(tuple(cells), tuple(outcomes[cell.run] for cell in cells), root, measured)
    if journal is not None and out is not None:
        found.write(out)
        journal.remove()
    return found


def _outcomes(
    cells: Sequence[Cell], root: int, processes: int, journal: Journal | None, progress: bool
) -> dict[tuple[str, int], Outcome]:
    """Every cell's outcome, each run of a cell once."""
    wanted = {cell.run: cell for cell in cells}
    kept = journal.finished if journal is not None else {}
    done = {run: kept[run] for run in wanted if run in kept}
    # Large data sets first: the longest work is then not left for the end, and a worker makes each set once.
    todo = sorted((c for run, c in wanted.items() if run not in done), key=lambda c: (-c.data.n, c.data.key))
    jobs = [
        (index, block, size, child)
        for index, cell in enumerate(todo)
        for block, (size, child) in enumerate(
            zip(cell.blocks(), np.random.SeedSequence(cell.seed(root)).spawn(len(cell.blocks())), strict=True)
        )
    ]
    parts: dict[int, dict[int, Outcome]] = {}
    # The pool forks before the bar starts its thread.
    with (
        _workers(todo, min(processes, len(jobs))) as pool,
        _bar(progress, len(jobs), len(wanted), len(done)) as advance,
    ):
        for index, block, part in _results(pool, todo, jobs):
            cell = todo[index]
            blocks = parts.setdefault(index, {})
            blocks[block] = part
            finished = len(blocks) == len(cell.blocks())
            if finished:
                done[cell.run] = joined([blocks[k] for k in sorted(parts.pop(index))])
                if journal is not None:
                    journal.add(cell, done[cell.run])
            advance(finished)
    return done


_AHEAD = 64
_Job = tuple[int, int, int, np.random.SeedSequence]


def _results(
    pool: ProcessPoolExecutor | None, cells: Sequence[Cell], jobs: Sequence[_Job]
) -> Iterator[tuple[int, int, Outcome]]:
    """(cell, block, outcome) as they come."""
    if pool is None:
        for index, block, size, child in jobs:
            yield index, block, run_block(cells[index], size, child)
        return
    queue = deque(jobs)
    waiting: set[Future[tuple[int, int, Outcome]]] = set()
    while queue or waiting:
        # A short queue keeps the order of the data sets, so that a worker seldom makes one twice.
        while queue and len(waiting) < _AHEAD:
            waiting.add(pool.submit(_work, queue.popleft()))
        ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
        for future in ready:
            yield future.result()


@contextmanager
def _workers(cells: Sequence[Cell], processes: int) -> Iterator[ProcessPoolExecutor | None]:
    """Started worker processes that know the cells; None where one process is enough."""
    if processes <= 1:
        yield None
        return
    others = set(multiprocessing.active_children())
    # With fork, workers inherit the cells, own data included, and need no import of the caller's script.
    method = "fork" if sys.platform == "linux" else None
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context(method),
        initializer=_start_worker,
        initargs=(tuple(cells), os.getpid()),
    )
    try:
        pool.submit(os.getpid).result()
        yield pool
    except BaseException:
        # What a worker is in the middle of is lost anyway; at n = 10^7 waiting for it could take a minute.
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_cells: tuple[Cell, ...] = ()


def _start_worker(cells: tuple[Cell, ...], parent: int) -> None:
    global _cells
    _cells = cells
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends the pool in order
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A worker must not outlive a parent that was killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _work(job: _Job) -> tuple[int, int, Outcome]:
    index, block, size, child = job
    return index, block, run_block(_cells[index], size, child)


@contextmanager
def _bar(shown: bool, jobs: int, cells: int, kept: int) -> Iterator[Any]:
    """A progress bar with the time left, on standard error; `advance(finished)` after every block."""
    if not shown:
        yield lambda finished: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as TimeLeft
    except ImportError:
        yield lambda finished: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("blocks"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeLeft(),
    )
    finished_cells = kept
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"{kept} of {cells} cells", total=jobs)

        def advance(finished: bool) -> None:
            nonlocal finished_cells
            finished_cells += finished
            progress.update(task, advance=1, description=f"{finished_cells} of {cells} cells")

        yield advance

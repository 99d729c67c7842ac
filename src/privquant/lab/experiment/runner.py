"""Runs cells: one seed rule, one pool, a journal to resume from, a progress bar.

Promises:
- the same numbers for any number of workers, any executor, and for any other cells beside them;
- with `out`, every finished cell is kept in a journal beside it: a run that was interrupted (Ctrl-C, kill, power)
  goes on with `resume=True` and ends in the same file as one that was not;
- a worker process that is killed is replaced, and the numbers are the same as if it had not been.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from privquant.errors import InvalidInput, PrivquantError
from privquant.lab.experiment.cell import Cell, run_block
from privquant.lab.experiment.outcome import Outcome, joined
from privquant.lab.experiment.results import ALPHAS, Results, check_table_path, versions
from privquant.validation import check_count, check_probability

_FORMAT = 2  # of the journal
# A short queue keeps the order of the data sets, so that a worker seldom makes one twice.
_AHEAD = 64
# A pool that breaks so often without finishing one block in between will not get better.
_MOST_BREAKS = 5


def run_cells(
    cells: Sequence[Cell],
    *,
    seed: int,
    alphas: Sequence[float] = ALPHAS,
    workers: int = 0,
    executor: Executor | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
) -> Results:
    """Run any cells, e.g. with different numbers of trials. Cells that occur twice run once.

    workers:  processes of our own; 0 means all cores. executor: runs the blocks instead of them.
    out:      write one row a cell there; a .csv or .parquet file.
    """
    root = check_count(seed, "seed")
    measured = tuple(check_probability(a, "alpha") for a in alphas)
    journal = None
    if out is not None:
        table = check_table_path(out)
        journal = Journal(table.with_name(table.name + ".journal"), {"seed": root, **versions()}, resume=resume)
    elif resume:
        raise InvalidInput("resume needs out: finished cells are kept beside the file the sweep writes")
    with nullcontext() if journal is None else closing(journal):
        seeds = {cell.run: cell.seed(root) for cell in cells}
        found = run_seeded(cells, seeds, workers=workers, executor=executor, journal=journal, progress=progress)
    whole = Results(tuple(cells), tuple(found[cell.run] for cell in cells), root, measured)
    if journal is not None and out is not None:
        whole.write(out)
        journal.path.unlink(missing_ok=True)
    return whole


def run_seeded(
    cells: Sequence[Cell],
    seeds: dict[tuple[str, int], int],
    *,
    workers: int = 0,
    executor: Executor | None = None,
    journal: Journal | None = None,
    progress: bool = False,
) -> dict[tuple[str, int], Outcome]:
    """Every cell's outcome by its run, each run once, from the seed given for it."""
    processes = check_count(workers, "workers") or os.cpu_count() or 1
    wanted = {cell.run: cell for cell in cells}
    kept = journal.finished if journal is not None else {}
    done = {run: kept[run] for run in wanted if run in kept}
    # Large data sets first: the longest work is then not left for the end, and a worker makes each set once.
    todo = sorted((c for run, c in wanted.items() if run not in done), key=lambda c: (-c.data.n, c.data.key))
    jobs = [
        Job(index, block, size, child)
        for index, cell in enumerate(todo)
        for block, (size, child) in enumerate(
            zip(cell.blocks(), np.random.SeedSequence(seeds[cell.run]).spawn(len(cell.blocks())), strict=True)
        )
    ]
    parts: dict[int, dict[int, Outcome]] = {}
    with _bar(progress, len(jobs), len(wanted), len(done)) as advance:
        for job, part in results(todo, jobs, workers=processes, executor=executor):
            cell = todo[job.cell]
            blocks = parts.setdefault(job.cell, {})
            blocks[job.block] = part
            finished = len(blocks) == len(cell.blocks())
            if finished:
                done[cell.run] = joined([blocks[k] for k in sorted(parts.pop(job.cell))])
                if journal is not None:
                    journal.add(cell, done[cell.run])
            advance(finished)
    return done


class Journal:
    """Finished cells of the run that writes to `path`: one line each, appended and synced as it finishes.

    A run that is killed at any moment loses only the cells it was in the middle of. A last line cut short by the
    kill is dropped; any other damage, or a journal of another run (seed or versions differ), is refused.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self._header = {"format": _FORMAT, **header}
        self.finished: dict[tuple[str, int], Outcome] = {}
        if path.exists():
            if not resume:
                raise InvalidInput(
                    f"{path} holds finished cells of an interrupted sweep: say resume (--resume) to go on with it, "
                    "or delete it to start anew"
                )
            self._read()
        self._file: TextIO = path.open("a", encoding="utf-8")
        if path.stat().st_size == 0:
            self._append(self._header)

    def add(self, cell: Cell, outcome: Outcome) -> None:
        self.finished[cell.run] = outcome
        self._append({"cell": cell.key, **outcome.to_dict()})

    def close(self) -> None:
        self._file.close()

    def _append(self, record: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        whole = text.rfind("\n") + 1
        if whole < len(text):
            os.truncate(self.path, len(text[:whole].encode()))
        lines = text[:whole].splitlines()
        if not lines:
            return
        try:
            header, *records = (json.loads(line) for line in lines)
        except ValueError as error:
            raise InvalidInput(f"{self.path} is damaged and cannot be resumed: {error}") from error
        if header != self._header:
            changed = sorted(k for k in {*header, *self._header} if header.get(k) != self._header.get(k))
            raise InvalidInput(
                f"{self.path} is of another sweep: "
                + ", ".join(f"{k} was {header.get(k)!r}, is now {self._header.get(k)!r}" for k in changed)
            )
        for record in records:
            self.finished[record["cell"], len(record["answers"])] = Outcome.from_dict(record)


@contextmanager
def _bar(shown: bool, blocks: int, cells: int, kept: int) -> Iterator[Callable[[bool], None]]:
    """A progress bar with the time left, on standard error; nothing is shown where rich is not installed.

    Gives what is called after every block, with whether it finished a cell. kept: cells that were finished before.
    """
    if not shown or find_spec("rich") is None:
        yield lambda finished: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    text = "{task.description}", BarColumn(), MofNCompleteColumn(), "blocks"
    columns = *text, TimeElapsedColumn(), "left", TimeRemainingColumn()
    done = kept
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"{kept} of {cells} cells", total=blocks)

        def advance(finished: bool) -> None:
            nonlocal done
            done += finished
            progress.update(task, advance=1, description=f"{done} of {cells} cells")

        yield advance


@dataclass(frozen=True)
class Job:
    """One block of one cell, by the cell's place in the list."""

    cell: int
    block: int
    size: int
    seed: np.random.SeedSequence


def results(
    cells: Sequence[Cell], jobs: Sequence[Job], *, workers: int, executor: Executor | None = None
) -> Iterator[tuple[Job, Outcome]]:
    """Every job with its outcome, as they come: in this process, in processes of our own, or in the given executor.

    Our own processes are forked where the system can, so that they inherit the cells with the caller's own data. If
    one of them is killed the pool is made anew and what was lost runs again, with the same seeds and so the same
    numbers. A caller's executor that breaks ends the run: its finished cells are in the journal.
    """
    if executor is not None:
        yield from _results(executor, cells, deque(jobs))
    elif min(workers, len(jobs)) <= 1:
        for job in jobs:
            yield job, run_block(cells[job.cell], job.size, job.seed)
    else:
        yield from _surviving(cells, jobs, min(workers, len(jobs)))


def _surviving(cells: Sequence[Cell], jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Outcome]]:
    """In a pool of our own that survives its processes."""
    left = {(job.cell, job.block): job for job in jobs}
    breaks = 0
    while left:
        try:
            with _own_pool(cells, min(workers, len(left))) as pool:
                for job, outcome in _results(pool, None, deque(left.values())):
                    del left[job.cell, job.block]
                    breaks = 0
                    yield job, outcome
        except BrokenExecutor as error:
            breaks += 1
            if breaks >= _MOST_BREAKS:
                raise PrivquantError(
                    f"the worker processes died {breaks} times without finishing a block, the last time with: "
                    f"{error}; is there enough memory? Fewer workers need less"
                ) from error


def _results(pool: Executor, cells: Sequence[Cell] | None, queue: deque[Job]) -> Iterator[tuple[Job, Outcome]]:
    """cells: sent along with each job; None where the pool's processes know them."""
    waiting: dict[Future[Outcome], Job] = {}
    while queue or waiting:
        while queue and len(waiting) < _AHEAD:
            job = queue.popleft()
            work = (_work, job) if cells is None else (run_block, cells[job.cell], job.size, job.seed)
            waiting[pool.submit(*work)] = job
        ready, _ = wait(waiting, return_when=FIRST_COMPLETED)
        for future in ready:
            yield waiting.pop(future), future.result()


@contextmanager
def _own_pool(cells: Sequence[Cell], workers: int) -> Iterator[ProcessPoolExecutor]:
    others = set(multiprocessing.active_children())
    method = "fork" if sys.platform == "linux" else None
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context(method),
        initializer=_start_worker,
        initargs=(tuple(cells), os.getpid()),
    )
    try:
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


def _work(job: Job) -> Outcome:
    return run_block(_cells[job.cell], job.size, job.seed)

"""Where blocks of trials run: in this process, in processes of our own, or in an executor the caller gives.

Our own processes are forked where the system can, so that they inherit the cells with the caller's own data. If one
of them is killed the pool is made anew and what was lost runs again, with the same seeds and so the same numbers. A
caller's executor that breaks ends the run: its finished cells are in the journal.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from privquant.errors import PrivquantError
from privquant.lab.experiment.cell import Cell, run_block
from privquant.lab.experiment.outcome import Outcome

# A short queue keeps the order of the data sets, so that a worker seldom makes one twice.
_AHEAD = 64
# A pool that breaks so often without finishing one block in between will not get better.
_MOST_BREAKS = 5


@dataclass(frozen=True)
class Job:
    """One block of one cell, by the cell's place in the list."""

    cell: int
    block: int
    size: int
    seed: np.random.SeedSequence


Result = tuple[Job, Outcome]


def results(
    cells: Sequence[Cell], jobs: Sequence[Job], *, workers: int, executor: Executor | None = None
) -> Iterator[Result]:
    """Every job with its outcome, as they come."""
    if executor is not None:
        yield from _results(executor, cells, deque(jobs))
    elif min(workers, len(jobs)) <= 1:
        for job in jobs:
            yield job, run_block(cells[job.cell], job.size, job.seed)
    else:
        yield from _surviving(cells, jobs, min(workers, len(jobs)))


def _surviving(cells: Sequence[Cell], jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    """In a pool of our own that is made anew when one of its processes is killed."""
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


def _results(pool: Executor, cells: Sequence[Cell] | None, queue: deque[Job]) -> Iterator[Result]:
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

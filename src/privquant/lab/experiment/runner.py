"""Runs cells: one seed rule, one pool, a journal to resume from, a progress bar.

    found = run_cells(cells, seed=1)                        all cores, in processes of our own
    found = run_cells(cells, seed=1, executor=executor)     in any `concurrent.futures.Executor`

Promises:
- the same numbers for any number of workers, any executor, and for any other cells beside them;
- with `out`, every finished cell is kept in a journal beside it: a run that was interrupted (Ctrl-C, kill, power)
  goes on with `resume=True` and ends in the same file as one that was not;
- a worker process that is killed is replaced, and the numbers are the same as if it had not been.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from privquant.errors import InvalidInput
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.journal import Journal
from privquant.lab.experiment.outcome import Outcome, joined
from privquant.lab.experiment.pool import Job, results
from privquant.lab.experiment.progress import bar
from privquant.lab.experiment.results import ALPHAS, Results
from privquant.lab.experiment.tables import check_table_path, versions
from privquant.validation import check_count, check_probability


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
    try:
        seeds = {cell.run: cell.seed(root) for cell in cells}
        found = run_seeded(cells, seeds, workers=workers, executor=executor, journal=journal, progress=progress)
    except BaseException:
        if journal is not None:
            journal.close()
        raise
    whole = Results(tuple(cells), tuple(found[cell.run] for cell in cells), root, measured)
    if journal is not None and out is not None:
        whole.write(out)
        journal.remove()
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
    with bar(progress, len(jobs), len(wanted), len(done)) as advance:
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

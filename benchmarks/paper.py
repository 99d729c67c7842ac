"""The paper whole: all its Pareto cells, and every figure by `python -m studies paper --quick`.

Pareto: 6 data sets x 10 epsilons x 200 trials x 3 mechanisms, argmin included. Seconds are of the clock, with all
cores; seconds of processor stand in the case, since the clock also counts what else the machine does.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from measure import ROOT, Row, seconds

from privquant.lab.experiment.runner import run_cells
from studies.paper.figure import Effort
from studies.paper.mechanisms import PAPER
from studies.paper.pareto import FIGURES


def processor() -> float:
    """Seconds of processor of this process and of the children it has waited for."""
    return sum(u.ru_utime + u.ru_stime for u in (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)))


def timed(benchmark: str, case: str, work: Callable[[], object]) -> Row:
    before = processor()
    clock = seconds(work)
    spent = processor() - before
    return {
        "benchmark": benchmark,
        "case": f"{case} ({spent:.0f} s of processor)",
        "ours_seconds": clock,
        "unit": "run",
        "processor_seconds": spent,
    }


def quick() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "studies", "paper", "--quick", "--out", folder]
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)


def rows() -> list[Row]:
    labels = {mechanism.label for mechanism in PAPER}
    cells = [cell for figure in FIGURES for cell in figure.cells(Effort()) if cell.label in labels]
    run_cells([cell for cell in cells if cell.epsilon == cells[0].epsilon], seed=1)  # kernels loaded
    whole = timed(
        "all Pareto cells of the paper",
        f"{len(cells)} cells of 200 trials, three mechanisms",
        lambda: run_cells(cells, seed=1),
    )
    return [whole, timed("every figure", "python -m studies paper --quick, a new process", quick)]

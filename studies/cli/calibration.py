"""`python -m studies calibration`: what `privquant plan` plans with, measured anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privquant.cli._options import Engine, Workers, executor_of
from privquant.cli._out import check_out


def calibration(
    out: Annotated[Path, typer.Option(help="File to write.")],
    trials: Annotated[int, typer.Option(help="Runs for each shape of data and setting.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 1,
    workers: Workers = 2,
    engine: Engine = None,
) -> None:
    """Measure anew what `privquant plan` plans with (20 minutes of processor or so).

    The file is used by `privquant plan --calibration FILE`, or by all plans with PRIVQUANT_CALIBRATION=FILE.
    """
    from privquant.lab.experiment.runner import run_cells
    from privquant.validation import check_count
    from studies.calibration import cells, report, write

    check_out(out, (".json",))
    check_count(trials, "trials", 4)
    with executor_of(engine, workers) as executor:
        found = run_cells(cells(trials), seed=seed, workers=workers, executor=executor, progress=True)
    write(report(found), out)
    print(f"wrote {out}")

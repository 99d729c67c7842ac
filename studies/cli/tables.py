"""`python -m studies search`, `coverage` and `liars`: tables made of cells, measured anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from privquant.cli._options import Engine, Workers, executor_of
from privquant.cli._out import check_out
from privquant.errors import InvalidInput
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.runner import run_cells
from privquant.validation import check_choice
from studies.search import rounds
from studies.tables import SEARCH, TABLES, runs

Trials = Annotated[int, typer.Option(help="Runs a cell.")]
DataSets = Annotated[int, typer.Option(help="Drawn data sets a cell, among which the runs divide.")]
Seed = Annotated[int, typer.Option(help="Root seed; every cell derives its own from it.")]
Quick = Annotated[bool, typer.Option("--quick", help="A twentieth of the runs.")]
Out = Annotated[Path | None, typer.Option(help="Also write every cell here, as .csv or .parquet.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run of the same --out.")]


def search(
    table: Annotated[str, typer.Option(help=f"{', '.join(SEARCH)}, or all.")] = "success",
    trials: Trials = 4000,
    data_sets: DataSets = 500,
    seed: Seed = 1,
    workers: Workers = 0,
    engine: Engine = None,
    quick: Quick = False,
    out: Out = None,
    resume: Resume = False,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw accuracy against rounds and users in flight here.")
    ] = None,
) -> None:
    """Measure isotonic search against DpBayeSS, naive search and the limit, and print the tables."""
    check_choice(table, "table", (*SEARCH, "all"))
    if figure is not None:
        if table not in ("rounds", "all"):
            raise InvalidInput(f"--figure shows the table of rounds, got --table {table}")
        check_out(figure, (".png", ".pdf", ".svg"))
    chosen = list(SEARCH.values()) if table == "all" else [SEARCH[table]]
    results = _measured(chosen, trials, data_sets, seed, workers, engine, quick, out, resume)
    if figure is not None:
        rounds.draw(results, figure)


def coverage(
    trials: Trials = 4000,
    seed: Seed = 1,
    workers: Workers = 0,
    engine: Engine = None,
    quick: Quick = False,
    out: Out = None,
    resume: Resume = False,
) -> None:
    """Measure how often certified intervals cover, beside a set that is known to fail."""
    _measured([TABLES["coverage"]], trials, trials, seed, workers, engine, quick, out, resume)


def liars(
    trials: Annotated[
        int, typer.Option(help="Isotonic search has a twentieth of these runs a cell, the others a two-hundredth.")
    ] = 4000,
    seed: Seed = 1,
    workers: Workers = 0,
    engine: Engine = None,
    quick: Quick = False,
    out: Out = None,
    resume: Resume = False,
) -> None:
    """Measure what liars who choose their moment do to every protocol, and how often an alarm is raised."""
    _measured([TABLES["liars"]], trials, trials, seed, workers, engine, quick, out, resume)


def _measured(
    tables: Sequence[ModuleType],
    trials: int,
    data_sets: int,
    seed: int,
    workers: int,
    engine: str | None,
    quick: bool,
    out: Path | None,
    resume: bool,
) -> Results:
    """Run the cells of these tables and print each table."""
    if out is not None:
        check_out(out, (".csv", ".parquet"))
    wanted = runs(trials, data_sets, 20 if quick else 1)
    cells = [cell for table in tables for cell in table.cells(wanted)]
    kept = "finished cells are kept; go on with --resume" if out else "nothing is kept without --out"
    with executor_of(engine, workers, kept) as executor:
        results = run_cells(
            cells, seed=seed, workers=workers, executor=executor, out=out, resume=resume, progress=True
        )
    for table in tables:
        typer.echo(table.report(results))
    return results

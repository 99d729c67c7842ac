"""`privquant compare`: isotonic search beside its rivals, measured anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privquant.cli._engine import Engine, executor_of
from privquant.cli._options import Workers
from privquant.cli._out import check_out
from privquant.errors import InvalidInput
from privquant.validation import check_choice


def compare(
    table: Annotated[
        str, typer.Option(help="search, users, curve, shuffle, rounds, several, coverage, or all.")
    ] = "search",
    trials: Annotated[int, typer.Option(help="Runs a cell.")] = 4000,
    data_sets: Annotated[int, typer.Option(help="Drawn data sets a cell, among which the runs divide.")] = 500,
    seed: Annotated[int, typer.Option(help="Root seed; every cell derives its own from it.")] = 1,
    workers: Workers = 0,
    engine: Engine = None,
    quick: Annotated[bool, typer.Option("--quick", help="A twentieth of the runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write every cell here, as .csv or .parquet.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run of the same --out.")
    ] = False,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw accuracy against rounds and users in flight here.")
    ] = None,
) -> None:
    """Measure isotonic search against DpBayeSS, naive search and the limit, and print the tables."""
    from privquant.lab.experiment.runner import run_cells
    from studies.compare import TABLES, runs
    from studies.search.rounds import draw

    check_choice(table, "table", (*TABLES, "all"))
    if out is not None:
        check_out(out, (".csv", ".parquet"))
    if figure is not None:
        if table not in ("rounds", "all"):
            raise InvalidInput(f"--figure shows the table of rounds, got --table {table}")
        check_out(figure, (".png", ".pdf", ".svg"))
    studies = list(TABLES.values()) if table == "all" else [TABLES[table]]
    wanted = runs(trials, data_sets, 20 if quick else 1)
    cells = [cell for study in studies for cell in study.cells(wanted)]
    kept = "finished cells are kept; go on with --resume" if out else "nothing is kept without --out"
    with executor_of(engine, workers, kept) as executor:
        results = run_cells(
            cells, seed=seed, workers=workers, executor=executor, out=out, resume=resume, progress=True
        )
    for study in studies:
        typer.echo(study.report(results))
    if figure is not None:
        draw(results, figure)

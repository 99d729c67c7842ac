"""`privquant compare`: the tables isotonic search is held to, measured anew."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from privquant.cli._out import check_out
from privquant.errors import InvalidInput
from privquant.validation import check_choice, check_count


def register(app: typer.Typer) -> None:
    app.command("compare")(compare)


def compare(
    table: Annotated[
        str, typer.Option(help="search, users, curve, shuffle, rounds, several, coverage, speed, or all.")
    ] = "search",
    trials: Annotated[int, typer.Option(help="Runs a cell.")] = 4000,
    data_sets: Annotated[int, typer.Option(help="Drawn data sets a cell, among which the runs divide.")] = 500,
    seed: Annotated[int, typer.Option(help="Root seed; every cell derives its own from it.")] = 1,
    workers: Annotated[int, typer.Option(help="Processes; 0 is all cores. The numbers do not depend on it.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A twentieth of the runs.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write every cell here, as .csv or .json.")] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw accuracy against rounds and users in flight here.")
    ] = None,
) -> None:
    """Measure isotonic search against DpBayeSS, naive search and the limit, and print the tables.

    Exit code 1 if a cell misses its goal; never with --quick, which has too few runs to tell.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from privquant.lab.studies import search_report as report
    from privquant.lab.studies.search_table import TABLES, as_rows, work

    check_choice(table, "table", (*TABLES, "all"))
    if out is not None:
        check_out(out, (".csv", ".json"))
    if figure is not None:
        if table not in ("rounds", "all"):
            raise InvalidInput(f"--figure shows the table of rounds, got --table {table}")
        check_out(figure, (".png", ".pdf", ".svg"))
    share = 20 if quick else 1
    runs = max(check_count(trials, "trials", 1) // share, 1)
    drawn = min(max(check_count(data_sets, "data-sets", 1) // share, 1), runs)
    names = list(TABLES) if table == "all" else [table]
    jobs = [job for name in names for job in TABLES[name](runs, drawn, check_count(seed, "seed"))]
    with Progress(
        "{task.description}",
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task("cells", total=len(jobs))
        processes = check_count(workers, "workers") or os.cpu_count() or 1
        results = work(jobs, workers=processes, progress=lambda done, total: bar.update(task, completed=done))
    met = True
    for name in names:
        text, good = report.REPORTS[name]({key: value for key, value in results.items() if _of(name, key)})
        typer.echo(text)
        met = met and good
    if out is not None:
        _write(out, as_rows(results))
    if figure is not None:
        report.draw_rounds({key: value for key, value in results.items() if key[0] == "rounds"}, figure)
    if not met and not quick:
        raise typer.Exit(1)


def _of(name: str, key: tuple[Any, ...]) -> bool:
    return key[0] == name or (name == "several" and key[0] == "alone")


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    if path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1) + "\n")
        return
    fields = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        for row in rows:
            several = {name: " ".join(map(str, cell)) for name, cell in row.items() if isinstance(cell, tuple)}
            writer.writerow(row | several)

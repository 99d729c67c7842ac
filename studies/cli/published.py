"""`python -m studies published`: our success rates beside the authors' recorded runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from privquant.cli._options import AsJson, Engine, Workers, executor_of

if TYPE_CHECKING:
    from studies.published import Compared

TEXT_COLUMNS = ("data", "mechanism")


def published(
    trials: Annotated[int, typer.Option(help="Our trials for each recorded row; 1000 take minutes.")] = 1000,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(help="DpBayeSS, DpNaiveNBS or Hierarchical; repeat for several.", show_default="all"),
    ] = None,
    constant: Annotated[
        bool, typer.Option("--constant", help="The search for the constant c instead of the comparison.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Root seed; every row derives its own from it.")] = 0,
    workers: Workers = 0,
    engine: Engine = None,
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")] = False,
) -> None:
    """Repeat the authors' recorded runs: their rate, ours in the published behaviour, ours by the corrected text.

    Exit code 1 if the published behaviour does not agree with the record: more than 3 of 130 rows beyond 3 standard
    errors (of both samples), or one beyond 4.5.
    """
    from privquant.lab.experiment.runner import run_cells
    from studies.published import CONSTANTS, MECHANISMS, RUNS, cells, recorded_runs, report, verdict

    rows = recorded_runs(CONSTANTS if constant else RUNS, mechanism or MECHANISMS)
    with executor_of(engine, workers) as executor:
        found = run_cells(cells(rows, trials), seed=seed, workers=workers, executor=executor, progress=True)
    done = report(rows, found)
    outcome = verdict(done)
    if as_json:
        form = {"rows": [row.to_dict() for row in done], "agrees": outcome.agrees, "verdict": str(outcome)}
        typer.echo(json.dumps(form, indent=2))
    else:
        (_print_markdown if as_markdown else _print_table)(done)
        typer.echo(str(outcome))
    if not outcome.agrees:
        raise typer.Exit(1)


def _columns(rows: list[Compared]) -> dict[str, list[str]]:
    """What is shown, by the column's head."""
    shown = {
        "data": [row.recorded.data for row in rows],
        "n": [str(row.recorded.n) for row in rows],
        "B": [str(row.recorded.size) for row in rows],
        "mechanism": [row.recorded.mechanism for row in rows],
        "epsilon": [f"{row.recorded.epsilon:.4g}" for row in rows],
        "c": [f"{row.recorded.c:.4g}" if row.recorded.c is not None else "" for row in rows],
        "recorded": [f"{row.recorded.success:.3f}" for row in rows],
        "ours, published": [f"{row.published:.3f}" for row in rows],
        "z": [f"{row.z:+.2f}" for row in rows],
        "ours, text": [f"{row.text:.3f}" for row in rows],
    }
    return {head: cells for head, cells in shown.items() if any(cells)}


def _print_markdown(rows: list[Compared]) -> None:
    shown = _columns(rows)
    typer.echo("| " + " | ".join(shown) + " |")
    typer.echo("|" + "|".join("---" if head in TEXT_COLUMNS else "---:" for head in shown) + "|")
    for cells in zip(*shown.values(), strict=True):
        typer.echo("| " + " | ".join(cells) + " |")
    typer.echo("")


def _print_table(rows: list[Compared]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = _columns(rows)
    table = Table(title=f"success at alpha = 0.04; recorded: 200 trials a row, ours: {rows[0].trials}")
    for head in shown:
        table.add_column(head, justify="left" if head in TEXT_COLUMNS else "right", no_wrap=True)
    for row, cells in zip(rows, zip(*shown.values(), strict=True), strict=True):
        table.add_row(*cells, style="bold red" if abs(row.z) > 3 else None)
    screen = Console()
    # Into a file or a pipe the whole table goes, whatever width a terminal would have had.
    (screen if screen.is_terminal else Console(width=120)).print(table)

"""`privquant published`: our success rates beside the authors' recorded runs."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command("published")(published)


def published(
    trials: Annotated[int, typer.Option(help="Our trials for each recorded row; 1000 take minutes.")] = 1000,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(help="DpBayeSS, DpNaiveNBS or Hierarchical; repeat for several. [default: all]"),
    ] = None,
    constant: Annotated[
        bool, typer.Option("--constant", help="The search for the constant c instead of the comparison.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Root seed; every row derives its own from it.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes; 0 is all cores. The numbers do not depend on it.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Repeat the authors' recorded runs: their rate, ours in the published behaviour, ours by the corrected text.

    Exit code 1 if the published behaviour does not agree with the record: more than 3 of 130 rows beyond 3 standard
    errors (of both samples), or one beyond 4.5.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Table

    from privquant.lab.published import CONSTANTS, MECHANISMS, RUNS, compare, recorded_runs, verdict

    rows = recorded_runs(CONSTANTS if constant else RUNS, mechanism or MECHANISMS)
    columns = (TextColumn("recorded rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    done = []
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("rows", total=len(rows))
        for found in compare(rows, trials=trials, seed=seed, workers=workers):
            done.append(found)
            progress.advance(task)
    outcome = verdict(done)
    if as_json:
        form = {"rows": [row.to_dict() for row in done], "agrees": outcome.agrees, "verdict": str(outcome)}
        typer.echo(json.dumps(form, indent=2))
    else:
        table = Table(title=f"success at alpha = 0.04; recorded: 200 trials a row, ours: {trials}")
        for name in ("data", "n", "B", "mechanism", "epsilon", *(["c"] if constant else [])):
            table.add_column(name, justify="left" if name in ("data", "mechanism") else "right", no_wrap=True)
        for name in ("recorded", "ours, published", "z", "ours, text"):
            table.add_column(name, justify="right")
        for row in done:
            run = row.recorded
            c = [f"{run.c:.4g}"] if constant else []
            table.add_row(
                *(run.data, str(run.n), str(run.size), run.mechanism, f"{run.epsilon:.4g}", *c),
                *(f"{run.success:.3f}", f"{row.published:.3f}", f"{row.z:+.2f}", f"{row.text:.3f}"),
                style="bold red" if abs(row.z) > 3 else None,
            )
        screen = Console()
        # Into a file or a pipe the whole table goes, whatever width a terminal would have had.
        (screen if screen.is_terminal else Console(width=120)).print(table)
        typer.echo(str(outcome))
    if not outcome.agrees:
        raise typer.Exit(1)

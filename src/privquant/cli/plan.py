"""`privquant plan` and `privquant calibrate`: what a collection can reach, before anyone is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from privquant.cli._domain import domain_of
from privquant.cli._out import check_out


def register(app: typer.Typer) -> None:
    app.command("plan")(plan)
    app.command("calibrate")(calibrate)


def plan(
    low: Annotated[str, typer.Option(help="Lowest value that can occur.")] = "0",
    high: Annotated[str, typer.Option(help="Highest value that can occur.")] = str(2**20 - 1),
    bins: Annotated[
        int | None, typer.Option(help="For continuous values: this many equal bins between low and high.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="With --bins: bins of equal ratio (needs low > 0).")] = False,
    users: Annotated[int | None, typer.Option(help="People you can ask.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Rank error allowed: 0.02 is 2 percentile points.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy of each answer.")] = None,
    confidence: Annotated[float | None, typer.Option(help="Share of collections that must keep alpha.")] = None,
    quantile: Annotated[float, typer.Option(help="Quantile wanted.")] = 0.5,
    trust: Annotated[
        str | None, typer.Option(help="Plan for local or for shuffle alone.", show_default="both, side by side")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Of the rows in the shuffle model.", show_default="1e-8")
    ] = None,
    liars: Annotated[float, typer.Option(help="Fraction of users who may lie.")] = 0.01,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Plan a collection: give all but one of --users, --alpha, --epsilon, --confidence.

    Solves for the missing one, for every protocol and trust model side by side.
    """
    from privquant.planning.plan import plan as solve
    from privquant.planning.plan_words import show

    found = solve(
        domain=domain_of(low, high, bins, log),
        users=users,
        alpha=alpha,
        epsilon=epsilon,
        confidence=confidence,
        quantile=quantile,
        trust=trust,
        delta=delta,
        liars=liars,
    )
    if as_json:
        print(json.dumps(found.to_dict(), indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    found_how = "needed" if found.missing in ("users", "epsilon") else "reached"
    table = Table(title=f"{found.missing} {found_how}, quantile {found.quantile:g}, {found.size:,} possible values")
    table.add_column("way")
    table.add_column("trust")
    table.add_column("kind")
    table.add_column(found.missing, justify="right", overflow="fold")
    table.add_column("on the hardest data", justify="right", overflow="fold")
    for row in found.rows:
        value = row.note if row.note.startswith("says nothing") else show(found.missing, row.value)
        hardest = show(found.missing, row.hardest) if row.kind == "measured" else ""
        trusted = row.trust if row.delta is None else f"{row.trust}, delta {row.delta:g}"
        table.add_row(row.name, trusted, row.kind, value, hardest)
    console.print(table)
    console.print(
        "limit: everyone asked at the true quantile of the population they were drawn from. "
        "order: order of growth only, constant 1."
    )
    console.print(
        "measured: simulated on five shapes of data, the middle one of them and the worst, for the quantile of the "
        "very people asked."
    )
    console.print(f"[bold]{found.verdict}[/bold]")
    for warning in found.warnings:
        console.print(f"[bold red]{warning}[/bold red]")
    console.print(found.poisoning)


def calibrate(
    out: Annotated[Path, typer.Option(help="File to write.")],
    trials: Annotated[int, typer.Option(help="Trials for each shape of data and grid point.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 1,
    workers: Annotated[int, typer.Option(help="Processes; 0 is all cores. The numbers do not depend on it.")] = 2,
) -> None:
    """Measure anew what `privquant plan` plans with (takes a while)."""
    from privquant.lab.experiment.runner import run_cells
    from privquant.lab.studies.calibration import cells, report, write
    from privquant.validation import check_count

    check_out(out, (".json",))
    check_count(trials, "trials", 20)
    write(report(run_cells(cells(trials), seed=seed, workers=workers, progress=True)), out)
    print(f"wrote {out}")

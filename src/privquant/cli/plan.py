"""`privquant plan`: what a collection can reach, before anyone is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from privquant.cli._options import AsJson, Bins, Log, domain_of, option, quantiles_of

if TYPE_CHECKING:
    from privquant.planning.plan import Plan


def plan(
    low: str = option("Lowest value that can occur.", "0"),
    high: str = option("Highest value that can occur.", str(2**20 - 1)),
    bins: Bins = None,
    log: Log = False,
    users: int | None = option("People you can ask."),
    alpha: float | None = option("Rank error allowed: 0.02 is 2 percentile points."),
    epsilon: float | None = option("Privacy of each answer."),
    confidence: float | None = option("Share of collections that must keep alpha."),
    quantile: list[str] | None = option("Quantile; 0.5,0.9 or repeat for several of one run.", show_default="0.5"),
    trust: str | None = option("Plan for local or for shuffle alone.", show_default="both, side by side"),
    delta: float | None = option("Of the rows in the shuffle model.", show_default="1e-8"),
    interval: float | None = option("Also certify an interval at this confidence, e.g. 0.95."),
    rounds: int | None = option("Ask in so many feedback rounds, which grow."),
    in_flight: int | None = option("Users asked before the first answers."),
    pilot: str | None = option("Values like those to be asked: FILE, FILE:COLUMN, or a shape such as lognormal."),
    unit: str = option("Unit of the values, with --pilot: ms, EUR.", ""),
    liars: float = option("Fraction of users who may lie.", 0.01),
    calibration: Path | None = option(
        "A file of `python -m studies calibration`.", envvar="PRIVQUANT_CALIBRATION", show_default="the shipped one"
    ),
    simulate: int | None = option(
        "With --pilot: run the job so many times on people drawn from it; 0: laws for smooth data.",
        show_default="600 where numba is installed",
    ),
    as_json: AsJson = False,
) -> None:
    """Plan a collection: give all but one of --users, --alpha, --epsilon, --confidence.

    Solves for the missing one, for every protocol and trust model side by side.
    """
    given = dict(locals())  # the other options have the names of what `solve` takes
    from privquant.plans import plan as solve

    for name in ("low", "high", "bins", "log", "as_json"):
        del given[name]
    given |= {"domain": domain_of(low, high, bins, log), "quantile": quantiles_of(quantile)}
    found = solve(**given)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2))
        return
    _print(found)


def _print(found: Plan) -> None:
    """The verdict first, then what could disappoint, then all the rest."""
    from rich.console import Console
    from rich.table import Table

    from privquant.planning.plan_words import ABOUT, KINDS, show

    console = Console(highlight=False)
    console.print(f"[bold]{found.verdict}[/bold]")
    for warning in found.warnings:
        console.print(f"[bold red]{warning}[/bold red]")
    for line in (*found.details, found.poisoning):
        console.print(line)
    found_how = "needed" if found.missing in ("users", "epsilon") else "reached"
    several = isinstance(found.quantile, tuple)
    wanted = "all quantiles" if several else f"quantile {found.quantile:g}"
    table = Table(title=f"{found.missing} {found_how}, {wanted}, {found.size:,} possible values")
    for column in ("way", "trust", "kind"):
        table.add_column(column)
    for column in ("typical data", "lumpy data", "hardest data"):
        table.add_column(column, justify="right", overflow="fold")
    for row in found.rows:
        value = row.note if row.note.startswith("says nothing") else show(found.missing, row.value)
        whole = row.kind == "measured" and not row.note
        harder = [show(found.missing, v) if whole else "" for v in (row.lumpy, row.hardest)]
        trusted = row.trust if row.delta is None else f"{row.trust}, delta {row.delta:g}"
        table.add_row(row.name, trusted, row.kind, value, *harder)
    console.print(table)
    for line in (*ABOUT, *KINDS):
        console.print(line)

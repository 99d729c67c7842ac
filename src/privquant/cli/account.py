"""`privquant account`: what a shuffled batch promises, by every method side by side."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from privquant.cli._options import AsJson
from privquant.cli._table import table_of
from privquant.errors import InvalidInput


def account(
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy after shuffling.", show_default="1, unless --local-epsilon is given"),
    ] = None,
    delta: Annotated[float, typer.Option(help="Probability with which that may fail.")] = 1e-8,
    batch: Annotated[
        int | None, typer.Option(help="Users whose answers are shuffled together.", show_default="100000")
    ] = None,
    local_epsilon: Annotated[
        float | None, typer.Option(help="Account for this coin instead of finding the most honest one.")
    ] = None,
    cap: Annotated[float | None, typer.Option(help="Largest local epsilon users accept.")] = None,
    colluding: Annotated[float, typer.Option(help="Fraction of all users who work with the aggregator.")] = 0.0,
    answered: Annotated[
        int | None, typer.Option(help="Also say what holds if only so many of the batch answered.")
    ] = None,
    rtol: Annotated[float, typer.Option(help="Width of the certified bracket, relative to delta.")] = 1e-3,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare", help="Users needed by exact accounting and by the paper's lemma, at a grid of both."
        ),
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves into this file (png, svg, pdf).")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a shuffled batch of one-bit answers promises, by every method of accounting.

    Without --local-epsilon: the most honest coin that keeps (epsilon, delta). With it: the epsilon of that coin.
    "exact" is for the coin; the others hold for any randomizer of that local epsilon.
    """
    if local_epsilon is not None and (epsilon is not None or cap is not None):
        raise InvalidInput("give --local-epsilon, or --epsilon (with --cap), not both: one follows from the other")
    if compare:
        if any(given is not None for given in (epsilon, batch, local_epsilon, cap, answered)) or colluding:
            raise InvalidInput("--compare has its own grid of epsilons and batches: it goes with --delta only")
        _compare(delta, plot, as_json)
        return
    batch = 100_000 if batch is None else batch

    from privquant.privacy import comparison, shuffle

    chosen = 1.0 if epsilon is None else epsilon
    if local_epsilon is None:
        results = comparison.coins_by_method(
            epsilon=chosen, delta=delta, batch=batch, cap=cap, colluding=colluding, rtol=rtol
        )
        title = f"The most honest coin for epsilon {chosen:g}, delta {delta:g} in a batch of {batch:,}"
        title += "" if cap is None else f", local epsilon at most {cap:g}"
    else:
        results = comparison.epsilons_by_method(
            local_epsilon=local_epsilon, delta=delta, batch=batch, colluding=colluding, rtol=rtol
        )
        title = f"What a coin of local epsilon {local_epsilon:g} promises in a batch of {batch:,}, delta {delta:g}"
    exact = results[0]
    statement = shuffle.guarantee(
        local_epsilon=exact.local_epsilon,
        batch=batch,
        delta=delta,
        colluding=colluding,
        rtol=rtol,
        answered=answered,
    )
    if plot is not None:
        from privquant.cli._account_figures import curves

        curves(plot, delta=delta, epsilon=exact.epsilon, batch=batch)
    if as_json:
        found: dict[str, Any] = {
            "delta": delta,
            "batch": batch,
            "honest": shuffle.at_worst(batch, colluding, delta)[0],
            "methods": [asdict(result) for result in results],
            "guarantee": statement.to_dict(),
        }
        print(json.dumps(found, indent=2))
        return
    from rich.console import Console

    console = Console()
    shown = {
        "method": [result.method for result in results],
        "epsilon": [f"{result.epsilon:.6g}" for result in results],
        "local epsilon": [f"{result.local_epsilon:.6g}" for result in results],
        "coin noise, users": [f"{result.noise_users:.4g}" for result in results],
        "coin noise, points": [f"{100 * result.noise:.3g}" for result in results],
    }
    console.print(table_of(title, shown, texts=("method",)))
    if colluding:
        most = batch - shuffle.at_worst(batch, colluding, delta)[0]
        console.print(
            f"If {colluding:.4g} of all users collude, up to {most:,} of a batch of {batch:,} do; "
            "the chance of more is part of delta."
        )
    if answered is not None:
        console.print(f"If only {answered:,} of {batch:,} answer:")
    console.print(str(statement))


def _compare(delta: float, plot: Path | None, as_json: bool) -> None:
    from privquant.privacy.comparison import savings

    rows = savings(delta=delta)
    if plot is not None:
        from privquant.cli._account_figures import saved

        saved(plot, rows, delta=delta)
    if as_json:
        print(json.dumps([row.to_dict() for row in rows], indent=2))
        return
    from rich.console import Console

    shown = {
        "epsilon": [f"{row.epsilon:g}" for row in rows],
        "exact: users": [f"{row.batch:,}" for row in rows],
        "local epsilon": [f"{row.local_epsilon:.4g}" for row in rows],
        "noise, points": [f"{100 * row.noise:.3g}" for row in rows],
        "lemma: users": [f"{row.needed:,}" for row in rows],
        "times fewer": [f"{row.ratio:.1f}" for row in rows],
        "of a sample": [f"{row.ratio_of_a_sample:.2f}" for row in rows],
    }
    title = f"Users needed for the same coin noise, delta {delta:g}; last column: coins and drawing"
    Console().print(table_of(title, shown))

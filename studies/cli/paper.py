"""`python -m studies paper`: every figure of the paper again, and those that go beyond it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privquant.cli._options import Engine, Workers, executor_of
from privquant.cli._out import print_table


def paper(
    figure: Annotated[
        list[str] | None, typer.Option(help="Figure by name or beginning of a name; repeat.", show_default="all")
    ] = None,
    show: Annotated[bool, typer.Option("--list", help="List the figures and stop.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer trials and a thinner grid: some minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("out/paper"),
    workers: Workers = 0,
    engine: Engine = None,
    seed: Annotated[int, typer.Option(help="Root seed of the simulations.")] = 2024,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an interrupted run.")] = False,
) -> None:
    """Regenerate the paper's figures: PDF and PNG, the CSV behind each, and our rates beside the recorded ones."""
    from studies.paper.regenerate import catalogue, regenerate

    if show:
        for known in catalogue().values():
            typer.echo(f"{known.name:22} {known.place:32} {known.title}")
        return
    with executor_of(engine, workers, "finished cells are kept; go on with --resume") as executor:
        running: dict[str, Any] = {"workers": workers, "executor": executor, "resume": resume, "progress": True}
        done = regenerate(figure, out=out, quick=quick, seed=seed, **running)
    if done.comparison:
        _show(done.comparison)
    typer.echo(f"{len(done.files)} files written to {out}")


def _show(rows: list[dict[str, Any]]) -> None:
    sizes = [{4**8: "4^8", 4**9: "4^9"}.get(row["B"], f"10^{len(str(row['B'])) - 1}") for row in rows]
    shown = {
        "data, n, B": [f"{row['data'].split('-')[0]} {row['n']} {size}" for row, size in zip(rows, sizes)],
        "mechanism": [row["mechanism"] for row in rows],
        "ε": [f"{row['epsilon']:.3g}" for row in rows],
        "c": ["" if row["c"] is None else f"{row['c']:.2f}" for row in rows],
        "paper": [f"{row['published']:.3f}" for row in rows],
        "ours": [f"{row['ours']:.3f}" for row in rows],
        "se apart": [f"{row['standard_errors']:+.1f}" for row in rows],
    }
    title = "success rate (α = 0.04) beside the recorded runs of the paper"
    print_table(title, shown, texts=("data, n, B", "mechanism"), wrap=False)
    far = sum(abs(row["standard_errors"]) > 3 for row in rows)
    typer.echo(f"{far} of {len(rows)} recorded rows are more than 3 standard errors from ours")

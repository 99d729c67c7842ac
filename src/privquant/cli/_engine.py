"""`--engine`: where the blocks of a simulation run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Annotated

import typer

Engine = Annotated[
    str | None,
    typer.Option(
        help="Cluster to run on: ray, ray://auto, ray://HOST:PORT, dask or dask://HOST:PORT; same numbers.",
        show_default="processes of this machine",
    ),
]


@contextmanager
def executor_of(engine: str | None, workers: int, kept: str = "") -> Iterator[Executor | None]:
    """The executor a command line names; None for processes of our own.

    kept: what a person who interrupts is told about the work done so far, before the command ends with 130.
    """
    try:
        if engine is None:
            yield None
            return
        from privquant.engines.executors import executor_at

        with executor_at(engine, workers=workers) as executor:
            yield executor
    except KeyboardInterrupt:
        if not kept:
            raise
        typer.echo(f"interrupted: {kept}", err=True)
        raise typer.Exit(130) from None

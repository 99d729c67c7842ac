"""Options as commands declare them; those that more than one command takes, and what they are read as."""

import math
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from privquant.domain import MAX_BINS, Domain, Grid, Integers, LogGrid
from privquant.errors import InvalidInput


def option(help: str, default: Any = None, *names: str, **more: Any) -> Any:
    """An option that one command takes. `...` for a default makes it one that must be given."""
    return typer.Option(default, *names, help=help, **more)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Workers = Annotated[int, typer.Option(help="Processes; 0 is all cores. The numbers do not depend on it.")]
Engine = Annotated[
    str | None,
    typer.Option(
        help="Cluster to run on: ray, ray://auto, ray://HOST:PORT, dask or dask://HOST:PORT; same numbers.",
        show_default="processes of this machine",
    ),
]

# Of campaigns, at the aggregator and at the shuffler
Identity = Annotated[str, typer.Argument(help="The campaign's id, or enough of its start to be the only one.")]
Number = Annotated[int, typer.Argument(help="How many one-time invites.")]
InvitesFile = Annotated[Path, typer.Argument(help="CSV file to write; it must not exist.")]
Places = Annotated[int, typer.Argument(help="How many may answer through it.")]
WithCode = Annotated[bool, typer.Option("--code", help="It needs a code beside it, which is printed too.")]

# Of servers
Host = Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")]
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error.", show_default="info")]
BackupFolder = Annotated[Path, typer.Argument(help="Folder made by `backup`.")]

# Of continuous values
Bins = Annotated[int | None, typer.Option(help="For continuous values: this many equal bins between low and high.")]
Log = Annotated[bool, typer.Option("--log", help="With --bins: bins of equal ratio (needs low > 0).")]


def quantiles_of(texts: list[str] | None) -> list[float]:
    """What --quantile was given, repeated, by commas, or both; the median where nothing was."""
    found = []
    for text in texts or ["0.5"]:
        for part in text.split(","):
            try:
                found.append(float(part))
            except ValueError:
                raise InvalidInput(
                    f"--quantile takes numbers between 0 and 1, such as 0.9 or 0.5,0.9, got {text!r}"
                ) from None
    return found


def domain_of(low: str | None, high: str | None, bins: int | None, log: bool) -> Domain:
    """What --low, --high, --bins and --log say."""
    if low is None or high is None:
        raise InvalidInput(
            "--low and --high are needed: the bounds are part of the question and never inferred from the data, "
            "because bounds found in the data would reveal data"
        )
    if bins is not None:
        start, end = _number("--low", low), _number("--high", high)
        if log:
            return LogGrid(start, end, bins)
        if not 1 <= bins <= MAX_BINS or not start < end:
            raise InvalidInput(
                f"--bins needs 1 to {MAX_BINS} bins and low < high, got bins={bins}, low={low}, high={high}"
            )
        return Grid([start + (end - start) * k / bins for k in range(bins + 1)])
    if log:
        raise InvalidInput("--log goes with --bins: say how many bins of equal ratio there are")
    return Integers(_whole("--low", low), _whole("--high", high))


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InvalidInput(f"{name} must be a number, got {text!r}") from None
    if not math.isfinite(value):
        raise InvalidInput(f"{name} must be a finite number, got {text!r}")
    return value


def _whole(name: str, text: str) -> int:
    """Exact where the text is a whole number: a float would lose digits beyond 2^53."""
    try:
        return int(text.replace("_", ""))
    except ValueError:
        value = _number(name, text)
    if value != int(value):
        raise InvalidInput(f"{name} must be a whole number, got {text}; add --bins N for continuous values")
    return int(value)


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

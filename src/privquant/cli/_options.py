"""Options as commands declare them, and those that more than one command takes, each said once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privquant.errors import InvalidInput


def option(help: str, default: Any = None, *names: str, **more: Any) -> Any:
    """An option that one command takes. `...` for a default makes it one that must be given."""
    return typer.Option(default, *names, help=help, **more)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Workers = Annotated[int, typer.Option(help="Processes; 0 is all cores. The numbers do not depend on it.")]

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

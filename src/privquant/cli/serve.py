"""`privquant serve`: start the aggregator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privquant.cli._options import Host, LogLevel
from privquant.errors import MissingDependency


def serve(
    config: Annotated[
        Path | None, typer.Option(help="TOML file of settings; flags and the environment win over it.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the store and the signing keys.", show_default="privquant-data")
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="postgresql://... instead of the embedded SQLite file.", show_default=False)
    ] = None,
    keys_folder: Annotated[
        str | None,
        typer.Option(help="Folder of the signing keys, if several hosts share one.", show_default="DATA/keys"),
    ] = None,
    host: Host = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="8470")] = None,
    admin_host: Annotated[
        str | None, typer.Option(help="Address of the listener for operators.", show_default="127.0.0.1")
    ] = None,
    admin_port: Annotated[
        int | None, typer.Option(help="Port for operators, health and metrics.", show_default="8471")
    ] = None,
    public_url: Annotated[
        str | None, typer.Option(help="Where devices reach this server, e.g. https://ask.example.org.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="API processes on the port (PostgreSQL).", show_default="1")
    ] = None,
    lease_minutes: Annotated[
        int | None, typer.Option(help="How long a device that was asked counts as in flight.", show_default="10")
    ] = None,
    grace_minutes: Annotated[
        int | None,
        typer.Option(help="How long after its deadline a campaign closes itself.", show_default="60"),
    ] = None,
    snapshot_reports: Annotated[
        int | None,
        typer.Option(help="What is shown of a running campaign moves in steps of so many.", show_default="32"),
    ] = None,
    log_level: LogLevel = None,
) -> None:
    """Start the aggregator: campaigns, and the API devices answer to.

    Creates its store and its signing key on the first start. Every setting can be given in the environment as
    PRIVQUANT_... (PRIVQUANT_DATABASE, PRIVQUANT_PORT, ...), or in a file (--config). Stop with Ctrl-C or SIGTERM:
    requests in hand are finished first.
    """
    given = dict(locals())  # each option has the name of its setting
    try:
        from privquant.aggregator.server import run
    except ImportError as error:
        raise MissingDependency("the aggregator", error.name or "fastapi", "service") from error
    from privquant.aggregator.settings import Settings

    settings = Settings.gather(given)
    settings.check_reachable()
    typer.echo(f"privquant starts, to serve {settings.url}; for operators {settings.admin_url}", err=True)
    raise typer.Exit(run(settings))

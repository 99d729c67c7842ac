"""`privquant serve`: start the aggregator."""

from pathlib import Path

import typer

from privquant.aggregator.settings import Settings
from privquant.cli._options import Host, LogLevel, option
from privquant.errors import MissingDependency


def serve(
    config: Path | None = option("TOML file of settings; flags and the environment win over it."),
    data: Path | None = option("Folder of the store and the signing keys.", show_default="privquant-data"),
    database: str | None = option("postgresql://... instead of the embedded SQLite file.", show_default=False),
    keys_folder: str | None = option(
        "Folder of the signing keys, if several hosts share one.", show_default="DATA/keys"
    ),
    host: Host = None,
    port: int | None = option("Port to listen on.", show_default="8470"),
    admin_host: str | None = option("Address of the listener for operators.", show_default="127.0.0.1"),
    admin_port: int | None = option("Port for operators, health and metrics.", show_default="8471"),
    public_url: str | None = option("Where devices reach this server, e.g. https://ask.example.org."),
    workers: int | None = option("API processes on the port (PostgreSQL).", show_default="1"),
    lease_minutes: int | None = option("How long a device that was asked counts as in flight.", show_default="10"),
    grace_minutes: int | None = option("How long after its deadline a campaign closes itself.", show_default="60"),
    snapshot_reports: int | None = option(
        "What is shown of a running campaign moves in steps of so many.", show_default="32"
    ),
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
    settings = Settings.gather(given)
    settings.check_reachable()
    typer.echo(f"privquant starts, to serve {settings.url}; for operators {settings.admin_url}", err=True)
    raise typer.Exit(run(settings))

"""`privquant operator`: what is done on the server's own machine: operators, keys, backup."""

import asyncio
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from privquant.aggregator.settings import Settings
from privquant.cli._options import BackupFolder, Yes, option
from privquant.errors import InvalidInput, PrivquantError

Data = Annotated[Path | None, typer.Option(help="The server's data folder.", show_default="privquant-data")]
Database = Annotated[str | None, typer.Option(help="postgresql://... if the store is there.", show_default=False)]
HELP = "Operators, signing keys, backup: on the server's own machine."


class StoreFailed(PrivquantError):
    """The store or the keys of this machine cannot be used."""


def _in_one_line(command: Callable[..., None]) -> Callable[..., None]:
    """What a disk or a database does to a command is said in words."""

    @functools.wraps(command)
    def said(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except (PrivquantError, ImportError, typer.Exit, typer.Abort, click.exceptions.ClickException):
            raise
        except Exception as error:
            from privquant.server.causes import cause_of

            raise StoreFailed(f"the store or its keys cannot be used: {cause_of(error)}") from error

    return said


def add(
    name: Annotated[str, typer.Argument(help="Name, as the audit will show it.")],
    role: str = option("admin, or viewer (may look, not change).", "admin"),
    data: Data = None,
    database: Database = None,
) -> None:
    """Make an operator and print the token, which is shown this once and stored as a hash."""
    from privquant.aggregator.operators.accounts import add_operator
    from privquant.aggregator.store.migrate import on_store

    settings = _settings(data, database)
    if not settings.database and not settings.sqlite_file.exists():
        typer.echo(f"privquant: there was no store in {settings.data.resolve()}; a new one is made", err=True)
    typer.echo(on_store(settings, lambda engine: add_operator(engine, name, role)))


def list_(data: Data = None, database: Database = None) -> None:
    """List operators."""
    from privquant.aggregator.operators.accounts import list_operators
    from privquant.aggregator.store.migrate import on_store

    for line in on_store(_existing(data, database), list_operators):
        since = time.strftime("%Y-%m-%d", time.gmtime(line["created"]))
        typer.echo(f"{line['name']:<30} {line['role']:<8} since {since}")


def remove(
    name: Annotated[str, typer.Argument(help="Whose token stops working now.")],
    data: Data = None,
    database: Database = None,
) -> None:
    """Remove an operator."""
    from privquant.aggregator.operators.accounts import remove_operator
    from privquant.aggregator.store.migrate import on_store

    on_store(_existing(data, database), lambda engine: remove_operator(engine, name))


def audit(last: int = option("How many acts.", 50), data: Data = None, database: Database = None) -> None:
    """Show what operators did, newest first."""
    from privquant.aggregator.operators.accounts import read_audit
    from privquant.aggregator.store.migrate import on_store

    for line in on_store(_existing(data, database), lambda engine: read_audit(engine, last)):
        at, campaign = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(line["at"])), (line["campaign"] or "")[:12]
        typer.echo(f"{at}  {line['operator']:<16} {line['act']:<16} {campaign:<12}  {line['detail']}")


def key(data: Data = None) -> None:
    """Show the fingerprints of the signing keys; devices may pin the current one."""
    from privquant.server.keys import open_keys
    from privquant.wire import fingerprint, public_key_of

    ring = open_keys(_with_keys(data).keys)
    current = fingerprint(public_key_of(ring.current))
    for name in ring.fingerprints():
        typer.echo(f"{name}{'  current' if name == current else ''}")


def rotate_key(data: Data = None) -> None:
    """Sign new campaigns with a new key. Running campaigns keep theirs; a running server takes it up at once."""
    from privquant.server.keys import open_keys

    typer.echo(open_keys(_with_keys(data).keys).rotate())


def backup(
    target: Annotated[Path, typer.Argument(help="New folder for the copy.")],
    data: Data = None,
    database: Database = None,
) -> None:
    """Copy store and keys, also while the server runs. Keep the copy as safe as the keys in it."""
    from privquant.aggregator.backup import backup as copy

    copy(_settings(data, database), target)
    typer.echo(f"copied to {target}", err=True)


def restore(source: BackupFolder, data: Data = None, database: Database = None) -> None:
    """Make a backup the store of an empty data folder."""
    from privquant.aggregator.backup import restore as put_back

    settings = _settings(data, database)
    put_back(settings, source)
    typer.echo(f"restored to {settings.data}", err=True)


def schema(
    to: str | None = option("Turn the tables back to this older schema."),
    yes: Yes = False,
    data: Data = None,
    database: Database = None,
) -> None:
    """Say whether the tables fit this version; exit code 1 if not. With --to, turn them back for an older one."""
    from privquant.aggregator.store.migrate import schema_of, turn_back, untouched

    settings = _existing(data, database)

    async def run() -> tuple[str | None, list[str]]:
        async with untouched(settings) as engine:
            if to is not None:
                await turn_back(engine, to)
            return await schema_of(engine)

    if to is not None and not yes:
        typer.confirm(f"Stop all servers first. Turn the tables back to {to}, and lose what was added?", abort=True)
    found, known = asyncio.run(run())
    if found == known[-1]:
        typer.echo(f"the tables are of schema {found}, which is this version's")
        return
    if found is None:
        said = "there are no tables yet; the first start makes them"
    elif found in known:
        said = f"the tables are of schema {found}; this version's is {known[-1]}, and its start upgrades them"
    else:
        said = f"the tables are of schema {found}, made by a newer version; this one knows up to {known[-1]}"
    typer.echo(said)
    raise typer.Exit(1)


def _settings(data: Path | None, database: str | None) -> Settings:
    return Settings.gather({"data": data, "database": database})


def _existing(data: Path | None, database: str | None) -> Settings:
    """Settings of a store that is there: a mistyped folder must not pass for an empty store."""
    settings = _settings(data, database)
    if not settings.database and not settings.sqlite_file.exists():
        raise InvalidInput(f"there is no store in {settings.data.resolve()}; give the server's folder with --data")
    return settings


def _with_keys(data: Path | None) -> Settings:
    from privquant.server.keys import has_keys

    settings = _settings(data, None)
    if not has_keys(settings.keys):
        raise InvalidInput(f"there are no keys in {settings.keys.resolve()}; give the server's folder with --data")
    return settings


_ALL = (add, list_, remove, audit, key, rotate_key, backup, restore, schema)
COMMANDS = tuple(_in_one_line(command) for command in _ALL)

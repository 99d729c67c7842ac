"""`privquant shuffler`: the party that mixes; its commands run on its own machine, beside its own database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privquant.cli import _options as common
from privquant.cli._options import Identity, option
from privquant.cli._out import new_private_file
from privquant.errors import InvalidInput
from privquant.shuffler.settings import Settings

if TYPE_CHECKING:
    import sqlite3

    from privquant.shuffler.campaigns import Joined

Data = Annotated[Path | None, typer.Option(help="The shuffler's data folder.", show_default="privquant-shuffler")]
Url = Annotated[
    str | None, typer.Option(help="Where devices reach this shuffler, e.g. https://shuffle.example.org.")
]
HELP = "The shuffler: tokens, sealed reports, whole rounds. On its own machine, at another party."


def serve(
    data: Data = None,
    host: common.Host = None,
    port: int | None = option("Port to listen on.", show_default="8475"),
    admin_host: str | None = option("Address of the listener for metrics.", show_default="127.0.0.1"),
    admin_port: int | None = option("Port for metrics and health.", show_default="no such listener"),
    public_url: Url = None,
    lease_seconds: int | None = option("How long a place in a round is kept for a device.", show_default="120"),
    retry_seconds: int | None = option("How soon a device without a place asks again.", show_default="5"),
    log_level: common.LogLevel = None,
) -> None:
    """Start the shuffler. It makes its key on the first start; stop with Ctrl-C or SIGTERM.

    Every setting can be given in the environment as PRIVQUANT_SHUFFLER_... too.
    """
    given = dict(locals())  # each option has the name of its setting
    from privquant.shuffler.server import run

    settings = Settings.gather(given)
    typer.echo(f"the shuffler at {settings.url}, its data in {settings.data.resolve()}", err=True)
    raise typer.Exit(run(settings))


def key(data: Data = None, public_url: Url = None) -> None:
    """Print what the aggregator's operator needs to name this shuffler: --shuffler and --shuffler-key."""
    from privquant.server.keys import KeyFolder
    from privquant.wire import public_key_of

    settings = Settings.gather({"data": data, "public_url": public_url})
    typer.echo(f"--shuffler {settings.url} --shuffler-key {public_key_of(KeyFolder(settings.keys).current)}")


def join(
    campaign: str = typer.Argument(help="What `campaign create --trust shuffle` printed: https://...#k=..."),
    round_minutes: float | None = option(
        "How long a round may take before it is extended.", show_default="a share of the time"
    ),
    yes: common.Yes = False,
    data: Data = None,
    public_url: Url = None,
) -> None:
    """Read a campaign's manifest, account for it, and agree to shuffle it."""
    from privquant.server.http_client import check_peer, exchange
    from privquant.server.keys import KeyFolder
    from privquant.shuffler.campaigns import check_manifest, read_manifest
    from privquant.shuffler.campaigns import join as accept
    from privquant.shuffler.store import opened
    from privquant.wire import path_of
    from privquant.wire.shuffle_promise import promise

    settings = Settings.gather({"data": data, "public_url": public_url})
    base, identity, mark = _named(campaign)
    envelope = exchange(check_peer(base) + path_of(identity, "manifest"))
    manifest = read_manifest(envelope, campaign_id=identity, key_fingerprint=mark)
    signing = KeyFolder(settings.keys).current
    check_manifest(manifest, signing, settings.url)
    said = promise(manifest)
    typer.echo(f"{manifest.measurement}: {manifest.question}", err=True)
    typer.echo(f"asked by {base}, key {mark}", err=True)
    typer.echo(str(said), err=True)
    typer.echo(said.table(), err=True)
    if not yes:
        typer.confirm("Shuffle this campaign?", abort=True)
    with opened(settings.file) as db:
        seconds = None if round_minutes is None else max(1, round(60 * round_minutes))
        accept(db, envelope, manifest, signing, aggregator=base, round_seconds=seconds)
    typer.echo(manifest.id)


def list_(data: Data = None) -> None:
    """List the campaigns that are shuffled here."""
    from privquant.shuffler.campaigns import joined, shown
    from privquant.shuffler.rounds import OVER
    from privquant.shuffler.store import opened

    with opened(_existing(data).file) as db:
        for campaign in joined(db):
            found = shown(db, campaign)
            over = sum(row["state"] in OVER for row in found["rounds"])
            rounds = f"{over} of {found['planned_rounds']} rounds"
            typer.echo(f"{found['id'][:16]}  {found['state']:<7} {rounds:<20} {found['measurement']}")


def show(
    campaign: Identity,
    as_json: bool = option("Print JSON: the books that `verify` compares.", False, "--json"),
    data: Data = None,
) -> None:
    """Show a campaign's rounds: forwarded, dropped, waiting; and what an aggregator did that it must not."""
    from privquant.shuffler.campaigns import shown

    with _campaign(data, campaign) as (db, found):
        said = shown(db, found)
    for line in [json.dumps(said, indent=1)] if as_json else _lines(said):
        typer.echo(line)


def invites(campaign: Identity, number: common.Number, file: common.InvitesFile, data: Data = None) -> None:
    """Write one-time invites to a CSV file, readable by you alone. They are stored nowhere else."""
    from privquant.server.keys import KeyFolder
    from privquant.shuffler.campaigns import invite

    keys = KeyFolder(_existing(data).keys)
    with new_private_file(file) as out, _campaign(data, campaign) as (db, found):
        urls = invite(db, keys, found, number)
        out.write("invite\n" + "".join(url + "\n" for url in urls))
    typer.echo(f"{number:,} invites written to {file}", err=True)


def link(campaign: Identity, places: common.Places, code: common.WithCode = False, data: Data = None) -> None:
    """Print one open link for many people. A new one replaces the old."""
    from privquant.shuffler.campaigns import open_link

    with _campaign(data, campaign) as (db, found):
        invite, typed = open_link(db, found, places, coded=code)
    typer.echo(invite)
    if typed is not None:
        typer.echo(f"code: {typed[:4]}-{typed[4:]}")


def close(campaign: Identity, yes: common.Yes = False, data: Data = None) -> None:
    """Take no more reports. The open round is dropped for good; full ones are still forwarded."""
    from privquant.shuffler.campaigns import close

    with _campaign(data, campaign) as (db, found):
        if not yes:
            typer.confirm(f"Close {found.id} for good, and drop its open round?", abort=True)
        close(db, found)
    typer.echo("closed")


def delete(campaign: Identity, yes: common.Yes = False, data: Data = None) -> None:
    """Erase a closed campaign: tokens, rounds, everything."""
    from privquant.shuffler.campaigns import check_deletable, delete

    with _campaign(data, campaign) as (db, found):
        check_deletable(db, found)
        if not yes:
            typer.confirm(f"Erase {found.id}?", abort=True)
        delete(db, found)
    typer.echo("erased", err=True)


def backup(target: Path = typer.Argument(help="Folder to make; it must not exist."), data: Data = None) -> None:
    """Copy key, books and batches that are ready, also while the shuffler runs. The copy's campaigns are closed."""
    from privquant.shuffler.campaigns import backup as copy

    copy(_existing(data), target)
    typer.echo(f"copied to {target}; it is as secret as the key in it", err=True)


def restore(source: common.BackupFolder, data: Data = None) -> None:
    """Make a backup the shuffler of an empty data folder. It forwards what lay ready and takes nothing any more."""
    from privquant.shuffler.campaigns import restore as put_back

    settings = Settings.gather({"data": data})
    put_back(settings, source)
    typer.echo(f"restored to {settings.data}; its campaigns are closed, open rounds are dropped", err=True)


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{found['measurement']}: {found['question']}",
        f"{found['state']}, for the aggregator at {found['aggregator']}",
        f"{found['acknowledged']:,} reports taken of {found['tokens']:,} tokens: {found['forwarded']:,} forwarded, "
        f"{found['dropped']:,} in dropped rounds, {found['waiting']:,} waiting",
    ]
    for row in found["rounds"]:
        extended = ", extended" if row["extended"] else ""
        batch = f"  batch {row['batch'][:16]}" if row["batch"] else ""
        lines.append(
            f"round {row['round']:>3}  {row['state']:<9} {row['reports']:,} of {row['needed']:,}{extended}{batch}"
        )
    lines += [f"INCIDENT in round {each['round']}: {each['what']}" for each in found["incidents"]]
    return [*lines, found["privacy"]]


def _named(text: str) -> tuple[str, str, str]:
    """Base address, campaign id and key fingerprint of https://host/c/<id>#k=<fingerprint>."""
    address, _, fragment = text.strip().partition("#k=")
    base, _, identity = address.rpartition("/c/")
    if not base or len(identity) != 64 or len(fragment) != 32:
        raise InvalidInput(
            "a campaign is named as `campaign create --trust shuffle` prints it: https://host/c/<id>#k=<fingerprint>"
        )
    return base, identity, fragment


def _existing(data: Path | None) -> Settings:
    """Settings of a shuffler that is there: a mistyped folder must not pass for an empty one."""
    settings = Settings.gather({"data": data})
    if not settings.file.exists():
        raise InvalidInput(f"there is no shuffler's data in {settings.data.resolve()}; give its folder with --data")
    return settings


@contextmanager
def _campaign(data: Path | None, start: str) -> Iterator[tuple[sqlite3.Connection, Joined]]:
    """The database of a shuffler that is there, and its campaign whose id begins so."""
    from privquant.shuffler.campaigns import find
    from privquant.shuffler.store import opened

    with opened(_existing(data).file) as db:
        yield db, find(db, start)


COMMANDS = (serve, key, join, list_, show, invites, link, close, delete, backup, restore)

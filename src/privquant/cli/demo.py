"""`privquant demo`: the deployed system on this machine, start to end, in under a minute."""

from __future__ import annotations

import io
import json
import os
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from privquant.cli._options import option
from privquant.errors import InvalidInput, MissingDependency
from privquant.validation import check_choice, check_epsilon

if TYPE_CHECKING:
    from privquant.demo.local import Addresses, DemoResult, Moment


def demo(
    devices: int = option("How many devices answer.", 5_000),
    epsilon: float = option("Privacy of each answer.", 1.0),
    seed: int = option("Of the made-up values; the devices' coins take no seed.", 1),
    trust: str = option("local, or shuffle: a shuffler of its own between the two.", "local"),
    public_url: str = option("https://... that leads to --port, so that phones can join by the QR code.", ""),
    port: int = option("Port for devices and phones; 0: any.", 0, min=0, max=65_535),
    browser: bool = option("Open the console in a browser, where there is one and a terminal.", True),
    as_json: bool = option("Print the outcome as JSON, and nothing else.", False, "--json"),
) -> None:
    """Run the real thing on this machine: a server, and a fleet of devices that answer it over HTTP.

    The console shows it as it runs, and anybody may join from a browser. The server is killed with kill -9 once on
    the way and started again; with --trust shuffle, which opens no console, the aggregator, the shuffler and a
    process of devices, each once. The exit code is 0 if and only if every device's report was counted exactly once.
    """
    check_choice(trust, "--trust", ("local", "shuffle"))
    try:
        from privquant.demo.local import Demo, run
        from privquant.demo.shuffled import ShuffledDemo
    except ImportError as error:
        raise MissingDependency("the demo", error.name or "fastapi", "service") from error
    check_epsilon(epsilon)
    if not 1 <= devices <= 1_000_000:
        raise InvalidInput(f"devices must lie in 1 .. 1000000, got {devices}")
    if trust == "shuffle" and (public_url or port):
        raise InvalidInput("--public-url and --port are for the local demo: a shuffled one has two servers")
    kind = ShuffledDemo if trust == "shuffle" else Demo
    settings: dict[str, Any] = {"demo": kind, "epsilon": epsilon, "seed": seed}
    if as_json:
        outcome = run(devices, show=lambda moment: None, **settings)
        typer.echo(json.dumps(asdict(outcome), indent=1))
    else:
        if public_url and not public_url.startswith("https://"):
            raise InvalidInput(f"--public-url must start with https://, for phones' browsers; got {public_url!r}")
        watched = browser and can_open_a_browser()
        with _live() as (show, show_addresses, wait):
            if trust == "local":
                settings |= {"port": port, "public_url": public_url.rstrip("/")}
                settings["on_ready"] = lambda addresses: show_addresses(addresses, watched)
                if watched or (public_url and sys.stdin.isatty()):
                    settings["before_close"] = wait
            outcome = run(devices, show=show, **settings)
        _print(outcome)
    raise typer.Exit(0 if outcome.exact and outcome.verified else 1)


def can_open_a_browser() -> bool:
    """Whether somebody sits before a terminal of this machine's own screen."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    screen = sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    try:
        return bool(screen) and webbrowser.get() is not None
    except webbrowser.Error:
        return False


def _code(link: str) -> str:
    """The link as a code for a phone's camera, in characters."""
    import segno

    out = io.StringIO()
    segno.make(link, error="l").terminal(out, compact=True)
    return out.getvalue()


@contextmanager
def _live() -> Iterator[tuple[Callable[[Moment], None], Callable[[Addresses, bool], None], Callable[[], None]]]:
    """A progress bar that also shows the estimate as it moves; events and links stay above it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns) as bar:
        task = bar.add_task("no estimate yet", total=None)

        def show(moment: Moment) -> None:
            if moment.event:
                bar.console.print(moment.event)
            shown = "no estimate yet" if moment.estimate is None else f"median about {moment.estimate}"
            bar.update(task, completed=moment.answered, total=moment.devices, description=shown)

        def show_addresses(found: Addresses, watched: bool) -> None:
            print_line = bar.console.out
            print_line(f"console      {found.console}", highlight=False)
            print_line(f"join it      {found.join}", highlight=False)
            if found.join.startswith("https://"):
                print_line(_code(found.join), highlight=False)
            if watched:
                webbrowser.open(found.console)

        def wait() -> None:
            bar.stop()
            typer.prompt(
                "All devices have answered; the campaign is still open to guests. Enter closes it",
                default="",
                show_default=False,
            )

        yield show, show_addresses, wait


def _print(outcome: DemoResult) -> None:
    guests = f", and {outcome.guests} of guests" if outcome.guests else ""
    counted = "every report counted exactly once" if outcome.exact else "NOT every report was counted exactly once"
    speed = f"{outcome.reports_per_second:.0f} reports/s over {outcome.seconds:.1f} s"
    restarted = f"with one kill -9 and a restart of {outcome.restart_seconds:.1f} s"
    lines = [
        f"estimate     {outcome.estimate}",
        f"truth        {outcome.truth}   (known to nobody but this demo)",
        f"rank error   {outcome.rank_error:.4f}",
        f"users        {outcome.acknowledged} of {outcome.devices}, {outcome.counted} counted{guests}: {counted}",
        f"log          {'agrees with counts and estimate' if outcome.verified else 'DISAGREES with the counts'}",
        f"privacy      {outcome.privacy}",
    ]
    more = asdict(outcome)
    if "rounds" in more:
        same = "the same at shuffler and aggregator" if more["same_batches"] else "NOT THE SAME at both parties"
        lines.append(f"rounds       {more['rounds']} counted, {more['dropped_rounds']} dropped; batches {same}")
        lines.append(f"not needed   {more['not_needed']} devices, who came when all rounds were full")
        restarted = f"with {more['kills']} kills -9 and a longest restart of {outcome.restart_seconds:.1f} s"
    lines.append(f"speed        {speed}, {restarted}")
    lines += [f"NOT ANSWERED {reason}" for reason in outcome.reasons]
    for line in lines:
        typer.echo(line)

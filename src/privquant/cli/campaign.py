"""`privquant campaign`: what an operator does, over the API of a running server."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from privquant.aggregator.campaign.states import CAN_BE_ERASED, GIVES_QUERIES
from privquant.cli import _options as common
from privquant.cli._options import Identity, option
from privquant.cli._out import error_statements, new_private_file
from privquant.errors import InvalidInput, PrivquantError
from privquant.messages import Guarantee
from privquant.validation import check_choice, check_count

_CALL = 100_000  # invites a request
_AMPLE = 10  # more invites than this many for each person planned is likely a slip of the finger
_SOON = 3.0  # seconds without an answer after which a person wonders what is going on

Server = Annotated[str, typer.Option(envvar="PRIVQUANT_SERVER", help="Address of the server's admin port.")]
HERE = "http://127.0.0.1:8471"

HELP = "Campaigns: over the API of a running server (PRIVQUANT_TOKEN)."


def call(server: str, method: str, path: str, form: Any = None) -> Any:
    """The server's answer; `Refusal` where it says no or nothing. A person who waits for it is told so, once."""
    from privquant.server.http_client import OperatorClient, Refusal

    token = os.environ.get("PRIVQUANT_TOKEN")
    if not token:
        raise InvalidInput("set PRIVQUANT_TOKEN to an operator's token (privquant operator add NAME)")
    text = f"privquant: waiting for {server}, which has not answered yet"
    timer = threading.Timer(_SOON, typer.echo, (text,), {"err": True})
    timer.daemon = True
    timer.start()
    try:
        return OperatorClient(server, token).call(method, path, form)
    except Refusal as error:
        if error.code != "unauthorized":
            raise
        raise Refusal(
            f"{server} does not know the token in PRIVQUANT_TOKEN; `privquant operator add NAME`, run where "
            "its data folder is, makes one"
        ) from error
    finally:
        timer.cancel()


def create(
    measurement: str = option("Name devices keep their ledger by, e.g. commute-minutes.", ...),
    question: str = option("What is asked, in words people see.", ...),
    users: int = option("How many are to answer.", ...),
    epsilon: float = option("Privacy of each answer; smaller is more private.", 1.0),
    low: str | None = option("Lowest value that can occur; needed."),
    high: str | None = option("Highest value that can occur; needed."),
    bins: int | None = option("For continuous values: this many bins."),
    log: bool = option("With --bins: bins of equal ratio.", False, "--log"),
    quantile: list[str] | None = option("0.5,0.9 or repeat for several.", show_default="0.5"),
    protocol: str = option("A protocol whose state is a table of counts.", "isotonic"),
    option: list[str] | None = option("name=value for the protocol; repeat."),
    interval: float | None = option("Certify an interval at this confidence."),
    waves: int = option("Admit tokens in this many waves; needs --wave-seconds.", 1),
    wave_seconds: int = option("With --waves: seconds between two of them.", 0),
    days: float = option("Deadline, from now.", 30.0),
    keep: str | None = option("Erase it so long after closing, e.g. 90d.", show_default="until it is deleted"),
    pace: str | None = option("Ask at most this share of those heard at a time, or off.", show_default="0.15"),
    trust: str = option("local, or shuffle: a second party mixes the answers.", "local"),
    delta: float | None = option("With --trust shuffle: chance that epsilon fails."),
    cap: float | None = option("With --trust shuffle: largest epsilon if both parties collude."),
    colluding: float = option("With --trust shuffle: share of reports that may be the aggregator's own.", 0.0),
    drop_outs: float = option("With --trust shuffle: share of the users who will not answer.", 0.0),
    shuffler: str | None = option("With --trust shuffle: address of the shuffler, from `shuffler key`."),
    shuffler_key: str | None = option("With --trust shuffle: public key of the shuffler, from `shuffler key`."),
    server: Server = HERE,
) -> None:
    """Publish a campaign and print its id. It can never be changed afterwards.

    With --trust shuffle: what its rounds are, and what the shuffler's operator is to run, are printed too.
    """
    check_count(users, "--users", 1)
    if not 0 < days <= 36_500:
        raise InvalidInput(f"--days must be above 0 and at most 36500, got {days:g}")
    if waves > 1 and wave_seconds < 1:
        raise InvalidInput(f"--waves {waves} needs --wave-seconds: say how many seconds lie between two waves")
    if waves == 1 and wave_seconds != 0:
        raise InvalidInput(f"--wave-seconds {wave_seconds} goes with --waves: say how many waves there are")
    form: dict[str, Any] = {
        "measurement": measurement,
        "question": question,
        "domain": _domain(low, high, bins, log),
        "epsilon": epsilon,
        "planned_users": users,
        "quantiles": sorted(common.quantiles_of(quantile)),
        "protocol": protocol,
        "options": dict(_option(text) for text in option or []),
        "interval": interval,
        "waves": {"count": waves, "seconds": wave_seconds},
        "deadline": int(time.time() + days * 86_400),
    }
    if keep is not None:
        form["keep_days"] = _days(keep)
    if pace is not None:
        form["pace"] = _share(pace)
    shuffled = {"delta": delta, "address": shuffler, "key": shuffler_key}
    if check_choice(trust, "--trust", ("local", "shuffle")) == "shuffle":
        for name, value in (("--delta", delta), ("--shuffler", shuffler), ("--shuffler-key", shuffler_key)):
            if value is None:
                raise InvalidInput(f"--trust shuffle needs {name}; `privquant shuffler key` prints the shuffler's")
        form["shuffle"] = shuffled | {"cap": cap, "colluding": colluding, "drop_outs": drop_outs}
    elif any(value is not None for value in (*shuffled.values(), cap)) or colluding or drop_outs:
        raise InvalidInput("--delta, --cap, --colluding, --drop-outs and --shuffler go with --trust shuffle")
    made = call(server, "POST", "/v1/campaigns", form)
    if made.get("join"):
        typer.echo(made["plan"], err=True)
        typer.echo(f"the shuffler's operator runs: privquant shuffler join '{made['join']}'", err=True)
    typer.echo(made["id"])


def list_(as_json: common.AsJson = False, server: Server = HERE) -> None:
    """List campaigns."""
    found = call(server, "GET", "/v1/campaigns")
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    if not found:
        typer.echo("there is no campaign yet; `privquant campaign create` makes one", err=True)
    for line in found:
        heard = f"{line['heard']} of {line['planned_users']}"
        alarm = "  ALARM" if line["alarm"] else ""
        typer.echo(f"{line['id'][:16]}  {line['state']:<7} {heard:<20} {line['measurement']}{alarm}")


def show(campaign: Identity, as_json: common.AsJson = False, server: Server = HERE) -> None:
    """Show a campaign's progress and its estimates."""
    found = call(server, "GET", f"/v1/campaigns/{_whole(server, campaign)}")
    if as_json:
        # The service says the guarantee in words; an estimate has it as an object wherever it is printed.
        shuffled = found.get("shuffle")
        promised = shuffled["guarantee"] if shuffled else Guarantee("local", found["epsilon"]).to_dict()
        estimates = [estimate | {"guarantee": promised} for estimate in found["estimates"]]
        typer.echo(json.dumps(found | {"estimates": estimates}, indent=2))
        return
    typer.echo(f"{found['manifest']['measurement']}: {found['manifest']['question']}")
    behind = f" (until it is closed, numbers stay at least {found['behind']} answers behind)"
    shown = behind if found["behind"] else ""
    typer.echo(f"{found['state']}, {found['heard']} of {found['planned_users']} answered{shown}")
    if found.get("pace") is not None and found["state"] in GIVES_QUERIES:
        typer.echo(_pace_words(**found["pace"]))
    if found.get("shuffle"):
        typer.echo(found["shuffle"]["standing"])
    _say_estimates(found["estimates"])
    if found.get("keep_days") is not None:
        typer.echo(_kept(found))
    typer.echo(found["privacy"])
    if found.get("shuffle"):
        typer.echo(found["shuffle"]["table"])
    typer.echo(found["poisoning"])
    for alarm in found["alarms"]:
        typer.echo(f"ALARM: {alarm}")


def _say_estimates(estimates: list[dict[str, Any]]) -> None:
    for estimate in estimates:
        shown = "no answer yet" if estimate["value"] is None and not estimate["bin"] else estimate["value"]
        where = f" in {estimate['bin']}" if estimate["bin"] else ""
        typer.echo(f"quantile {estimate['quantile']:g}: {shown}{where}")
        for statement in (*error_statements(estimate), *estimate["notes"]):
            typer.echo(f"  {statement}")


def _days(text: str) -> int:
    number = text.removesuffix("d")
    if not (text.endswith("d") and number.isdecimal() and 1 <= int(number) <= 36_500):
        raise InvalidInput(f"--keep is a number of days from 1d to 36500d, such as 90d, got {text!r}")
    return int(number)


def _kept(found: dict[str, Any]) -> str:
    """When the campaign is erased by itself, in words."""
    if found["closed"] is None:
        return f"It is erased by itself {found['keep_days']} days after it is closed."
    day = time.gmtime(found["closed"] + found["keep_days"] * 86_400)
    return f"It is erased by itself after {time.strftime('%Y-%m-%d %H:%M UTC', day)}."


def invites(
    campaign: Identity,
    number: common.Number,
    file: common.InvitesFile,
    yes: bool = option("Do not ask, however many.", False, "--yes"),
    server: Server = HERE,
) -> None:
    """Write one-time invites to a CSV file, readable by you alone. They are stored nowhere else."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    if number < 1:
        raise InvalidInput(f"at least 1 invite is needed, got {number}")
    identity = _whole(server, campaign)
    planned = call(server, "GET", f"/v1/campaigns/{identity}")["planned_users"]
    if number > _AMPLE * planned and not yes:
        typer.confirm(f"Make {number:,} invites, where {planned:,} people are planned for?", abort=True)
    written = 0
    columns = ("invites", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    stderr = Console(stderr=True)
    try:
        with new_private_file(file) as out, Progress(*columns, console=stderr, disable=number <= _CALL) as bar:
            task = bar.add_task("", total=number)
            while written < number:
                count = min(_CALL, number - written)
                lines = call(server, "POST", f"/v1/campaigns/{identity}/invites", {"count": count})
                out.write(lines.partition("\n")[2] if written else lines)  # the first line is the column's name
                out.flush()
                written += count
                bar.update(task, completed=written)
    except PrivquantError as error:
        if not written:
            raise
        raise type(error)(f"{error}; the first {written:,} invites are in {file}") from error
    typer.echo(f"{number:,} invites written to {file}", err=True)


def link(campaign: Identity, places: common.Places, code: common.WithCode = False, server: Server = HERE) -> None:
    """Print one open link for many people. A new one replaces the old.

    Whoever has the link can answer through it, and more than once: for one answer a person hand out invites.
    """
    identity = _whole(server, campaign)
    form = {"places": places} | ({"code": True} if code else {})
    made = call(server, "POST", f"/v1/campaigns/{identity}/link", form)
    typer.echo(made["invite"])
    if code:
        typer.echo(f"code: {made['code'][:4]}-{made['code'][4:]}")


def pause(campaign: Identity, server: Server = HERE) -> None:
    """Hand out no questions; answers to questions handed out still count."""
    typer.echo(call(server, "POST", f"/v1/campaigns/{_whole(server, campaign)}/pause")["state"])


def resume(campaign: Identity, server: Server = HERE) -> None:
    """Hand out questions again."""
    typer.echo(call(server, "POST", f"/v1/campaigns/{_whole(server, campaign)}/resume")["state"])


def close(campaign: Identity, yes: common.Yes = False, server: Server = HERE) -> None:
    """Count nothing any more. A closed campaign cannot be opened again; `pause` can be taken back."""
    identity = _whole(server, campaign)
    if not yes:
        typer.confirm(f"Close {identity} for good?", abort=True)
    typer.echo(call(server, "POST", f"/v1/campaigns/{identity}/close")["state"])


def export(campaign: Identity, server: Server = HERE) -> None:
    """Print manifest, counts and estimates as JSON; no token is in it."""
    typer.echo(json.dumps(call(server, "GET", f"/v1/campaigns/{_whole(server, campaign)}/export"), indent=1))


def merge(
    exports: Annotated[list[Path], typer.Argument(help="What `campaign export` wrote at each aggregator.")],
    as_json: common.AsJson = False,
) -> None:
    """Add up the counts of several aggregators of one campaign, and print what they say. Needs no server.

    Each must have asked a random part of the people: counts of regions, or of early and late ones, do not add.
    """
    from privquant.aggregator.campaign.merging import differ, merged_estimates

    forms = []
    for path in exports:
        try:
            forms.append(json.loads(path.read_text()))
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{path} cannot be read as an export: {error}") from error
    found = [estimate.to_dict() for estimate in merged_estimates(forms)]
    alone = [merged_estimates([form]) for form in forms]
    apart = differ(alone)
    if as_json:
        typer.echo(json.dumps({"aggregators": len(forms), "differ": apart, "estimates": found}, indent=1))
        return
    if apart:
        typer.echo(
            "WARNING: the people of these aggregators seem to differ; then what follows is the answer of none of "
            "them: read each aggregator's own."
        )
    typer.echo(f"{found[0]['users']} answers of {len(forms)} aggregators")
    _say_estimates(found)
    for path, estimates in zip(exports, alone, strict=True):
        values = ", ".join(f"{estimate.value} at {estimate.quantile:g}" for estimate in estimates)
        typer.echo(f"{path.name} alone: {values}, {estimates[0].users} answers")


def verify(
    campaign: Identity,
    against: Path | None = option("The shuffler's books (`privquant shuffler show ID --json`): compare batches."),
    server: Server = HERE,
) -> None:
    """Rebuild the estimate from the log of reports and compare; exit code 1 if anything differs.

    While the campaign runs it says whether they agree, and no number.
    """
    found = call(server, "GET", f"/v1/campaigns/{_whole(server, campaign)}/verify")
    if against is not None:
        differ = differing_batches(found, json.loads(against.read_text()))
        found |= {"ok": found["ok"] and not differ, "differs_from_shuffler": differ}
    typer.echo(json.dumps(found, indent=1))
    if not found["ok"]:
        raise typer.Exit(1)


def delete(campaign: Identity, yes: common.Yes = False, server: Server = HERE) -> None:
    """Erase a closed campaign: tokens, reports, counts; exit code 1 if bytes may be left in the store's files."""
    identity = _whole(server, campaign)
    state = call(server, "GET", f"/v1/campaigns/{identity}")["state"]
    if state not in CAN_BE_ERASED:
        raise InvalidInput(f"only a closed campaign can be erased, and this one is {state}: close it first")
    if not yes:
        typer.confirm(f"Erase {identity} and all its reports?", abort=True)
    found = call(server, "DELETE", f"/v1/campaigns/{identity}")
    typer.echo(f"{'erased' if found['erased'] else 'deleted, not erased'}: {found['left']}", err=True)
    if not found["erased"]:
        raise typer.Exit(1)


def differing_batches(found: dict[str, Any], books: dict[str, Any]) -> list[str]:
    """Where the rounds of an aggregator's `verify` and those of the shuffler's books do not say the same."""
    if books.get("id") != found["campaign"] or found.get("rounds") is None:
        raise InvalidInput("these are the books of another campaign, or this one is not shuffled")
    theirs = {row["round"]: row for row in books["rounds"]}
    said = []
    for row in found["rounds"]:
        other = theirs.get(row["round"], {"state": "unknown", "reports": 0, "batch": None})
        same_state = (row["state"], other["state"]) in (("counted", "forwarded"), ("dropped", "dropped"))
        under_way = row["state"] == "announced" or (row["state"], other["state"]) == ("counted", "closed")
        same_batch = (row["batch"], row["reports"]) == (
            None if other["state"] == "dropped" else other["batch"],
            other["reports"],
        )
        if not under_way and not (same_state and same_batch):
            said.append(
                f"round {row['round']}: {row['state']} with {row['reports']} reports here, {other['state']} with "
                f"{other['reports']} at the shuffler"
            )
    return said


def _domain(low: str | None, high: str | None, bins: int | None, log: bool) -> dict[str, Any]:
    form = common.domain_of(low, high, bins, log).to_dict()
    # Whole numbers travel as texts, which no reader of JSON rounds.
    return {name: str(value) if isinstance(value, int) else value for name, value in form.items()}


def _share(text: str) -> float:
    try:
        return 0.0 if text == "off" else float(text)
    except ValueError:
        raise InvalidInput(f"--pace is a share of those heard, such as 0.1, or off; got {text!r}") from None


def _pace_words(share: float, at_a_time: int, waiting: int, wait_seconds: int) -> str:
    words = f"at most {at_a_time} asked at a time ({share:g} of those heard)"
    return words + (f"; {waiting} wait, the last ones served waited {wait_seconds} s" if waiting else "")


def _option(text: str) -> tuple[str, str | int | bool]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(f"an option is given as name=value, got {text!r}")
    if value in ("true", "false"):
        return name, value == "true"
    return name, int(value) if value.lstrip("-").isdigit() else value


def _whole(server: str, start: str) -> str:
    """The id that begins with `start`."""
    if len(start) == 64:
        return start
    if not start:
        raise InvalidInput("give the campaign's id, or its first digits")
    found = [line["id"] for line in call(server, "GET", "/v1/campaigns") if line["id"].startswith(start)]
    if not found:
        raise InvalidInput(
            f"no campaign has an id that starts with {start!r}; `privquant campaign list` shows them"
        )
    if len(found) > 1:
        raise InvalidInput(f"{len(found)} campaigns have an id that starts with {start!r}; give more of it")
    return str(found[0])


COMMANDS = (create, list_, show, invites, link, pause, resume, close, export, merge, verify, delete)

"""What is done with a stored deployment once it is opened, and what came of it, as JSON.

`make.py` does this with the code that made the files and stores what came of it; the tests do the same with the
present code and compare. Everything that is random has been drawn when the files were made (tickets, tokens, sealed
reports) or does not show in what is compared. Sentences are left out: they may be worded anew.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from nodejs import JS, run_node
from running import PORT, SHUFFLER_PORT, Servers, command, device_request, request, until

from privquant import wire
from privquant.device import Device, NotAnswered, Patience, load_policy

OTHER_VALUE = 1
"""A value that is not the one the stored answer was drawn with; a device that resends does not look at it."""

_LEFT_OUT = ("notes", "guarantee", "privacy", "poisoning", "text", "extended")
"""Sentences, and whether a round was given more time, which depends on when the files are opened."""


def numbers(form: Any) -> Any:
    """A JSON form without what is left out; reals to nine digits, since machines differ in the last ones."""
    if isinstance(form, dict):
        return {name: numbers(value) for name, value in form.items() if name not in _LEFT_OUT}
    if isinstance(form, list):
        return [numbers(each) for each in form]
    return float(f"{form:.9g}") if isinstance(form, float) else form


def continue_local(known: dict[str, Any], servers: Servers) -> dict[str, Any]:
    """The open campaign: held questions are answered, the link is used, then it is closed and exported."""
    identity, link = known["local"]["id"], known["local"]["link"]

    def sent(route: str, body: bytes) -> tuple[int, bytes]:
        return device_request(PORT, identity, route, body)

    def claimed(token: str, code: str | None) -> int:
        return sent("claims", wire.Claim(link["secret"], wire.token_hash(token), code).to_bytes())[0]

    found: dict[str, Any] = {"manifest": _manifest(PORT, identity), "shown": _shown(known, servers, identity)}
    found["held"] = []
    for held in known["local"]["held"]:
        status, body = sent("query", wire.query_request(held["token"]))
        report = wire.WireReport(held["token"], held["ticket"], held["bit"]).to_bytes()
        counted = [sent("reports", report) for _ in range(2)]
        found["held"].append([status, body.decode(), *([code, said.decode()] for code, said in counted)])
    spare = wire.token_from_bytes(bytes(16))
    found["link"] = [
        claimed(link["claimed"], link["code"]),
        claimed(spare, "00000000"),
        claimed(spare, link["code"]),
    ]
    found["spare"] = [sent("query", wire.query_request(token))[0] for token in (*known["local"]["unused"], spare)]
    found["spent"] = sent("query", wire.query_request(known["local"]["spent"]))[0]
    found["devices"] = _both_devices(known, servers.folder, "local")
    found["new devices"] = [_new_device(known, servers.folder, name) for name in ("another", "link")]
    return found | {"end": _closed(known, servers, identity), "closed before": _over(known, servers, "closed")}


def continue_shuffled(known: dict[str, Any], servers: Servers) -> dict[str, Any]:
    """The batch that lay ready is counted; the open round is filled, forwarded and counted; then all is closed."""
    mine, ready = known["shuffled"], known["ready"]["id"]
    identity, spare = mine["id"], iter(mine["unused"])
    form = servers.call(known["admin"], "GET", f"/v1/campaigns/{identity}")["manifest"]
    manifest = wire.Manifest.from_dict(form)

    def sent(route: str, body: bytes) -> tuple[int, bytes]:
        return device_request(SHUFFLER_PORT, identity, route, body)

    def counted(campaign: str, rounds: int) -> bool:
        shown = servers.call(known["admin"], "GET", f"/v1/campaigns/{campaign}")
        return bool(shown["shuffle"]["counted_rounds"] == rounds)

    found: dict[str, Any] = {"manifest": _manifest(SHUFFLER_PORT, identity), "held": []}
    until(lambda: counted(ready, 1), "the batch that lay ready is not counted")
    for held in mine["held"]:
        status, body = sent("query", wire.query_request(held["token"]))
        report = wire.SealedReport(held["token"], held["round"], wire.sealed_from_wire(held["sealed"])).to_bytes()
        found["held"].append([status, body.decode(), *(sent("reports", report)[0] for _ in range(2))])
    claim = wire.Claim(
        mine["link"]["secret"], wire.token_hash(wire.token_from_bytes(bytes(16))), mine["link"]["code"]
    )
    found["link"] = [sent("claims", claim.to_bytes())[0] for _ in range(2)]
    found["devices"] = _both_devices(known, servers.folder, "shuffled")
    batch = manifest.shuffle.rounds[1].batch
    for number in range(batch - mine["kept"] - len(mine["held"]) - 1):
        assert answer_sealed(manifest, next(spare), number % 2) == 1
    until(lambda: counted(identity, 2), "the round is not counted")
    found["next threshold"] = question(manifest, next(spare)).threshold
    books = servers.books(identity)
    found["books"] = {
        name: books[name] for name in ("acknowledged", "forwarded", "waiting", "dropped", "incidents")
    }
    found["end"] = _closed(known, servers, identity)
    found["end"]["rounds"][1]["batch"] = found["end"]["verified"]["rounds"][1]["batch"] = "drawn just now"
    return found | {"ready": _closed(known, servers, ready)}


def question(manifest: wire.Manifest, token: str) -> wire.Announcement:
    """What the shuffler asks this token; it is asked until a round is announced."""
    status, body = device_request(SHUFFLER_PORT, manifest.id, "query", wire.query_request(token))
    assert status == 200, body
    return wire.RoundAnswer.parse(body, manifest).announcement


def sealed_bit(manifest: wire.Manifest, asked: wire.Announcement, bit: int) -> bytes:
    coin = manifest.shuffle.rounds[asked.round].coin
    return wire.seal(bit, manifest.shuffle.seal, wire.report_info(manifest.id, asked.round, asked.threshold, coin))


def answer_sealed(manifest: wire.Manifest, token: str, bit: int) -> int:
    """Let a token answer in the open round; the round."""
    asked = question(manifest, token)
    report = wire.SealedReport(token, asked.round, sealed_bit(manifest, asked, bit)).to_bytes()
    status, body = device_request(SHUFFLER_PORT, manifest.id, "reports", report)
    assert status == 201, body
    return asked.round


def _manifest(port: int, identity: str) -> str:
    """The manifest as devices get it, to the byte."""
    status, body = request(port, "GET", wire.path_of(identity, "manifest"))
    assert status == 200, body
    return body.decode()


def _shown(known: dict[str, Any], servers: Servers, identity: str) -> dict[str, Any]:
    """What an operator who may only look is shown."""
    shown = numbers(servers.call(known["viewer"], "GET", f"/v1/campaigns/{identity}"))
    shown["pace"] = None  # what the process has seen since its start
    return dict(shown)


def _closed(known: dict[str, Any], servers: Servers, identity: str) -> dict[str, Any]:
    """Close a campaign through the command line, and export and verify it."""
    here = {"PRIVQUANT_TOKEN": known["admin"], "PRIVQUANT_SERVER": f"http://127.0.0.1:{PORT + 1}"}
    before = servers.call(known["admin"], "GET", f"/v1/campaigns/{identity}/verify")["ok"]
    assert command("campaign", "close", identity, "--yes", **here) == "closed"
    exported = json.loads(command("campaign", "export", identity, **here))
    return {"verified before": before, **_exported(known, servers, identity, exported)}


def _over(known: dict[str, Any], servers: Servers, name: str) -> dict[str, Any]:
    """What is said of a campaign that was closed when the files were made."""
    path = f"/v1/campaigns/{known[name]['id']}"
    return _exported(known, servers, known[name]["id"], servers.call(known["admin"], "GET", f"{path}/export"))


def _exported(known: dict[str, Any], servers: Servers, identity: str, exported: Any) -> dict[str, Any]:
    verified = servers.call(known["admin"], "GET", f"/v1/campaigns/{identity}/verify")
    return {**numbers(exported), "verified": numbers(verified)}


def audit(known: dict[str, Any], servers: Servers) -> list[list[Any]]:
    """What operators did, oldest first, in the tables of the audit."""
    lines = servers.call(known["admin"], "GET", "/v1/audit")
    return [[line[name] for name in ("operator", "act", "campaign", "detail")] for line in reversed(lines)]


# -- devices ---------------------------------------------------------------------------------------------------


def _both_devices(known: dict[str, Any], folder: Path, name: str) -> dict[str, Any]:
    """The pending answer sent by the device in Python, and from a copy of the same ledger by the one in Node.

    Then the same once more, an invite of another campaign about the same value, and one answered long ago.
    """
    invites = known["devices"][name]
    found = {}
    for kind, answer in (("python", _python), ("node", _node)):
        place = folder / f"device-{kind}-{name}"
        shutil.copytree(folder / "device", place)
        found[kind] = [answer(place, invites[each]) for each in ("pending", "pending", "another", "answered")]
    return found


def _new_device(known: dict[str, Any], folder: Path, name: str) -> str:
    """What becomes of the answer of a device that has no ledger yet, to an invite of the files."""
    rules = load_policy(folder / "device" / "policy.toml")
    device = Device(rules, ledger=folder / f"new-ledger-{name}", patience=Patience(total=20))
    code = known["local"]["link"]["another code"] if name == "link" else None
    return device.answer(known["devices"]["local"][name], OTHER_VALUE, code=code).status


def _python(place: Path, invite: str) -> Any:
    device = Device(load_policy(place / "policy.toml"), patience=Patience(total=20))
    try:
        return numbers(device.answer(invite, OTHER_VALUE).to_dict())
    except NotAnswered as refusal:
        return {"reason": refusal.reason}


def _node(place: Path, invite: str) -> Any:
    words = ("answer", invite, OTHER_VALUE, "--policy", place / "policy.json", "--ledger", place / "ledger")
    done = run_node(JS / "bin" / "privquant-device.js", *words, "--patience", "20", "--json")
    said = json.loads(done.stdout)
    return numbers({name: value for name, value in said.items() if name not in ("answered", "final")})

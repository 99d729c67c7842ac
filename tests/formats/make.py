"""Make the files of tests/formats/files: runs against a checkout of the release whose files are wanted.

    cd CHECKOUT && .venv/bin/python .../tests/formats/make.py NAME

with the Python of that checkout, so that `privquant`, its command line, its device in js/ and its test cluster are
the release's. It writes files/NAME beside this script: states of protocols, and one deployment on SQLite and one on
PostgreSQL, each stopped midway, with what the release's own code then made of it (`expected.json`). What is kept
was made once and is not made again: only a new release adds a folder.

Nothing in the files runs out: campaigns open in 1970 and end in the year 2500; answers to questions whose lease is
over still count; the open round at the shuffler has the longest time a round may have, and a shuffler that finds it
over gives it the same time once more.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd() / "tests" / "aggregator"))
sys.path.insert(0, str(Path.cwd() / "tests" / "js"))
sys.path.insert(0, str(Path(__file__).parent))

import protocol_cases
from continuing import answer_sealed, audit, continue_local, continue_shuffled, question, sealed_bit
from postgres_cluster import PostgresCluster
from running import PORT, SHUFFLER_PORT, SHUFFLER_URL, Servers, command, device_request, until

import privquant
from privquant import wire
from privquant.device import Device, Patience, Transport, TryLater, load_policy

CHECKOUT, HERE = Path.cwd(), Path(__file__).parent
DEADLINE = 16_725_225_600  # 2500-01-01
LONGEST_ROUND = 366 * 24 * 60  # minutes


class Losing(Transport):
    """The network fails when the report is sent, so the answer stays pending in the ledger."""

    def send(self, origin: Any, method: str, path: str, *rest: Any, **options: Any) -> Any:
        if path.endswith("/reports"):
            raise TryLater("unreachable", "lost on the way")
        return super().send(origin, method, path, *rest, **options)


class Scene:
    """A deployment as it is built up; `known` is what operators, devices and tests know of it."""

    def __init__(self, folder: Path, database: str = "") -> None:
        self.servers = Servers(folder, database, PRIVQUANT_SEAL_ROWS="64")
        self.folder = folder
        self.known: dict[str, Any] = {
            "admin": self.servers.add_operator("ada"),
            "viewer": self.servers.add_operator("vera", "viewer"),
            "devices": {"local": {}, "shuffled": {}},
        }

    def call(self, method: str, path: str, form: Any = None) -> Any:
        return self.servers.call(self.known["admin"], method, path, form)

    def create(self, measurement: str, **changes: Any) -> dict[str, Any]:
        form = {
            "measurement": measurement,
            "question": f"How many {measurement}? – ½",
            "domain": {"kind": "integers", "low": "0", "high": "999"},
            "epsilon": 1.0,
            "planned_users": 400,
            "opens": 0,
            "deadline": DEADLINE,
        }
        return dict(self.call("POST", "/v1/campaigns", form | changes))

    def invites(self, campaign: str, count: int) -> list[str]:
        csv = self.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": count})
        return list(csv.splitlines()[1:])

    def answers(self, campaign: str, invites: list[str]) -> None:
        for number, invite in enumerate(invites):
            token = token_of(invite)
            report = wire.WireReport(token, self.ticket(campaign, token).ticket, number % 2).to_bytes()
            assert device_request(PORT, campaign, "reports", report)[0] == 201

    def ticket(self, campaign: str, token: str) -> wire.Ticket:
        return wire.Ticket.parse(device_request(PORT, campaign, "query", wire.query_request(token))[1])

    # -- the local campaigns -----------------------------------------------------------------------------------

    def local(self) -> None:
        """One that was closed with 40 answers, and one midway: with a log and a tail, held questions and a link."""
        closed, made = self.create("steps")["id"], self.create("minutes", quantiles=[0.5, 0.9])["id"]
        first, *others = self.invites(closed, 41)
        self.answers(closed, others)
        self.device().answer(first, 700)
        self.call("POST", f"/v1/campaigns/{closed}/close")
        pending, spare, *invites = self.invites(made, 115)
        self.answers(made, invites[:100])
        held = [self.held(made, token_of(invite), number % 2) for number, invite in enumerate(invites[100:104])]
        another = self.create("minutes")["id"]
        link, other_link = self.link(made), self.link(another)
        self.ticket(made, link["claimed"])  # a place is let go in time unless it has its question
        self.lose("minutes", pending, 30)
        for act in ("pause", "resume"):
            self.call("POST", f"/v1/campaigns/{made}/{act}")
        self.last_answers = made, invites[108:]
        self.known["closed"] = {"id": closed}
        self.known["local"] = {
            "id": made,
            "held": held,
            "unused": [token_of(spare), *map(token_of, invites[104:108])],
            "spent": token_of(invites[0]),
            "link": link | {"another code": other_link["code"]},
        }
        self.known["devices"]["local"] = {
            "pending": pending,
            "another": self.invites(another, 1)[0],
            "answered": first,
            "link": other_link["invite"],
        }

    def held(self, campaign: str, token: str, bit: int) -> dict[str, Any]:
        return {"token": token, "ticket": self.ticket(campaign, token).ticket, "bit": bit}

    def link(self, campaign: str) -> dict[str, Any]:
        """An open link that needs a code, with one place taken, for whose token there is no question yet."""
        made = self.call("POST", f"/v1/campaigns/{campaign}/link", {"places": 10, "code": True})
        invite, code, token = wire.Invite.parse(made["invite"]), wire.typed_code(made["code"]), wire.new_token()
        claim = wire.Claim(invite.link, wire.token_hash(token), code).to_bytes()
        assert device_request(PORT, campaign, "claims", claim)[0] == 201
        return {"invite": made["invite"], "secret": invite.link, "code": code, "claimed": token}

    # -- the shuffled ones -------------------------------------------------------------------------------------

    def shuffled(self) -> None:
        """One midway through its second round; and one whose first batch lies ready at the shuffler."""
        self.key = command("shuffler", "key", "--data", self.servers.shuffler_data, "--public-url", SHUFFLER_URL)
        mine, invites = self.joined("pay", 700)
        for number, invite in enumerate(invites[: mine.shuffle.rounds[0].batch]):
            answer_sealed(mine, token_of(invite), int(number % 3 > 0))
        invites = invites[mine.shuffle.rounds[0].batch :]
        for number in range(12):
            assert answer_sealed(mine, token_of(invites.pop()), number % 2) == 1
        held = [self.place(mine, token_of(invites.pop()), bit) for bit in (0, 1, 1)]
        pending, answered = invites.pop(), self.known["devices"]["local"]["answered"]
        other, theirs = self.joined("pay", 700)
        self.lose("pay", pending, 300)
        self.known["shuffled"] = {
            "id": mine.id,
            "kept": 12,
            "held": held,
            "unused": [token_of(each) for each in invites[:60]],
            "link": self.shuffler_link(mine.id),
        }
        asked = {"pending": pending, "another": theirs.pop(), "answered": answered}
        self.known["devices"]["shuffled"] = asked
        self.known["ready"] = {"id": other.id}
        places = [self.place(other, token_of(invite), 1) for invite in theirs[: other.shuffle.rounds[0].batch]]
        self.answers(*self.last_answers)  # just before the end, so that they are not sealed yet
        self.servers.stop("aggregator")
        for place in places:
            report = wire.SealedReport(place["token"], 0, wire.sealed_from_wire(place["sealed"])).to_bytes()
            assert device_request(SHUFFLER_PORT, other.id, "reports", report)[0] == 201
        file = self.servers.shuffler_data / "shuffler.sqlite3"
        until(lambda: rows(file, "SELECT count(*) FROM outbox"), "no batch lies ready")
        self.servers.stop("shuffler")

    def joined(self, measurement: str, users: int) -> tuple[wire.Manifest, list[str]]:
        _, address, _, key = self.key.split()
        shuffle = {"delta": 1e-4, "address": address, "key": key}
        made = self.create(measurement, planned_users=users, shuffle=shuffle)
        where = ("--data", self.servers.shuffler_data)
        more = ("--yes", "--public-url", SHUFFLER_URL, "--round-minutes", LONGEST_ROUND)
        command("shuffler", "join", made["join"], *where, *more)
        file = self.folder / f"{made['id']}.csv"
        command("shuffler", "invites", made["id"], 200, file, *where)
        form = self.call("GET", f"/v1/campaigns/{made['id']}")["manifest"]
        return wire.Manifest.from_dict(form), file.read_text().split()[1:]

    def shuffler_link(self, campaign: str) -> dict[str, str]:
        said = command("shuffler", "link", campaign, 5, "--code", "--data", self.servers.shuffler_data).split()
        return {"secret": str(wire.Invite.parse(said[0]).link), "code": wire.typed_code(said[-1])}

    def place(self, manifest: wire.Manifest, token: str, bit: int) -> dict[str, Any]:
        asked = question(manifest, token)
        sealed = wire.sealed_to_wire(sealed_bit(manifest, asked, bit))
        return {"token": token, "round": asked.round, "sealed": sealed}

    # -- the device --------------------------------------------------------------------------------------------

    def policies(self) -> None:
        """A policy as TOML and as JSON, beside the ledger."""
        domain = {"kind": "integers", "low": 0, "high": 999}
        rule: dict[str, Any] = {"domain": domain, "max_epsilon": 1}
        shuffle = {"max_local_epsilon": 8, "max_delta": 1e-4}
        rules = {"minutes": rule, "steps": rule, "pay": rule | {"shuffle": shuffle}}
        place = self.folder / "device"
        place.mkdir()
        form = {"version": 1, "ledger": "ledger", "measurements": rules}
        (place / "policy.json").write_text(json.dumps(form, indent=1) + "\n")
        lines = ['version = 1\nledger = "ledger"']
        for name in rules:
            lines.append(
                f'[measurements.{name}]\ndomain = {{kind = "integers", low = 0, high = 999}}\nmax_epsilon = 1'
            )
        lines.append("[measurements.pay.shuffle]\nmax_local_epsilon = 8\nmax_delta = 0.0001")
        (place / "policy.toml").write_text("\n\n".join(lines) + "\n")

    def device(self, transport: Transport | None = None) -> Device:
        rules = load_policy(self.folder / "device" / "policy.toml")
        return Device(rules, transport=transport, patience=Patience(total=0.5, request=0.5))

    def lose(self, measurement: str, invite: str, value: int) -> None:
        """Let the device draw its answer, which then does not arrive."""
        try:
            self.device(Losing()).answer(invite, value)
        except TryLater:
            return
        raise AssertionError(f"the answer about {measurement} arrived")


def token_of(invite: str) -> str:
    return str(wire.Invite.parse(invite).token)


def rows(file: Path, statement: str) -> int:
    with closing(sqlite3.connect(file)) as db:
        return int(db.execute(statement).fetchone()[0])


def deployment(out: Path, cluster: PostgresCluster | None = None) -> None:
    """Build the scene, store it, and write down what the same code makes of it."""
    folder = Path(tempfile.mkdtemp())
    scene = Scene(folder, "" if cluster is None else cluster.new_database("made"))
    scene.policies()
    scene.servers.start()
    scene.local()
    scene.shuffled()
    out.mkdir(parents=True)
    for name in ("aggregator", "shuffler", "device"):
        shutil.copytree(folder / name, out / name, ignore=shutil.ignore_patterns("*.lock", "*-shm", "*-wal"))
    if cluster is not None:
        (out / "dump.sql").write_text(dump(cluster, "made"))
    (out / "known.json").write_text(json.dumps(scene.known, indent=1) + "\n")
    scene.servers.start()
    expected = {
        "local": continue_local(scene.known, scene.servers),
        "shuffled": continue_shuffled(scene.known, scene.servers),
        "audit": audit(scene.known, scene.servers),
    }
    scene.servers.stop()
    (out / "expected.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")
    shutil.rmtree(folder)


def dump(cluster: PostgresCluster, name: str) -> str:
    """The tables as plain SQL that any later PostgreSQL reads: without the lines of newer versions."""
    where = ("-h", "127.0.0.1", "-p", str(cluster.port), "-U", "privquant")
    done = subprocess.run(
        [str(cluster.bin / "pg_dump"), *where, "--no-owner", "--no-privileges", name],
        capture_output=True,
        text=True,
        check=True,
    )
    left_out = ("\\restrict", "\\unrestrict", "SET transaction_timeout", "--")
    lines = [line for line in done.stdout.splitlines() if line and not line.startswith(left_out)]
    return "\n".join(lines) + "\n"


def main(name: str) -> None:
    assert Path(privquant.__file__).is_relative_to(CHECKOUT), f"privquant is not that of {CHECKOUT}"
    out = HERE / "files" / name
    out.mkdir(parents=True)
    (out / "protocols.json").write_text(json.dumps(protocol_cases.made(), separators=(",", ":")) + "\n")
    deployment(out / "sqlite")
    folder = Path(tempfile.mkdtemp(prefix="privquant-postgres-"))
    cluster = PostgresCluster(folder)
    try:
        deployment(out / "postgres", cluster)
    finally:
        cluster.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])

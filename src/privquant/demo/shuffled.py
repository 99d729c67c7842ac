"""The demo in the shuffle model: aggregator, shuffler and devices as processes of their own, each killed once.

Nothing here is a shortcut: the servers are the processes that `privquant serve` and `privquant shuffler serve` are,
the shuffler's operator joins the campaign and issues the invites, and every device is `privquant.device` with its
own policy and its own ledger on disk. The devices' receipts are compared with the aggregator's counts, round by
round and bit by bit, and the batches of the one with those of the other.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privquant.aggregator.settings import Settings as ServerSettings
from privquant.demo.local import PATIENCE, PROCESSES, Demo, DemoResult, Doors, Moment, people
from privquant.privacy.coin import real_epsilon
from privquant.server.keys import KeyRing
from privquant.server.peer import get
from privquant.server.process import free_port
from privquant.shuffler.database import opened
from privquant.shuffler.invites import find, invite
from privquant.shuffler.joining import check_manifest, join, read_manifest
from privquant.shuffler.overview import shown
from privquant.shuffler.process import ShufflerProcess
from privquant.shuffler.settings import Settings
from privquant.wire import path_of, public_key_of, terms_of

DELTA = 1e-6
SPARE = 0.03
"""Share of the devices that no round is planned for: the last round is to fill although a few may come too late."""
THREADS = 40
KILLS = (("aggregator", 0.25), ("shuffler", 0.45), ("devices", 0.65))
"""Who is killed with kill -9, and the share of the devices that have answered by then."""
_SETTLE_SECONDS = 90.0
_ROUND_SECONDS = 60


@dataclass(frozen=True, slots=True)
class ShuffledResult(DemoResult):
    """How the demo ended. `exact`: every report that the shuffler took was counted, once, as the bit it was."""

    rounds: int
    dropped_rounds: int
    not_needed: int
    same_batches: bool
    kills: int


def run(devices: int, *, epsilon: float = 1.0, seed: int = 1, show: Callable[[Moment], None]) -> ShuffledResult:
    """Run it all in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="privquant-demo-") as folder:
        settings = ServerSettings(data=Path(folder) / "data", port=free_port(), admin_port=free_port())
        found = ShuffledDemo(Path(folder), settings, people(devices, seed), epsilon, show).run()
        assert isinstance(found, ShuffledResult)
        return found


class ShuffledDemo(Demo):
    """The demo with a shuffler between devices and aggregator."""

    def __post_init__(self) -> None:
        super().__post_init__()
        data = self.folder / "shuffler"
        self.shuffling = Settings(data=data, port=free_port(), retry_seconds=1, lease_seconds=15)
        self.shuffler = ShufflerProcess(self.shuffling, log=self.folder / "shuffler.log")
        self.keys = KeyRing(self.shuffling.keys)
        self.fleet: list[subprocess.Popen[str]] = []
        self.invited: list[str] = []
        self.answers: dict[tuple[int, int], dict[str, Any]] = {}  # (process, person): last line
        self.due = list(KILLS)

    def run(
        self, meet: Callable[[Doors], None] = lambda doors: None, hold: Callable[[], None] = lambda: None
    ) -> DemoResult:
        self.shuffler.start()
        try:
            return super().run(meet, hold)
        finally:
            self.shuffler.stop()

    def _doors(self, campaign: str) -> Doors:
        """The console alone: places are the shuffler's to give."""
        return Doors(self._console(campaign), "")

    def _campaign(self) -> str:
        shuffle = {
            "delta": DELTA,
            "drop_outs": SPARE,
            "address": self.shuffling.url,
            "key": public_key_of(self.keys.current),
        }
        made = self._create(planned_users=len(self.values), shuffle=shuffle)
        identity = str(made["id"])
        self._say(f"the aggregator plans {made['plan']}")
        self._join(identity)
        self._say("the shuffler's operator has read the manifest, accounted for it and joined")
        return identity

    def _join(self, identity: str) -> None:
        key, mark = self.keys.current, self.key_fingerprint
        envelope = get(self.server.url + path_of(identity, "manifest"))
        self.manifest = read_manifest(envelope, campaign_id=identity, key_fingerprint=mark)
        check_manifest(self.manifest, key, self.shuffling.url)
        with opened(self.shuffling.file) as db:
            join(db, envelope, self.manifest, key, aggregator=self.server.url, round_seconds=_ROUND_SECONDS)

    def _invites(self, campaign: str) -> list[str]:
        with opened(self.shuffling.file) as db:
            self.invited = invite(db, self.keys, find(db, campaign), len(self.values))
        return self.invited

    def _job(self, place: int, invites: list[str]) -> dict[str, Any]:
        terms = terms_of(self.manifest)
        return super()._job(place, invites) | {
            "threads": THREADS,
            "patience": PATIENCE | {"total": 300.0},
            "shuffle": {
                "max_local_epsilon": math.ceil(100 * real_epsilon(terms.most_honest_coin)) / 100,
                "max_delta": DELTA,
                "shuffler_key": terms.key,
            },
        }

    def _heard(self, place: int, line: str) -> None:
        answer = json.loads(line)
        self.answers[place, answer["person"]] = answer
        self.receipts = [each for each in self.answers.values() if "bit" in each]

    def _kill_if_due(self, fleet: list[subprocess.Popen[str]]) -> None:
        self.fleet = fleet
        if not self.due or len(self.receipts) < self.due[0][1] * len(self.values):
            return
        name = self.due.pop(0)[0]
        began = time.perf_counter()
        if name == "devices":
            fleet[0].kill()
            fleet[0].wait()
            self._say(f"kill -9 of a process with {len(self.values) // PROCESSES:,} devices, half of all")
            fleet[0] = self._start(0, self.invited)
            self._say("they are back, each with its ledger; what was drawn is sent again, never drawn again")
            return
        process = self.server if name == "aggregator" else self.shuffler
        process.kill()
        self._say(f"kill -9 of the {name}")
        process.start()
        self.restart_seconds = max(self.restart_seconds, time.perf_counter() - began)
        self._say(f"the {name} is back after {time.perf_counter() - began:.1f} s")

    def _books(self, campaign: str) -> dict[str, Any]:
        with opened(self.shuffling.file) as db:
            return shown(db, find(db, campaign))

    def _settle(self, campaign: str) -> None:
        """Wait until nothing is under way between shuffler and aggregator."""
        ends = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < ends:
            found = self._call("GET", f"/v1/campaigns/{campaign}")["shuffle"]
            over = found["counted_rounds"] + found["dropped_rounds"]
            states = [row["state"] for row in self._books(campaign)["rounds"]]
            if over == found["planned_rounds"] or (
                over == len(states) - 1 and not {"closing", "closed"} & set(states) and states[-1] == "open"
            ):
                return
            time.sleep(0.2)

    def _outcome(self, campaign: str, seconds: float) -> DemoResult:
        self._settle(campaign)
        verified = self._call("GET", f"/v1/campaigns/{campaign}/verify")
        exported = self._call("GET", f"/v1/campaigns/{campaign}/export")
        found = self._call("GET", f"/v1/campaigns/{campaign}")
        books = self._books(campaign)
        sent = Counter((each["asked"], each["bit"]) for each in self.receipts)
        counted = self._counted(exported)
        theirs = {row["round"]: row["batch"] for row in books["rounds"] if row["state"] == "forwarded"}
        ours = {row["round"]: row["batch"] for row in verified["rounds"] if row["state"] == "counted"}
        errors = [each["error"] for each in self.answers.values() if "error" in each]
        failed = [error for error in errors if "planned number of users" not in error]
        # Of a round that was dropped, or never filled, devices have receipts and nobody has counts.
        lost = books["dropped"] + books["waiting"]
        all_counted = +counted == sent if lost == 0 else not +(counted - sent)
        exact = len(self.receipts) == counted.total() + lost == books["acknowledged"]
        return ShuffledResult(
            **self._measured(exported, seconds, failed),
            guests=0,
            acknowledged=len(self.receipts),
            counted=counted.total(),
            exact=all_counted and not failed and exact,
            verified=bool(verified["ok"]),
            privacy=found["privacy"],
            reports_per_second=len(self.receipts) / seconds,
            rounds=found["shuffle"]["counted_rounds"],
            dropped_rounds=found["shuffle"]["dropped_rounds"],
            not_needed=len(errors) - len(failed),
            same_batches=theirs == ours,
            kills=len(KILLS) - len(self.due),
        )

"""The demo in the shuffle model: aggregator, shuffler and devices as processes of their own, each killed once.

No shortcut here either: the shuffler is the process that `privquant shuffler serve` is, and its operator joins the
campaign and issues the invites. The batches of the shuffler are compared with those of the aggregator.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from privquant.demo.local import PATIENCE, PROCESSES, Addresses, Bits, Demo, DemoResult
from privquant.privacy.coin import real_epsilon
from privquant.server.http_client import exchange
from privquant.server.keys import KeyFolder
from privquant.server.process import ServerProcess, free_port
from privquant.shuffler.campaigns import check_manifest, find, invite, join, read_manifest, shown
from privquant.shuffler.settings import Settings
from privquant.shuffler.store import opened
from privquant.wire import PROBLEMS, path_of, public_key_of, terms_of

DELTA = 1e-6
SPARE = 0.03
"""Share of the devices that no round is planned for: the last round is to fill although a few may come too late."""
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


class ShuffledDemo(Demo):
    """The demo with a shuffler between devices and aggregator."""

    result = ShuffledResult
    threads = 40
    patience = PATIENCE | {"total": 300.0}
    kills = (("aggregator", 0.25), ("shuffler", 0.45), ("devices", 0.65))

    def run(self, on_ready: Callable[[Addresses], None] | None, before_close: Callable[[], None]) -> DemoResult:
        data = self.folder / "shuffler"
        self.shuffling = Settings(data=data, port=free_port(), retry_seconds=1, lease_seconds=15)
        self.shuffler = ServerProcess(self.shuffling, log=self.folder / "shuffler.log")
        self.keys = KeyFolder(self.shuffling.keys)
        self.shuffler.start()
        try:
            return super().run(on_ready, before_close)
        finally:
            self.shuffler.stop()

    def _create(self, **more: Any) -> dict[str, Any]:
        key = self.keys.current
        shuffle = {
            "delta": DELTA,
            "drop_outs": SPARE,
            "address": self.shuffling.url,
            "key": public_key_of(key),
        }
        made = super()._create(planned_users=len(self.values), shuffle=shuffle)
        self._say(f"the aggregator plans {made['plan']}")
        envelope = exchange(self.server.url + path_of(self.campaign, "manifest"))
        self.manifest = read_manifest(envelope, campaign_id=self.campaign, key_fingerprint=self.key_fingerprint)
        check_manifest(self.manifest, key, self.shuffling.url)
        with opened(self.shuffling.file) as db:
            join(db, envelope, self.manifest, key, aggregator=self.server.url, round_seconds=_ROUND_SECONDS)
        self._say("the shuffler's operator has read the manifest, accounted for it and joined")
        return made

    def _invites(self) -> list[str]:
        with opened(self.shuffling.file) as db:
            return invite(db, self.keys, find(db, self.campaign), len(self.values))

    def _write_jobs(self, invites: list[str], **more: Any) -> None:
        terms = terms_of(self.manifest)
        rule = {
            "max_local_epsilon": math.ceil(100 * real_epsilon(terms.most_honest_coin)) / 100,
            "max_delta": DELTA,
            "shuffler_key": terms.key,
        }
        super()._write_jobs(invites, shuffle=rule)

    def _kill(self, name: str) -> None:
        if name != "devices":
            self._restart(name, self.server if name == "aggregator" else self.shuffler)
            return
        self.fleet[0].kill()
        self.fleet[0].wait()
        self._say(f"kill -9 of a process with {len(self.values) // PROCESSES:,} devices, half of all")
        self.fleet[0] = self._start(0)
        self._say("they are back, each with its ledger; what was drawn is sent again, never drawn again")

    def _books(self) -> dict[str, Any]:
        with opened(self.shuffling.file) as db:
            return shown(db, find(db, self.campaign))

    def _finish(self) -> None:
        """Wait until nothing is under way between shuffler and aggregator."""
        ends = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < ends:
            found = self._of_campaign()["shuffle"]
            over = found["counted_rounds"] + found["dropped_rounds"]
            states = [row["state"] for row in self._books()["rounds"]]
            if over == found["planned_rounds"] or (
                over == len(states) - 1 and not {"closing", "closed"} & set(states) and states[-1] == "open"
            ):
                return
            time.sleep(0.2)

    def _is_failure(self, error: str) -> bool:
        return PROBLEMS["campaign-complete"].title not in error

    def _judged(self, sent: Bits, counted: Bits) -> dict[str, Any]:
        books = self._books()
        forwarded = {row["round"]: row["batch"] for row in books["rounds"] if row["state"] == "forwarded"}
        taken = {row["round"]: row["batch"] for row in self.verified["rounds"] if row["state"] == "counted"}
        # Of a round that was dropped, or never filled, devices have receipts and nobody has counts.
        lost = books["dropped"] + books["waiting"]
        all_counted = +counted == sent if lost == 0 else not +(counted - sent)
        all_known = sent.total() == counted.total() + lost == books["acknowledged"]
        return {
            "guests": 0,
            "exact": all_counted and not self.failed and all_known,
            "rounds": self.shown["shuffle"]["counted_rounds"],
            "dropped_rounds": self.shown["shuffle"]["dropped_rounds"],
            "not_needed": self.not_needed,
            "same_batches": forwarded == taken,
            "kills": len(self.kills) - len(self.due),
        }

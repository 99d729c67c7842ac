"""The demo: the real server, real devices over real HTTP, one kill -9 on the way, and a count that must be exact.

Nothing here is a shortcut: the server is the process `privquant serve` is, and every device is `privquant.device`
with its own policy and its own ledger on disk. The devices' receipts are compared with the server's counts, query
by query and bit by bit.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from privquant.aggregator.operators.accounts import add_operator
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.migrate import on_store
from privquant.domain import Integers
from privquant.server.process import ServerProcess, free_port
from privquant.wire import Invite, domain_to_wire

MEASUREMENT = "monthly-spending"
DOMAIN = Integers(0, 20_000)
PROCESSES = 2
THREADS = 12
PATIENCE = {"total": 60.0, "first_pause": 0.1, "longest_pause": 1.0}
KILL_AT = 0.4
"""Share of the devices that have answered when the server is killed."""
GUESTS = 20
"""Places for people who join from a browser."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What the demo shows while it runs."""

    answered: int
    devices: int
    estimate: int | None
    event: str


@dataclass(frozen=True, slots=True)
class Doors:
    """Where people come in: the operator's console, signed in, and the link for whoever wants to answer too."""

    console: str
    join: str


@dataclass(frozen=True, slots=True)
class DemoResult:
    """How the demo ended. `exact`: every device's report was counted, once, as the bit it sent.

    guests: reports of people who joined from a browser; what they sent is theirs to know.
    """

    devices: int
    guests: int
    acknowledged: int
    counted: int
    failed: int
    exact: bool
    verified: bool
    estimate: int | None
    truth: int
    rank_error: float
    privacy: str
    seconds: float
    reports_per_second: float
    restart_seconds: float
    reasons: list[str]
    """Why devices did not answer, each reason once."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def people(count: int, seed: int) -> list[int]:
    """What a made-up population spends in a month; skewed, as such things are."""
    rng = random.Random(seed)
    return [min(DOMAIN.high, int(rng.lognormvariate(7.2, 0.6))) for _ in range(count)]


def rank_error(values: list[int], estimate: int, quantile: float) -> float:
    """How far the quantile is from the ranks that `estimate` covers in the data."""
    ordered = sorted(values)
    below = bisect.bisect_left(ordered, estimate) / len(ordered)
    up_to = bisect.bisect_right(ordered, estimate) / len(ordered)
    return max(0.0, below - quantile, quantile - up_to)


def run(
    devices: int,
    *,
    epsilon: float = 1.0,
    seed: int = 1,
    show: Callable[[Moment], None],
    port: int = 0,
    public_url: str = "",
    meet: Callable[[Doors], None] = lambda doors: None,
    hold: Callable[[], None] = lambda: None,
) -> DemoResult:
    """Run it all in a folder that is removed afterwards.

    port, public_url: where the server listens (0: anywhere), and what its invites start with.
    meet: told where the console and the link are. hold: called when all devices have answered; the campaign is
    closed and counted when it returns.
    """
    with tempfile.TemporaryDirectory(prefix="privquant-demo-") as folder:
        settings = Settings(
            data=Path(folder) / "data", port=port or free_port(), admin_port=free_port(), public_url=public_url
        )
        return Demo(Path(folder), settings, people(devices, seed), epsilon, show).run(meet, hold)


@dataclass(eq=False)
class Demo:
    """One demo in a folder of its own."""

    folder: Path
    settings: Settings
    values: list[int]
    epsilon: float
    show: Callable[[Moment], None]

    def __post_init__(self) -> None:
        self.server = ServerProcess(self.settings, log=self.folder / "server.log")
        self.receipts: list[dict[str, Any]] = []
        self.lines: queue.Queue[tuple[int, str] | None] = queue.Queue()
        self.running = 0
        """Processes of the fleet whose last line has not been read."""
        self.estimate: int | None = None
        self.restart_seconds = 0.0

    def run(self, meet: Callable[[Doors], None], hold: Callable[[], None]) -> DemoResult:
        self.token = on_store(self.settings, lambda engine: add_operator(engine, "demo"))
        self._say("starting the server")
        self.server.start()
        fleet: list[subprocess.Popen[str]] = []
        try:
            campaign = self._campaign()
            invites = self._invites(campaign)
            meet(self._doors(campaign))
            self._say("the devices answer")
            began = time.perf_counter()
            fleet = [self._start(place, invites) for place in range(PROCESSES)]
            self._follow(campaign, fleet)
            seconds = time.perf_counter() - began
            self._look(campaign)
            hold()
            return self._outcome(campaign, seconds)
        finally:
            for process in fleet:
                process.kill()
                process.wait()
            self.server.stop()

    def _call(self, method: str, path: str, form: Any = None) -> Any:
        return self.server.call(method, path, form, token=self.token)

    def _create(self, **form: Any) -> dict[str, Any]:
        """A campaign; what is said of it when it is made."""
        asked = {"measurement": MEASUREMENT, "question": "How much do you spend in a month?"}
        domain = domain_to_wire(DOMAIN)
        made: dict[str, Any] = self._call(
            "POST", "/v1/campaigns", {**asked, "domain": domain, "epsilon": self.epsilon, **form}
        )
        self.key_fingerprint = made["key_fingerprint"]
        return made

    def _campaign(self) -> str:
        return str(self._create(planned_users=len(self.values) + GUESTS)["id"])

    def _invites(self, campaign: str) -> list[str]:
        found: list[str] = []
        while len(found) < len(self.values):
            form = {"count": min(100_000, len(self.values) - len(found))}
            found += self._call("POST", f"/v1/campaigns/{campaign}/invites", form).splitlines()[1:]
        # The fleet is on this machine and does not take the way through the public address.
        return [replace(Invite.parse(invite), base=self.server.url).to_url() for invite in found]

    def _doors(self, campaign: str) -> Doors:
        link = self._call("POST", f"/v1/campaigns/{campaign}/link", {"places": GUESTS})["invite"]
        return Doors(self._console(campaign), str(link))

    def _console(self, campaign: str) -> str:
        return f"{self.server.admin_url}/console#token={self.token}&to=/campaign/{campaign}"

    def _job(self, place: int, invites: list[str]) -> dict[str, Any]:
        """What one process of the fleet is told."""
        ledgers = self.folder / f"ledgers-{place}"
        ledgers.mkdir(exist_ok=True)
        return {
            "people": list(zip(invites, self.values, strict=True))[place::PROCESSES],
            "ledgers": str(ledgers),
            "threads": THREADS,
            "domain": domain_to_wire(DOMAIN),
            "measurement": MEASUREMENT,
            "epsilon": self.epsilon,
            "key_fingerprint": self.key_fingerprint,
            "patience": PATIENCE,
        }

    def _start(self, place: int, invites: list[str]) -> subprocess.Popen[str]:
        job = self._job(place, invites)
        command = [sys.executable, "-m", "privquant.demo.devices"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def pump() -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            with process.stdin as sink:
                json.dump(job, sink)
            for line in process.stdout:
                self.lines.put((place, line))
            self.lines.put(None)

        self.running += 1
        threading.Thread(target=pump, daemon=True).start()
        return process

    def _follow(self, campaign: str, fleet: list[subprocess.Popen[str]]) -> None:
        """Collect receipts, keep the estimate fresh, and kill on the way."""
        looked = 0.0
        while self.running:
            with contextlib.suppress(queue.Empty):
                heard = self.lines.get(timeout=0.2)
                if heard is None:
                    self.running -= 1
                else:
                    self._heard(*heard)
            self._kill_if_due(fleet)
            if time.perf_counter() - looked > 0.5:
                looked = time.perf_counter()
                self._look(campaign)

    def _heard(self, _place: int, line: str) -> None:
        self.receipts.append(json.loads(line))

    def _kill_if_due(self, _fleet: list[subprocess.Popen[str]]) -> None:
        """Kill the server, once, when enough have answered."""
        if self.restart_seconds == 0.0 and len(self.receipts) >= KILL_AT * len(self.values):
            self._say("kill -9 of the server")
            self.server.kill()
            self.restart_seconds = self.server.start()
            self._say(f"the server is back after {self.restart_seconds:.1f} s; devices send again")

    def _look(self, campaign: str) -> None:
        shown = self._call("GET", f"/v1/campaigns/{campaign}")
        self.estimate = shown["estimates"][0]["value"]
        self._say("")

    def _say(self, event: str) -> None:
        self.show(Moment(len(self.receipts), len(self.values), self.estimate, event))

    def _counted(self, exported: dict[str, Any]) -> Counter[tuple[int, int]]:
        """How often each bit was counted, by the value that was asked for."""
        counted: Counter[tuple[int, int]] = Counter()
        for row in exported["counts"]:
            asked = int(DOMAIN.value(int(row["threshold"])))
            counted[asked, 1] += row["ones"]
            counted[asked, 0] += row["answered"] - row["ones"]
        return counted

    def _measured(self, exported: dict[str, Any], seconds: float, failed: list[str]) -> dict[str, Any]:
        """What a result says of any demo."""
        value = exported["estimates"][0]["value"]
        return {
            "devices": len(self.values),
            "failed": len(failed),
            "estimate": value,
            "truth": sorted(self.values)[(len(self.values) - 1) // 2],
            "rank_error": 1.0 if value is None else rank_error(self.values, value, 0.5),
            "seconds": seconds,
            "restart_seconds": self.restart_seconds,
            "reasons": sorted(set(failed)),
        }

    def _outcome(self, campaign: str, seconds: float) -> DemoResult:
        self._call("POST", f"/v1/campaigns/{campaign}/close")  # before it, numbers are those of a snapshot
        verified = self._call("GET", f"/v1/campaigns/{campaign}/verify")
        exported = self._call("GET", f"/v1/campaigns/{campaign}/export")
        found = self._call("GET", f"/v1/campaigns/{campaign}")
        sent = Counter((r["asked"], r["bit"]) for r in self.receipts if "bit" in r)
        counted = self._counted(exported)
        failed = [r["error"] for r in self.receipts if "error" in r]
        if failed:
            self._say(f"{len(failed)} devices did not answer, the first because: {failed[0]}")
        # Whatever the devices sent was counted; what was counted beside it is no more than the guests who came.
        guests = counted.total() - sent.total()
        came = found["open_link"]["taken"]
        return DemoResult(
            **self._measured(exported, seconds, failed),
            guests=guests,
            acknowledged=sent.total(),
            counted=counted.total(),
            exact=sent.total() == len(self.values) and sent <= counted and guests <= came,
            verified=bool(verified["ok"]),
            privacy=found["privacy"],
            reports_per_second=sent.total() / seconds,
        )

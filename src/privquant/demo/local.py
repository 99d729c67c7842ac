"""The demo: the real server, real devices over real HTTP, one kill -9 on the way, and a count that must be exact.

Nothing here is a shortcut: the server is the process `privquant serve` is, and every device is `privquant.device`
with its own policy and its own ledger on disk. The devices' receipts are compared with the server's counts, query
by query and bit by bit. `shuffled` is the same demo with a shuffler between devices and server.
"""

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from privquant.aggregator.operators.accounts import add_operator
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.migrate import on_store
from privquant.domain import Integers
from privquant.server.process import ServerProcess, free_port
from privquant.wire import Invite, domain_to_wire

MEASUREMENT = "monthly-spending"
DOMAIN = Integers(0, 20_000)
PROCESSES = 2
PATIENCE = {"total": 60.0, "first_pause": 0.1, "longest_pause": 1.0}
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
class Addresses:
    """The operator's console, signed in, and the link for everybody who wants to answer too."""

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


Bits = Counter[tuple[int, int]]
"""How often each (value asked for, bit) was sent by the devices, or counted by the server."""


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


@dataclass(eq=False)
class Demo:
    """One demo in a folder of its own. `run` once."""

    result: ClassVar[type[DemoResult]] = DemoResult
    threads: ClassVar[int] = 12
    patience: ClassVar[dict[str, float]] = PATIENCE
    kills: ClassVar[tuple[tuple[str, float], ...]] = (("server", 0.4),)
    """What is killed with kill -9, and the share of the devices that have answered by then."""

    folder: Path
    settings: Settings
    values: list[int]
    epsilon: float
    show: Callable[[Moment], None]

    def __post_init__(self) -> None:
        self.server = ServerProcess(self.settings, log=self.folder / "server.log")
        self.fleet: list[subprocess.Popen[str]] = []
        self.running = 0  # processes of the fleet whose last line has not been read
        self.lines: queue.Queue[tuple[int, dict[str, Any]] | None] = queue.Queue()
        self.answers: dict[tuple[int, int], dict[str, Any]] = {}  # (process, person): the last line
        self.answered = 0
        self.due = list(self.kills)
        self.estimate: int | None = None
        self.restart_seconds = 0.0

    def run(self, on_ready: Callable[[Addresses], None] | None, before_close: Callable[[], None]) -> DemoResult:
        self.token = on_store(self.settings, lambda engine: add_operator(engine, "demo"))
        self._say("starting the server")
        self.server.start()
        try:
            self._create()
            self._write_jobs(self._invites())
            if on_ready is not None:
                on_ready(self._addresses())
            self._say("the devices answer")
            began = time.perf_counter()
            self.fleet = [self._start(place) for place in range(PROCESSES)]
            self._follow()
            seconds = time.perf_counter() - began
            self._look()
            before_close()
            self._finish()
            return self._outcome(seconds)
        finally:
            for process in self.fleet:
                process.kill()
                process.wait()
            self.server.stop()

    def _call(self, method: str, path: str, form: Any = None) -> Any:
        return self.server.call(method, path, form, token=self.token)

    def _of_campaign(self, part: str = "") -> Any:
        return self._call("GET", f"/v1/campaigns/{self.campaign}{part}")

    def _say(self, event: str) -> None:
        self.show(Moment(self.answered, len(self.values), self.estimate, event))

    def _create(self, **more: Any) -> dict[str, Any]:
        """Make the campaign; what the server says of it."""
        form = {
            "measurement": MEASUREMENT,
            "question": "How much do you spend in a month?",
            "domain": domain_to_wire(DOMAIN),
            "epsilon": self.epsilon,
            "planned_users": len(self.values) + GUESTS,
        }
        made: dict[str, Any] = self._call("POST", "/v1/campaigns", form | more)
        self.campaign, self.key_fingerprint = str(made["id"]), made["key_fingerprint"]
        return made

    def _invites(self) -> list[str]:
        found: list[str] = []
        while len(found) < len(self.values):
            form = {"count": min(100_000, len(self.values) - len(found))}
            found += self._call("POST", f"/v1/campaigns/{self.campaign}/invites", form).splitlines()[1:]
        # The fleet is on this machine and does not take the way through the public address.
        return [replace(Invite.parse(invite), base=self.server.url).to_url() for invite in found]

    def _addresses(self) -> Addresses:
        link = self._call("POST", f"/v1/campaigns/{self.campaign}/link", {"places": GUESTS})["invite"]
        console = f"{self.server.admin_url}/console#token={self.token}&to=/campaign/{self.campaign}"
        return Addresses(console, str(link))

    def _write_jobs(self, invites: list[str], **more: Any) -> None:
        """What each process of the fleet is told."""
        for place in range(PROCESSES):
            ledgers = self.folder / f"ledgers-{place}"
            ledgers.mkdir()
            job = {
                "people": list(zip(invites, self.values, strict=True))[place::PROCESSES],
                "ledgers": str(ledgers),
                "threads": self.threads,
                "domain": domain_to_wire(DOMAIN),
                "measurement": MEASUREMENT,
                "epsilon": self.epsilon,
                "key_fingerprint": self.key_fingerprint,
                "patience": self.patience,
            }
            (self.folder / f"job-{place}").write_text(json.dumps(job | more))

    def _start(self, place: int) -> subprocess.Popen[str]:
        """One process of the fleet; what it prints comes to `lines`, and None when it has ended."""
        command = [sys.executable, "-m", "privquant.demo.devices", str(self.folder / f"job-{place}")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                self.lines.put((place, json.loads(line)))
            self.lines.put(None)

        self.running += 1
        threading.Thread(target=read, daemon=True).start()
        return process

    def _follow(self) -> None:
        """Collect receipts, keep the estimate fresh, and kill on the way."""
        looked = 0.0
        while self.running:
            with contextlib.suppress(queue.Empty):
                heard = self.lines.get(timeout=0.2)
                if heard is None:
                    self.running -= 1
                else:
                    place, line = heard
                    known = self.answers.get((place, line["person"]), {})
                    self.answers[place, line["person"]] = line
                    self.answered += ("bit" in line) - ("bit" in known)
            if self.due and self.answered >= self.due[0][1] * len(self.values):
                self._kill(self.due.pop(0)[0])
            if time.perf_counter() - looked > 0.5:
                looked = time.perf_counter()
                self._look()

    def _kill(self, name: str) -> None:
        self._restart(name, self.server, "; devices send again")

    def _restart(self, name: str, process: ServerProcess, more: str = "") -> None:
        self._say(f"kill -9 of the {name}")
        process.kill()
        seconds = process.start()
        self.restart_seconds = max(self.restart_seconds, seconds)
        self._say(f"the {name} is back after {seconds:.1f} s{more}")

    def _look(self) -> None:
        self.estimate = self._of_campaign()["estimates"][0]["value"]
        self._say("")

    def _finish(self) -> None:
        """Close the campaign: before that, numbers are those of a snapshot."""
        self._call("POST", f"/v1/campaigns/{self.campaign}/close")

    def _outcome(self, seconds: float) -> DemoResult:
        exported = self._of_campaign("/export")
        counted: Bits = Counter()
        for row in exported["counts"]:
            asked = int(DOMAIN.value(int(row["threshold"])))
            counted[asked, 1] += row["ones"]
            counted[asked, 0] += row["answered"] - row["ones"]
        sent = Counter((each["asked"], each["bit"]) for each in self.answers.values() if "bit" in each)
        self.shown, self.verified = self._of_campaign(), self._of_campaign("/verify")
        errors = [each["error"] for each in self.answers.values() if "error" in each]
        failed = [error for error in errors if self._is_failure(error)]
        self.failed, self.not_needed = len(failed), len(errors) - len(failed)
        if failed:
            self._say(f"{len(failed)} devices did not answer, the first because: {failed[0]}")
        value = exported["estimates"][0]["value"]
        return self.result(
            devices=len(self.values),
            acknowledged=sent.total(),
            counted=counted.total(),
            failed=self.failed,
            verified=bool(self.verified["ok"]),
            estimate=value,
            truth=sorted(self.values)[(len(self.values) - 1) // 2],
            rank_error=1.0 if value is None else rank_error(self.values, value, 0.5),
            privacy=self.shown["privacy"],
            seconds=seconds,
            reports_per_second=sent.total() / seconds,
            restart_seconds=self.restart_seconds,
            reasons=sorted(set(failed)),
            **self._judged(sent, counted),
        )

    def _is_failure(self, _error: str) -> bool:
        return True

    def _judged(self, sent: Bits, counted: Bits) -> dict[str, Any]:
        """Everything the devices sent was counted, and what was counted beside it is at most of the guests."""
        guests = counted.total() - sent.total()
        link = self.shown["open_link"] or {"taken": 0}  # none is made where nobody is told of it
        all_sent = sent.total() == len(self.values) and sent <= counted
        return {"guests": guests, "exact": all_sent and guests <= link["taken"]}


def run(
    devices: int,
    *,
    demo: type[Demo] = Demo,
    epsilon: float = 1.0,
    seed: int = 1,
    show: Callable[[Moment], None],
    port: int = 0,
    public_url: str = "",
    on_ready: Callable[[Addresses], None] | None = None,
    before_close: Callable[[], None] = lambda: None,
) -> DemoResult:
    """Run it all in a folder that is removed afterwards.

    port, public_url: where the server listens (0: anywhere), and what its invites start with.
    on_ready: told where the console and the link are, before the devices answer.
    before_close: called when all devices have answered; the campaign is closed and counted when it returns.
    """
    with tempfile.TemporaryDirectory(prefix="privquant-demo-") as name:
        folder = Path(name)
        settings = Settings(
            data=folder / "data", port=port or free_port(), admin_port=free_port(), public_url=public_url
        )
        return demo(folder, settings, people(devices, seed), epsilon, show).run(on_ready, before_close)

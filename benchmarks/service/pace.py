"""What a crowd that comes all at once costs a campaign, by its pace: rank error, and time until all have answered.

    python benchmarks/service/pace.py --campaigns 1000                   # in process, in virtual time
    python benchmarks/service/pace.py --campaigns 20 --eager             # half of them ask a hundred times a second
    python benchmarks/service/pace.py --http 30 --pace 0.15              # real devices over HTTP, a real server

In process the aggregator's own code decides (`admission_rules`: slots, Retry-After, who is held and served next;
`CampaignProtocol`: what is asked next); clock, network and store are simulated. A device answers
after a network time of --rtt seconds (exponential mean, from query to report), the next queries are computed every
50 ms, or as soon as those held wait for them, and known 20 ms later. Over HTTP every device is `privquant.device`
with its own ledger and the patience it ships with. The last line of each shape is the sequential run of the lab on
the same data.

--eager: half of the devices come in the first tenth of a second and never wait for Retry-After. Their part of the
first 60 % of the queries is printed; 0.5 is fair. --rule: the rule that is used, or one that was tried instead
("retry": nobody is held; "redraw": a new rank at each request).
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import itertools
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from privquant import lab
from privquant._numba import compiled
from privquant.aggregator.campaign.protocol import CampaignProtocol, campaign_options
from privquant.aggregator.devices.admission_rules import (
    HOLD,
    HeldRequest,
    HeldRequests,
    InFlightLimit,
    WaitingTokens,
    at_a_time,
)
from privquant.aggregator.operators.accounts import add_operator
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.base import Counts
from privquant.aggregator.store.migrate import opened
from privquant.device import Patience
from privquant.domain import Integers
from privquant.lab.sample import Sample
from privquant.lab.shapes import shape
from privquant.messages import Query
from privquant.privacy.coin import Coin, flip_threshold
from privquant.server.process import ServerProcess, free_port
from privquant.wire import Manifest, Waves, domain_to_wire

SIZE = 4**9
USERS = 2_500
EPSILON = 0.879
ALPHA = 0.04
SHAPES = ("pareto", "tiny")
PUBLISH, SOONEST, LATER = 0.05, 0.005, 0.02  # seconds
EAGER = 0.01  # seconds after which an eager device asks again


def manifest(users: int, spread: str) -> Manifest:
    return Manifest(
        measurement="crowd",
        question="?",
        domain=Integers(0, SIZE - 1),
        quantiles=(0.5,),
        epsilon=EPSILON,
        flip_threshold=flip_threshold(EPSILON),
        protocol="isotonic",
        options=campaign_options("isotonic", (("spread", spread),)),
        interval=None,
        planned_users=users,
        waves=Waves(),
        opens=0,
        deadline=1,
        issuer="0" * 64,
        nonce="0" * 32,
    )


def values_of(name: str, users: int, seed: int) -> np.ndarray:
    return shape(name, users, SIZE, np.random.default_rng([seed, USERS]))


@dataclass
class Outcome:
    """Of one campaign: error of the median, seconds until the last report, waits, tries, trips of feedback,
    and the part of the eager in the first 60 % of the queries.
    """

    error: float
    success: bool
    seconds: float
    waits: list[float] = field(default_factory=list)
    requests: int = 0
    trips: int = 0
    impatient: int = 0
    eager: float = 0.0


@dataclass(eq=False)
class Held(HeldRequest):
    """A held request of a simulated device."""

    who: int
    until: float


def token_of(who: int) -> bytes:
    return who.to_bytes(4, "big")


class Simulation:
    """One campaign in virtual time. share 0: everybody is asked as soon as it comes."""

    def __init__(
        self,
        name: str,
        users: int,
        share: float,
        spread: str,
        rtt: float,
        seed: int,
        eager: bool = False,
        rule: str = "rank",
    ) -> None:
        self.values = values_of(name, users, seed)
        self.random = random.Random(seed)
        self.share, self.rtt = share, rtt
        self.search = CampaignProtocol(manifest(users, spread))
        self.flip, self.patience = Coin.of(EPSILON).flip, Patience()
        self.waiting = WaitingTokens()
        self.held: HeldRequests[Held] = HeldRequests()
        self.eager, self.rule = eager, rule
        self.order_served: list[int] = []
        self.computing, self.looked = False, 0.0
        self.counts: dict[Query, list[int]] = {}
        self.heard = self.known = self.in_flight = self.due = 0
        self.events: list[tuple[float, int, str, Any]] = []
        self.order = itertools.count()
        self.ranks = [self.random.randbytes(16) for _ in range(users)]
        self.came = [self.random.random() for _ in range(users)]  # all of them within the first second
        if eager:
            self.came = [came * (0.1 if self.is_eager(who) else 1.0) for who, came in enumerate(self.came)]
        self.asked: dict[int, Query] = {}
        self.found = Outcome(0.0, False, 0.0)
        self.set_hand()

    def at(self, when: float, what: str, who: Any = 0) -> None:
        heapq.heappush(self.events, (when, next(self.order), what, who))

    def set_hand(self) -> None:
        self.hand = [query for query, count in self.search.next_queries() for _ in range(count)]
        self.random.shuffle(self.hand)
        self.next = 0

    def run(self) -> Outcome:
        users = len(self.values)
        for who in range(users):
            self.at(self.came[who], "ask", who)
        self.at(0.0, "publish")
        while self.heard < users:
            now, _, what, who = heapq.heappop(self.events)
            getattr(self, what)(now, who)
        value = self.search_all().estimates()[0].value
        assert isinstance(value, int)
        sample, answer = Sample(self.values, SIZE), np.array([value])
        self.found.error = float(sample.rank_error(answer, 0.5)[0])
        self.found.success = bool(sample.success(answer, 0.5, ALPHA)[0])
        self.found.seconds = now
        first = self.order_served[: users * 6 // 10]
        self.found.eager = statistics.mean(map(self.is_eager, first))
        return self.found

    def is_eager(self, who: int) -> bool:
        return self.eager and who % 2 == 1

    def search_all(self) -> CampaignProtocol:
        self.search.update([Counts(query, n, s) for query, (n, s) in self.counts.items()])
        return self.search

    def ask(self, now: float, who: int) -> None:
        self.found.requests += 1
        limit = InFlightLimit(self.share, self.known, take=not self.held)
        if not self.share or limit.slots(self.heard, self.in_flight) > 0:
            self.give(now, who)
        elif self.rule == "retry":
            self.tell(now, who)
        else:
            self.waiting.wait(token_of(who), now)
            rank = self.random.randbytes(16) if self.rule == "redraw" else self.ranks[who]
            request = Held(0, rank, who, now + HOLD)
            self.at(request.until, "end_hold", request)
            not_held = self.held.add(request)
            if not_held is not None:
                self.tell(now, not_held.who)

    def tell(self, now: float, who: int) -> None:
        """When to come back."""
        told = self.waiting.wait(token_of(who), now)
        wait = EAGER if self.is_eager(who) else told + self.patience.first_pause * self.random.random()
        if now - self.came[who] + wait >= self.patience.total:
            self.found.impatient += 1  # it comes back another time, as who runs it was told
        self.at(now + wait, "ask", who)

    def end_hold(self, now: float, request: Held) -> None:
        if self.held.remove(request):
            self.tell(now, request.who)

    def fill_slots(self, now: float) -> None:
        """Give the free slots to held requests."""
        slots = InFlightLimit(self.share, self.known).slots(self.heard, self.in_flight) if self.share else 0
        for request in self.held.take(0, slots):
            self.give(now, request.who)

    def give(self, now: float, who: int) -> None:
        self.order_served.append(who)
        self.found.waits.append(self.waiting.leave(token_of(who), now))
        self.in_flight += 1
        self.next = (self.next + 1) % len(self.hand)
        self.asked[who] = self.hand[self.next]
        self.at(now + self.random.expovariate(1 / self.rtt), "report", who)

    def report(self, now: float, who: int) -> None:
        query = self.asked.pop(who)
        row = self.counts.setdefault(query, [0, 0])
        row[0] += 1
        row[1] += int(self.values[who] <= query.threshold) ^ (self.random.random() < self.flip)
        self.heard += 1
        self.in_flight -= 1
        if self.held and 2 * (self.heard - self.known) >= at_a_time(self.share, self.known):
            self.compute(now)

    def publish(self, now: float, _who: int) -> None:
        self.compute(now)
        self.fill_slots(now)
        self.at(now + PUBLISH, "publish")

    def compute(self, now: float) -> None:
        if self.computing or self.heard < self.due or self.heard == len(self.values) or now < self.looked + SOONEST:
            return
        self.computing, self.computed = True, self.heard
        self.search_all()
        self.found.trips += 1
        self.at(now + LATER, "know")

    def know(self, now: float, _who: int) -> None:
        """The queries as they were computed 20 ms ago."""
        self.set_hand()
        self.known, self.computing, self.looked = self.computed, False, now
        self.due = self.search.next_due()
        self.fill_slots(now)


def sequential(name: str, users: int, first: int, campaigns: int) -> tuple[list[float], float]:
    """Rank errors of the lab's run on the data of the same seeds, and the share of successes."""
    errors, good = [], []
    for seed in range(first, first + campaigns):
        found = lab.trials(
            values_of(name, users, seed),
            protocol="isotonic",
            epsilon=EPSILON,
            domain=Integers(0, SIZE - 1),
            trials=1,
            seed=seed,
        )
        errors.append(float(found.rank_errors()[0]))
        good.append(found.success(ALPHA))
    return errors, statistics.mean(good)


def line(title: str, errors: list[float], good: float, rest: str = "") -> None:
    spread = statistics.stdev(errors) / len(errors) ** 0.5 if len(errors) > 1 else 0.0
    print(f"{title:<18} {statistics.mean(errors):.4f} +- {spread:.4f}  {good:.3f}  {rest}", flush=True)


@compiled()
def in_process(given: argparse.Namespace) -> None:
    print("                   mean rank error   success  seconds to the end, wait mean / longest, requests, trips")
    for name in given.shapes:
        print(f"{name}, {given.users} users at once, {given.campaigns} campaigns")
        for share in given.pace:
            runs = [
                Simulation(
                    name, given.users, share, given.spread, given.rtt, seed, eager=given.eager, rule=given.rule
                ).run()
                for seed in range(given.first, given.first + given.campaigns)
            ]
            waits = [wait for run in runs for wait in run.waits]
            rest = (
                f"{statistics.mean(run.seconds for run in runs):5.1f} s  {statistics.mean(waits):5.1f} / "
                f"{max(waits):.1f} s  {statistics.mean(run.requests for run in runs) / given.users:.1f} each  "
                f"{statistics.mean(run.trips for run in runs):.0f}  out of patience "
                f"{statistics.mean(run.impatient for run in runs):.1f}"
            )
            if given.eager:
                rest += f"  eager {statistics.mean(run.eager for run in runs):.3f}"
            good = statistics.mean(run.success for run in runs)
            line(f"  pace {share:g}" if share else "  no pace", [run.error for run in runs], good, rest)
        line("  sequential", *sequential(name, given.users, given.first, given.campaigns))


class Http:
    """Campaigns of real devices, all at once, on one real server."""

    def __init__(self, folder: Path, users: int, database: str, workers: int, patience: float) -> None:
        self.folder, self.users, self.patience = folder, users, patience
        ports = {"port": free_port(), "admin_port": free_port()}
        self.settings = Settings(data=folder / "data", database=database, workers=workers, **ports)
        self.server = ServerProcess(self.settings, log=folder / "log")
        self.token = asyncio.run(self._operator())
        self.server.start()

    async def _operator(self) -> str:
        async with opened(self.settings) as engine:
            return await add_operator(engine, "pace")

    def call(self, method: str, path: str, form: Any = None) -> Any:
        return self.server.call(method, path, form, token=self.token)

    def run(self, name: str, share: float, spread: str, seed: int) -> tuple[Outcome, list[str]]:
        """One campaign, and why devices did not answer."""
        values = values_of(name, self.users, seed)
        form = {
            "measurement": "crowd",
            "question": "How much?",
            "domain": domain_to_wire(Integers(0, SIZE - 1)),
            "epsilon": EPSILON,
            "planned_users": self.users,
            "options": {"spread": spread},
            "pace": share,
        }
        made = self.call("POST", "/v1/campaigns", form)
        path = f"/v1/campaigns/{made['id']}"
        invites = self.call("POST", f"{path}/invites", {"count": self.users}).splitlines()[1:]
        job = {
            "ledgers": str(self.folder / made["id"]),
            "people": [[invite, int(value)] for invite, value in zip(invites, values, strict=True)],
            "threads": self.users,
            "domain": form["domain"],
            "measurement": form["measurement"],
            "epsilon": EPSILON,
            "key_fingerprint": made["key_fingerprint"],
            "patience": {"total": self.patience},
        }
        Path(job["ledgers"]).mkdir()
        began = time.perf_counter()
        fleet = subprocess.run(
            [sys.executable, "-m", "privquant.demo.devices"],
            input=json.dumps(job),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        receipts = [json.loads(line) for line in fleet.stdout.splitlines()]
        found = Outcome(0.0, False, time.perf_counter() - began)
        shutil.rmtree(job["ledgers"])
        self._check(path, receipts)
        sample, answer = Sample(values, SIZE), np.array([self._estimate(path)])
        found.error = float(sample.rank_error(answer, 0.5)[0])
        found.success = bool(sample.success(answer, 0.5, ALPHA)[0])
        return found, [receipt["error"] for receipt in receipts if "error" in receipt]

    def _check(self, path: str, receipts: list[dict[str, Any]]) -> None:
        """Every report that was acknowledged is counted once, as the bit that was sent."""
        sent = Counter((receipt["asked"], receipt["bit"]) for receipt in receipts if "bit" in receipt)
        self.call("POST", f"{path}/close")
        assert self.call("GET", f"{path}/verify")["ok"]
        counted: Counter[tuple[int, int]] = Counter()
        for row in self.call("GET", f"{path}/export")["counts"]:
            counted[int(row["threshold"]), 1] += row["ones"]
            counted[int(row["threshold"]), 0] += row["answered"] - row["ones"]
        failed = Counter(receipt["error"] for receipt in receipts if "error" in receipt)
        assert not sent - counted, f"{sent - counted} acknowledged and not counted; not answered: {failed}"
        # A device whose patience ended while it waited for the acknowledgement was counted all the same.
        assert (counted - sent).total() <= failed.total(), f"{counted - sent} counted and not sent; {failed}"

    def _estimate(self, path: str) -> int:
        return int(self.call("GET", path)["estimates"][0]["value"])


def over_http(given: argparse.Namespace) -> None:
    for name in given.shapes:
        print(f"{name}, {given.users} real devices at once, {given.http} campaigns over HTTP")
        for share in given.pace:
            with tempfile.TemporaryDirectory(prefix="privquant-pace-") as folder:
                http = Http(Path(folder), given.users, given.database, given.workers, given.patience)
                try:
                    pairs = []
                    for seed in range(given.first, given.first + given.http):
                        run, failed = http.run(name, share, given.spread, seed)
                        pairs.append((run, failed))
                        print(f"  {run.error:.4f}  {run.seconds:.1f} s  {len(failed)} failed", file=sys.stderr)
                finally:
                    http.server.stop()
            runs, why = [run for run, _ in pairs], Counter(each for _, errors in pairs for each in errors)
            seconds = sorted(run.seconds for run in runs)
            rest = f"{statistics.mean(seconds):.1f} s (up to {seconds[-1]:.1f}), not answered {dict(why)}"
            good = statistics.mean(run.success for run in runs)
            line(f"  pace {share:g}" if share else "  no pace", [run.error for run in runs], good, rest)
        line("  sequential", *sequential(name, given.users, given.first, given.http))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first campaign; the next have the next")
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--pace", type=float, nargs="*", default=[0.0, 0.05, 0.1, 0.15, 0.2, 0.5])
    parser.add_argument("--shapes", nargs="+", default=list(SHAPES))
    parser.add_argument("--spread", default="0.25")
    parser.add_argument("--rtt", type=float, default=0.1)
    parser.add_argument("--eager", action="store_true", help="half of the devices do not wait for Retry-After")
    parser.add_argument("--rule", default="rank", choices=("rank", "retry", "redraw"))
    parser.add_argument("--http", type=int, default=0, help="so many campaigns over HTTP instead")
    parser.add_argument("--database", default="")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--patience", type=float, default=60.0, help="of a device over HTTP; it ships with 60 s")
    given = parser.parse_args()
    began = time.perf_counter()
    (over_http if given.http else in_process)(given)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()

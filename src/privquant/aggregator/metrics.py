"""What a server counts about itself and its campaigns, for Prometheus. No label names a device, token or address.

Counters of reports move in steps of many, so that nobody can read from them when a single one came (see
`server.health`). For the same reason the refusals of a campaign are told in steps, and the metrics of a running
campaign are those of its last snapshot (see snapshots). A campaign is named by the first digits of its id.
"""

import collections
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from privquant.aggregator.campaign.states import SHOWN, State
from privquant.server.health import Health
from privquant.server.health import Stepped as Stepped
from privquant.server.health import render as render

_READ_SECONDS = 10.0  # for which what was read from the store is shown again
_DIGITS = 12  # of a campaign's id

requests = Counter("privquant_requests", "Device requests by route and HTTP status", ["route", "status"])
refusals = Counter("privquant_refusals", "Device requests refused, by reason", ["reason"])
campaign_refusals = Counter(
    "privquant_campaign_refusals", "Device requests refused, by campaign, in steps", ["campaign", "reason"]
)
duplicates = Counter("privquant_duplicates", "Reports that were counted before and not again")
pins = Counter("privquant_queries_given", "Queries given to a token for the first time")
groups = Histogram(
    "privquant_group_asks", "Asks in one group commit", buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
)
commits = Histogram(
    "privquant_commit_seconds",
    "Seconds from the start of a group's transaction until it is durable",
    buckets=(0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5),
)
sealed = Counter("privquant_sealed_reports", "Reports moved from the tail to the log")
failures = Counter("privquant_store_failures", "Groups the store did not take")
alarmed = Gauge(
    "privquant_alarmed_campaigns",
    "Campaigns that run and in which one part of the run contradicts the others, by their last snapshots",
    multiprocess_mode="livemax",
)
waiting_devices = Gauge(
    "privquant_waiting_devices", "Devices that were told to come back for their turn", multiprocess_mode="livesum"
)
waits = Histogram(
    "privquant_wait_seconds",
    "Seconds from a device's first ask until it was given a query, in campaigns with a pace",
    buckets=(0.1, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600),
)
waiting = Gauge("privquant_waiting_asks", "Asks waiting for the next group", multiprocess_mode="livesum")
reports = Stepped(Counter("privquant_reports", "Reports counted, in steps"))
_stepped = {
    (route, status): Stepped(requests.labels(route, status))
    for route, status in (("reports", 200), ("reports", 201), ("reports:batch", 200))
}


def requested(route: str, status: int) -> None:
    """A device's request was answered."""
    (_stepped.get((route, status)) or requests.labels(route, status)).inc()


class RefusalTally:
    """What one process has refused in one campaign, by reason.

    It is told when there are `Stepped.step` refusals to tell, or when so many reports of the campaign were counted
    meanwhile, as its snapshots do, or when the campaign is closed.
    """

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign[:_DIGITS]
        self._held: collections.Counter[str] = collections.Counter()
        self._reports = 0

    def refused(self, reason: str) -> None:
        self._held[reason] += 1
        if self._held.total() >= Stepped.step:
            self.tell()

    def counted(self) -> None:
        self._reports += 1
        if self._reports >= Stepped.step:
            self.tell()

    def tell(self) -> None:
        for reason, times in self._held.items():
            campaign_refusals.labels(self._campaign, reason).inc(times)
        self._held.clear()
        self._reports = 0


def told_refusals(campaign: str) -> dict[str, int]:
    """What all processes of this server have told of a campaign since they started, by reason."""
    start = f'privquant_campaign_refusals_total{{campaign="{campaign[:_DIGITS]}",reason="'
    found = {}
    for line in render().decode().splitlines():
        if line.startswith(start):
            reason, _, count = line.removeprefix(start).partition('"} ')
            found[reason] = int(float(count))
    return found


class CampaignMetrics:
    """Metrics of every campaign, and whether this server is ready. watch: reads the campaigns from the store."""

    def __init__(self, watch: Callable[[], Awaitable[list[dict[str, Any]]]], health: Health) -> None:
        self._watch = watch
        self._health = health
        self._read = -_READ_SECONDS
        self._lines: list[dict[str, Any]] = []

    async def render(self) -> bytes:
        """The text format of Prometheus; without the campaigns if the store does not answer."""
        if time.monotonic() - self._read >= _READ_SECONDS:
            self._read = time.monotonic()
            try:
                self._lines = await self._watch()
            except Exception as error:
                self._lines = []
                self._health.failed("metrics", error)
            else:
                self._health.well("metrics")
                alarmed.set(sum(line["alarm"] and line["state"] != State.CLOSED for line in self._lines))
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(
            "privquant_ready", "1 if reports can be counted, as /readyz says", float(self._health.cause is None)
        )
        for name, text in (
            ("heard", "Reports in the campaign's last snapshot; all of them once it is closed"),
            ("planned_users", "Users the campaign was planned for"),
            ("alarms", "Alarms that `show` tells of: reports that honest devices cannot have sent"),
            ("deadline", "Seconds since 1970 of the campaign's deadline"),
        ):
            family = GaugeMetricFamily(f"privquant_campaign_{name}", text, labels=["campaign", "measurement"])
            for line in self._lines:
                family.add_metric([line["id"][:_DIGITS], line["measurement"]], float(line[name]))
            yield family
        states = GaugeMetricFamily(
            "privquant_campaign_state", "1 for the state the campaign is in", labels=["campaign", "state"]
        )
        for line in self._lines:
            for state in SHOWN:
                states.add_metric([line["id"][:_DIGITS], state], float(line["state"] == state))
        yield states

"""What a server counts about itself, for Prometheus. No label names a device, a token or an address.

Counters of reports move in steps of many, so that nobody can read from them when a single one came (see
`server.health`).
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from privquant.server.health import Stepped as Stepped
from privquant.server.health import render as render

requests = Counter("privquant_requests", "Device requests by route and HTTP status", ["route", "status"])
refusals = Counter("privquant_refusals", "Device requests refused, by reason", ["reason"])
campaign_refusals = Counter(
    "privquant_campaign_refusals",
    "Device requests refused, by campaign, in steps",
    ["campaign", "reason"],
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
_answered: dict[tuple[str, int], Stepped | Counter] = {
    (route, status): Stepped(requests.labels(route, status))
    for route, status in (("reports", 200), ("reports", 201), ("reports:batch", 200))
}


def requested(route: str, status: int) -> None:
    """A device's request was answered."""
    known = _answered.get((route, status))
    if known is None:
        known = _answered[route, status] = requests.labels(route, status)
    known.inc()

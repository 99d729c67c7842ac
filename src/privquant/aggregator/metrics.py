"""What a server counts about itself, for Prometheus. No label names a device, a token or an address."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, multiprocess

requests = Counter("privquant_requests", "Device requests by route and HTTP status", ["route", "status"])
refusals = Counter("privquant_refusals", "Device requests refused, by reason", ["reason"])
reports = Counter("privquant_reports", "Reports counted")
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
    "Live campaigns in which one part of the run contradicts the others",
    multiprocess_mode="livesum",
)
waiting = Gauge("privquant_waiting_asks", "Asks waiting for the next group", multiprocess_mode="livesum")


def render() -> bytes:
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
    return generate_latest()

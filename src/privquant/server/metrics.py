"""What both servers need to count themselves for Prometheus.

A number that moved with every report would be a clock of single reports for anyone who watches it. So what counts
reports moves in steps of many.
"""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, generate_latest, multiprocess

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class Stepped:
    """A counter that is told of every event and moves when there are `step` of them with the same labels."""

    step = 32

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._held: dict[tuple[str, ...], int] = {}

    def inc(self, *labels: str) -> None:
        counter = self._counter.labels(*labels) if labels else self._counter
        held = self._held.get(labels, 0) + 1
        if held >= Stepped.step:
            counter.inc(held)
            held = 0
        self._held[labels] = held


def render() -> bytes:
    """All that this process counts, or all workers of this server together."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
    return generate_latest()

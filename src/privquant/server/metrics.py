"""What both servers need to count themselves for Prometheus.

A number that moved with every report would be a clock of single reports for anyone who watches it. So what counts
reports moves in steps of many.
"""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, generate_latest, multiprocess

MEDIA = "text/plain; version=0.0.4; charset=utf-8"


class Stepped:
    """A counter that is told of every event and moves when there are `step` of them."""

    step = 32

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._held = 0

    def inc(self) -> None:
        self._held += 1
        if self._held >= Stepped.step:
            self._counter.inc(self._held)
            self._held = 0


class SteppedByLabel:
    """Stepped counters of one name, one for each value of its label."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._known: dict[str, Stepped] = {}

    def inc(self, label: str) -> None:
        if label not in self._known:
            self._known[label] = Stepped(self._counter.labels(label))
        self._known[label].inc()


def render() -> bytes:
    """All that this process counts, or all workers of this server together."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
    return generate_latest()

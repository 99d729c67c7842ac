"""Metrics of every campaign, and whether this server is ready, for Prometheus.

They are read from the store when somebody asks, at most every few seconds. Those of a running campaign are of its
last snapshot: a number that moved with every report would tell when each one came (see snapshots). A campaign is
named by the first digits of its id and by its measurement.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from privquant.aggregator import metrics
from privquant.aggregator.campaign.campaigns import Campaigns
from privquant.aggregator.campaign.states import SHOWN, State
from privquant.server.health import Health

SECONDS = 10.0
"""For so long what was read from the store is shown again."""
_DIGITS = 12


class CampaignMetrics:
    """Reads, remembers and renders them."""

    def __init__(self, campaigns: Campaigns, health: Health) -> None:
        self._campaigns = campaigns
        self._health = health
        self._read = -SECONDS
        self._lines: list[dict[str, Any]] = []

    async def render(self) -> bytes:
        """The text format of Prometheus; without the campaigns if the store does not answer."""
        if time.monotonic() - self._read >= SECONDS:
            self._read = time.monotonic()
            try:
                self._lines = await self._campaigns.overview(with_alarms=True)
            except Exception as error:
                self._lines = []
                self._health.failed("metrics", error)
            else:
                self._health.well("metrics")
                metrics.alarmed.set(sum(line["alarm"] and line["state"] != State.CLOSED for line in self._lines))
        registry = CollectorRegistry()
        registry.register(_Collected(self._lines, self._health.cause is None))
        return generate_latest(registry)


@dataclass(frozen=True, eq=False)  # a registry needs a hash, and lists have none
class _Collected:
    lines: list[dict[str, Any]]
    ready: bool

    def collect(self) -> Iterator[GaugeMetricFamily]:
        ready = GaugeMetricFamily("privquant_ready", "1 if reports can be counted, as /readyz says")
        ready.add_metric([], float(self.ready))
        yield ready
        for name, text in (
            ("heard", "Reports in the campaign's last snapshot; all of them once it is closed"),
            ("planned_users", "Users the campaign was planned for"),
            ("alarms", "Alarms that `show` tells of: reports that honest devices cannot have sent"),
            ("deadline", "Seconds since 1970 of the campaign's deadline"),
        ):
            family = GaugeMetricFamily(f"privquant_campaign_{name}", text, labels=["campaign", "measurement"])
            for line in self.lines:
                family.add_metric([line["id"][:_DIGITS], line["measurement"]], float(line[name]))
            yield family
        states = GaugeMetricFamily(
            "privquant_campaign_state", "1 for the state the campaign is in", labels=["campaign", "state"]
        )
        for line in self.lines:
            for state in SHOWN:
                states.add_metric([line["id"][:_DIGITS], state], float(line["state"] == state))
        yield states

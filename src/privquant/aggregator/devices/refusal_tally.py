"""Refusals of one campaign by reason, told to the operator in steps.

A count that moved with every request would show when one device came. So a process tells what it has refused when
there are `Stepped.step` refusals to tell, or when so many reports of the campaign were counted meanwhile, as its
snapshots do, or when the campaign is closed.
"""

from __future__ import annotations

from collections import Counter

from privquant.aggregator import metrics

_DIGITS = 12  # of a campaign's id, as in the other metrics of campaigns


class RefusalTally:
    """What one process has refused in one campaign."""

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign[:_DIGITS]
        self._held: Counter[str] = Counter()
        self._reports = 0

    def refused(self, reason: str) -> None:
        self._held[reason] += 1
        if self._held.total() >= metrics.Stepped.step:
            self.tell()

    def counted(self) -> None:
        """A report of the campaign was counted."""
        self._reports += 1
        if self._reports >= metrics.Stepped.step:
            self.tell()

    def tell(self) -> None:
        for reason, times in self._held.items():
            metrics.campaign_refusals.labels(self._campaign, reason).inc(times)
        self._held.clear()
        self._reports = 0


def told(campaign: str) -> dict[str, int]:
    """What all processes of this server have told of a campaign since they started, by reason."""
    start = f'privquant_campaign_refusals_total{{campaign="{campaign[:_DIGITS]}",reason="'
    found = {}
    for line in metrics.render().decode().splitlines():
        if line.startswith(start):
            reason, _, count = line.removeprefix(start).partition('"} ')
            found[reason] = int(float(count))
    return found

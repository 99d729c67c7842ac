"""What a shuffler counts about itself, for Prometheus. No label names a campaign, a device, a token or an address.

Reports and refusals are counted in steps of many (see `server.metrics`); a round is as large as a batch.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge

from privquant.server.metrics import Stepped, SteppedByLabel, render
from privquant.shuffler.round_states import State

reports = Stepped(Counter("privquant_shuffler_reports", "Reports kept for their round, in steps"))
duplicates = Stepped(Counter("privquant_shuffler_duplicates", "Reports that were kept before, in steps"))
refusals = SteppedByLabel(
    Counter("privquant_shuffler_refusals", "Requests refused, by reason, in steps", ["reason"])
)
batches = Counter("privquant_shuffler_batches", "Batches that the aggregator counted or refused", ["outcome"])
_rounds = Gauge("privquant_shuffler_rounds", "Rounds of the campaigns in the database, by state", ["state"])


def shown(rounds: dict[str, int]) -> bytes:
    """The page that Prometheus reads. rounds: how many there are in each state."""
    for state in State:
        _rounds.labels(state).set(rounds.get(state, 0))
    return render()

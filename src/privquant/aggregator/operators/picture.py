"""What a console shows of a campaign: what `show` says, and nothing finer.

`show` speaks of a snapshot that lags behind the reports; a picture of anything else would tell a single answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privquant.aggregator.campaign.campaigns import Campaigns
from privquant.aggregator.devices.refusal_tally import told
from privquant.aggregator.operators.estimator import Drawn, Estimator
from privquant.aggregator.operators.forms import CampaignShown
from privquant.aggregator.store.base import Counts
from privquant.messages import Estimate, error_statement
from privquant.wire import Manifest


async def picture(campaigns: Campaigns, estimator: Estimator, identity: str) -> dict[str, Any]:
    """`show`, with what is drawn and said for each quantile, and refusals by reason."""
    found: list[Drawn] = []

    async def elsewhere(manifest: Manifest, counts: Sequence[Counts]) -> list[Estimate]:
        found.append(await estimator.drawn(manifest, counts))
        return found[0].estimates

    shown = CampaignShown(**await campaigns.show(identity, elsewhere)).model_dump()
    said = [sentences(estimate) for estimate in shown["estimates"]]
    drawings = found[0].drawings if found else []  # a shuffled campaign computes its estimates itself
    return shown | {"drawings": drawings, "said": said, "refusals": told(identity)}


def sentences(estimate: Mapping[str, Any]) -> list[str]:
    """Everything that is said of an estimate, one sentence each."""
    said = [error_statement(estimate[kind]) for kind in ("typical", "certain")]
    return [*(f"{each}." for each in said if each is not None), *(f"{note}." for note in estimate["notes"])]

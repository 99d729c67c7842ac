"""What a console draws of a campaign, out of what `show` and `export` say and nothing finer.

Both speak of a snapshot that lags behind the reports; a picture made of anything else would tell a single answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from privquant.aggregator import metrics
from privquant.aggregator.campaign_protocol import CampaignProtocol, estimates_of
from privquant.aggregator.campaigns import Campaigns
from privquant.aggregator.store.base import Counts
from privquant.messages import Query, error_statement
from privquant.planning.picture import drawing
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.wire import Manifest

_KEPT = 16
_REFUSED = 'privquant_refusals_total{reason="'


async def picture(campaigns: Campaigns, identity: str) -> dict[str, Any]:
    """All a console shows of one campaign: `show`, with what is drawn for each quantile, and refusals by reason."""
    shown = await campaigns.show(identity)
    exported = await campaigns.export(identity)
    manifest, counts = Manifest.from_dict(exported["envelope"]["manifest"]), _counts(exported["counts"])
    drawn = await asyncio.to_thread(drawings, manifest, counts)
    said = [sentences(estimate) for estimate in shown["estimates"]]
    return shown | {"drawings": drawn, "said": said, "refusals": refusals()}


def sentences(estimate: Mapping[str, Any]) -> list[str]:
    """Everything that is said of an estimate, one sentence each."""
    said = [error_statement(estimate[kind]) for kind in ("typical", "certain")]
    return [*(f"{each}." for each in said if each is not None), *(f"{note}." for note in estimate["notes"])]


@lru_cache(_KEPT)
def drawings(manifest: Manifest, counts: tuple[Counts, ...]) -> list[dict[str, list[list[float]]]]:
    """For each quantile its pooled reports and its fitted curve; none for a protocol without such a curve."""
    search = CampaignProtocol(manifest)
    if not isinstance(search.protocol, Isotonic):
        return []
    search.update(counts)
    return [drawing(search.protocol, estimate) for estimate in estimates_of(manifest, counts)]


def _counts(rows: Iterable[Mapping[str, Any]]) -> tuple[Counts, ...]:
    return tuple(
        Counts(
            Query(int(row["threshold"]), int(row["coin"]), row["phase"], row["arm"]), row["answered"], row["ones"]
        )
        for row in rows
    )


def refusals() -> dict[str, int]:
    """Requests of devices that this server has refused since its start, by reason; all campaigns together."""
    found = {}
    for line in metrics.render().decode().splitlines():
        if line.startswith(_REFUSED):
            reason, _, count = line.removeprefix(_REFUSED).partition('"} ')
            found[reason] = int(float(count))
    return found

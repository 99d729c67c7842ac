"""How long a closed campaign is kept: after its days it is erased by itself, as `delete` would.

Erasing is told to the audit and the log. Where the files of the store could not be proved clean (a transaction that
is older than the deletion keeps rows alive), it is tried again at every turn until they are.
"""

from __future__ import annotations

import time
from contextlib import suppress

from sqlalchemy import select

from privquant.aggregator.campaign.campaigns import ERASE_SECONDS, Campaigns
from privquant.aggregator.store import schema
from privquant.aggregator.store.operator_queries import UnknownCampaign, reading
from privquant.server.logs import say

DAY = 86_400


class Retention:
    """Erases what was kept long enough; `turn` by one process at a time."""

    def __init__(self, campaigns: Campaigns) -> None:
        self._campaigns = campaigns
        self._left = False  # bytes of a deleted campaign may be in the store's files

    async def turn(self) -> None:
        for identity, days in await self._due():
            with suppress(UnknownCampaign):  # an operator was quicker
                erasure = await self._campaigns.delete(identity, "server", f"kept for {days} days")
                self._left |= not erasure.whole
                say("a campaign was kept long enough", campaign=identity, erased=erasure.whole, left=erasure.left)
        if self._left:
            self._left = not (await self._campaigns.store.erase(ERASE_SECONDS)).whole

    async def _due(self) -> list[tuple[str, int]]:
        table, now = schema.campaign.c, int(time.time())
        async with reading(self._campaigns.engine) as db:
            rows = await db.execute(
                select(table.id, table.keep_days).where(
                    table.state == "closed", table.closed + table.keep_days * DAY <= now
                )
            )
            return [(row.id, row.keep_days) for row in rows]

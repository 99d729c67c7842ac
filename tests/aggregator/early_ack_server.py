"""The negative control: a server that acknowledges a report BEFORE its transaction is committed.

Only the fault tests start it, to show that they would find the losses. Nothing in the package can be told to
do this.
"""

from __future__ import annotations

import asyncio

from privquant.aggregator import server, service
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.base import Ask, AskResult, Outcome, Spend
from privquant.server import group_commit as groups


class EarlyGroupCommit(groups.GroupCommit[Ask, AskResult]):
    async def _answer(self, group: list[tuple[Ask, asyncio.Future[AskResult]]]) -> None:
        for ask, future in group:
            if isinstance(ask, Spend) and not future.done():
                future.set_result(AskResult(Outcome.COUNTED))
        await asyncio.sleep(0.05)  # so that nearly every kill falls between the two
        await super()._answer(group)


service.GroupCommit = EarlyGroupCommit  # type: ignore[misc]

if __name__ == "__main__":
    raise SystemExit(server.run(Settings.gather()))

"""The negative control: a shuffler that acknowledges a report BEFORE its transaction is committed.

Only the fault tests start it, to show that they would find the losses. Nothing in the package can be told to
do this.
"""

from __future__ import annotations

import asyncio

from privquant.server import group_commit as groups
from privquant.shuffler import server
from privquant.shuffler.settings import Settings
from privquant.shuffler.store import Ask, AskResult, Outcome


class EarlyGroupCommit(groups.GroupCommit[Ask, AskResult]):
    async def _answer(self, group: list[tuple[Ask, asyncio.Future[AskResult]]]) -> None:
        for ask, future in group:
            if ask.func.__name__ == "keep" and not future.done():
                future.set_result(AskResult(Outcome.KEPT))
        await asyncio.sleep(0.05)  # so that nearly every kill falls between the two
        await super()._answer(group)


server.GroupCommit = EarlyGroupCommit  # type: ignore[misc,assignment]

if __name__ == "__main__":
    server.run(Settings.gather())

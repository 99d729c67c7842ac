"""What is shown of a campaign that runs: snapshots of its counts that tell nothing about a single device.

Who reads exact counts before and after one device answers has read its threshold and its bit. So while a campaign
runs, whatever leaves the server (list, show, export, estimates, alarms, metrics) comes from its last snapshot:

- from one snapshot to the next there are at least `step` reports;
- the last one is at least `step` reports behind what is counted, so closing, after which the exact counts are
  shown, is as large a step as any.

There are two of them at rest: the one that is shown, and the one that is shown when `step` more are counted. They
are in the database and turn in one statement, so every process and host shows the same one, before and after a
restart, and two that turn at once do no harm. `verify` compares exact counts and says only whether they agree.
"""

import json
import time
from collections.abc import Sequence

from privquant.aggregator.campaign.states import SHOWS_SNAPSHOTS
from privquant.aggregator.store import operator_queries as queries
from privquant.aggregator.store.base import Counts, counts_of
from privquant.aggregator.store.operator_queries import Engine, Transaction, writing

STEP = 32
"""Reports between two snapshots, at least, unless told otherwise."""


class Snapshots:
    """Turns the snapshots of the campaigns of one store."""

    def __init__(self, engine: Engine, step: int = STEP, pause: float = 0.0) -> None:
        """pause: the least seconds between two snapshots of a campaign."""
        self._engine = engine
        self._step = step
        self._pause = pause
        self._coming: dict[int, int] = {}  # reports in the snapshot to be shown next, as far as is known here
        self._soonest: dict[int, float] = {}
        self._late: dict[int, list[Sequence[Counts]]] = {}  # the last two that are to be turned to, a step apart

    async def catch_up(self) -> None:
        """Turn to what came too soon after a snapshot."""
        for number in list(self._late):
            await self._turn(number)

    async def advance(self, number: int, counts: Sequence[Counts]) -> None:
        """Take note of the exact counts of a campaign that runs.

        Two of what came too soon are kept, so that a burst of answers which ends the campaign's traffic is shown
        but for its last steps, and not as it was when it began.
        """
        late = self._late.setdefault(number, [])
        known = _heard(late[-1]) if late else self._coming.get(number, 0)
        if not known <= _heard(counts) < known + self._step:  # below: a backup was restored
            late[:] = [*late[-1:], counts]
            await self._turn(number)

    async def _turn(self, number: int) -> None:
        late = list(self._late[number])  # more may come while the transaction runs
        if not late or time.monotonic() < self._soonest.get(number, 0.0):
            return
        self._soonest[number] = time.monotonic() + self._pause
        async with writing(self._engine) as db:
            for counts in late:
                heard, shown = _heard(counts), packed(counts)
                self._coming[number] = await queries.turn_snapshot(db, number, heard, shown, self._step)
        self._late[number] = [each for each in self._late[number] if not any(each is done for done in late)]


def _heard(counts: Sequence[Counts]) -> int:
    return sum(row.answered for row in counts)


async def shown_counts(db: Transaction, number: int, state: str) -> list[Counts]:
    """The counts an operator sees: of the last snapshot; the exact ones once the campaign is closed."""
    if state in SHOWS_SNAPSHOTS:
        return unpacked((await queries.shown_snapshot(db, number))[1])
    return await queries.read_counts(db, number)


def packed(counts: Sequence[Counts]) -> bytes:
    rows = [
        [row.query.phase, row.query.arm, row.query.coin, row.query.threshold, row.answered, row.ones]
        for row in counts
    ]
    return json.dumps(rows, separators=(",", ":")).encode("ascii")


def unpacked(data: bytes) -> list[Counts]:
    return counts_of(json.loads(data))

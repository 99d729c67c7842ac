"""The two snapshots of every campaign that runs, in the database: the one that is shown, and the next one.

Why there are two is said in `campaign.snapshots`.
"""

from __future__ import annotations

from sqlalchemy import literal, select, update
from sqlalchemy.dialects import postgresql, sqlite

from privquant.aggregator.campaign.states import SHOWS_SNAPSHOTS
from privquant.aggregator.store import schema
from privquant.aggregator.store.operator_queries import Transaction

NOTHING = b"[]"
_table = schema.snapshot


async def turn_snapshot(db: Transaction, number: int, heard: int, counts: bytes, step: int) -> int:
    """Take these counts as what comes next, if they have `step` reports more than what comes next now.

    How many reports the next snapshot has afterwards.
    """
    await _begin(db, number)
    turned = {"shown_heard": _table.c.coming_heard, "shown": _table.c.coming}
    await db.execute(
        update(_table)
        .where(_table.c.campaign == number, _table.c.coming_heard + step <= heard)
        .values(coming_heard=heard, coming=counts, **turned)
    )
    kept = await db.execute(select(_table.c.coming_heard).where(_table.c.campaign == number))
    return int(kept.scalar() or 0)


async def _begin(db: Transaction, number: int) -> None:
    """Two empty snapshots, unless there are some, or the campaign has been closed meanwhile."""
    campaign = schema.campaign.c
    inserting = (postgresql if db.dialect.name == "postgresql" else sqlite).insert(_table)
    empty = select(campaign.no, literal(0), literal(NOTHING), literal(0), literal(NOTHING)).where(
        campaign.no == number, campaign.state.in_([state.value for state in SHOWS_SNAPSHOTS])
    )
    columns = ["campaign", "shown_heard", "shown", "coming_heard", "coming"]
    await db.execute(inserting.from_select(columns, empty).on_conflict_do_nothing())


async def shown_snapshot(db: Transaction, number: int) -> tuple[int, bytes]:
    """Reports and packed counts of the snapshot that is shown; no reports where there is none."""
    row = (
        await db.execute(select(_table.c.shown_heard, _table.c.shown).where(_table.c.campaign == number))
    ).first()
    return (0, NOTHING) if row is None else (row.shown_heard, bytes(row.shown))


async def heard_in_snapshots(db: Transaction) -> list[tuple[str, int, int]]:
    """Id and number of every campaign that has a snapshot, and the reports in the one that is shown."""
    campaign = schema.campaign.c
    rows = await db.execute(
        select(campaign.id, campaign.no, _table.c.shown_heard).where(campaign.no == _table.c.campaign)
    )
    return [(row.id, row.no, row.shown_heard) for row in rows]

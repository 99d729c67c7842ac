"""The rounds of shuffled campaigns in the database: announced once, ended once, for good.

A round's announcement is durable before it leaves, so that no two different ones are ever signed; its end (a batch
that was counted, or a drop) is one transaction that finds it still announced, or changes nothing.
"""

from dataclasses import dataclass

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from privquant.aggregator.store import schema
from privquant.aggregator.store.operator_queries import Engine, Transaction, reading, writing
from privquant.messages import Query
from privquant.wire import BatchPart

_table = schema.shuffled_round
_c = _table.c

ANNOUNCED, COUNTED, DROPPED = "announced", "counted", "dropped"


@dataclass(frozen=True, slots=True)
class RoundRow:
    """One announced round. reports: of its batch, or lost with it. answered: those of them that opened."""

    round: int
    threshold: int
    envelope: bytes
    state: str
    noted: bool
    extended: bool
    batch: str | None
    reports: int
    answered: int
    ones: int

    @property
    def over(self) -> bool:
        return self.state != ANNOUNCED


async def read_rounds(engine: Engine, campaign: int) -> list[RoundRow]:
    """All announced rounds, in their order."""
    async with reading(engine) as db:
        return await rounds_in(db, campaign)


async def rounds_in(db: Transaction, campaign: int) -> list[RoundRow]:
    """`read_rounds` as of the moment of a transaction."""
    wanted = [_c[name] for name in RoundRow.__slots__]
    rows = await db.execute(select(*wanted).where(_c.campaign == campaign).order_by(_c.round))
    kinds = {"envelope": bytes, "noted": bool, "extended": bool}
    found = (dict(row._mapping) for row in rows)
    return [RoundRow(**form | {name: kind(form[name]) for name, kind in kinds.items()}) for form in found]


async def announce(engine: Engine, campaign: int, number: int, threshold: int, envelope: bytes) -> bool:
    """Write an announcement down; False if the round has one."""
    try:
        async with writing(engine) as db:
            said = {"campaign": campaign, "round": number, "threshold": threshold, "envelope": envelope}
            nothing_yet = dict.fromkeys(("noted", "extended", "reports", "answered", "ones"), 0)
            await db.execute(insert(_table).values(**said, state=ANNOUNCED, **nothing_yet))
    except IntegrityError:
        return False
    return True


async def mark(engine: Engine, campaign: int, number: int, **marks: bool) -> None:
    """noted: the shuffler has the announcement. extended: it waits longer for the round's reports."""
    async with writing(engine) as db:
        values = {name: int(value) for name, value in marks.items()}
        await db.execute(update(_table).where(_c.campaign == campaign, _c.round == number).values(**values))


async def keep_part(engine: Engine, campaign: int, part: BatchPart) -> list[tuple[str, bytes]]:
    """Hold a part of a batch until the others are there; the same part again, or one of another batch, is not kept.

    (batch id, sealed reports end to end) of all parts that are held for the round, in their order.
    """
    table, sealed = schema.batch_part, b"".join(part.sealed)
    columns = select(table.c.part, table.c.batch, table.c.sealed)
    async with writing(engine) as db:
        rows = await db.execute(columns.where(table.c.campaign == campaign, table.c.round == part.round))
        held = {row.part: (row.batch, bytes(row.sealed)) for row in rows}
        if part.part not in held and all(batch == part.id for batch, _ in held.values()):
            about = {"campaign": campaign, "round": part.round, "part": part.part, "batch": part.id}
            await db.execute(insert(table).values(**about, sealed=sealed))
            held[part.part] = (part.id, sealed)
    return [held[number] for number in sorted(held)]


async def forget_parts(db: Transaction, campaign: int, number: int) -> None:
    table = schema.batch_part
    await db.execute(delete(table).where(table.c.campaign == campaign, table.c.round == number))


async def count_batch(
    engine: Engine, campaign: int, batch: BatchPart, query: Query, answered: int, ones: int
) -> bool:
    """Count a whole batch, once: the round, the counts and the end of its parts in one transaction."""
    counted = {"answered": answered, "ones": ones}
    async with writing(engine) as db:
        ends = {"state": COUNTED, "batch": batch.id, "reports": batch.reports}
        if not await _end(db, campaign, batch.round, **ends, **counted):
            return False
        if answered:
            asked = {name: getattr(query, name) for name in ("phase", "arm", "coin", "threshold")}
            await db.execute(insert(schema.count).values(campaign=campaign, **asked, **counted))
    return True


async def drop_round(engine: Engine, campaign: int, number: int, reports: int) -> bool:
    """The round ended without a batch, for good; False if it had ended before."""
    async with writing(engine) as db:
        return await _end(db, campaign, number, state=DROPPED, reports=reports)


async def _end(db: Transaction, campaign: int, number: int, **values: object) -> bool:
    """End a round that is still announced, and its parts with it; False if it had ended before."""
    this = (_c.campaign == campaign, _c.round == number, _c.state == ANNOUNCED)
    done = await db.execute(update(_table).where(*this).values(**values))
    await forget_parts(db, campaign, number)
    return bool(done.rowcount)

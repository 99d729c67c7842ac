"""What operators' acts read and write, beside the contract of devices: transactions, campaigns, tokens, links,
snapshots, operators and the audit.

Both databases run the same statements, over SQLAlchemy; no module outside this folder has statements of its own. An
operation that takes `db` is part of the transaction of its caller, which `reading` or `writing` opens.
"""

import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

from sqlalchemy import delete, func, insert, literal, select, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from privquant.aggregator.campaign.states import CAN_BE_ERASED, SHOWS_SNAPSHOTS, Act, State, WrongState, step
from privquant.aggregator.store import schema
from privquant.aggregator.store import statements as sql
from privquant.aggregator.store.base import CampaignRow, Counts, counts_of
from privquant.errors import PrivquantError
from privquant.messages import Query
from privquant.wire import Manifest, fingerprint, open_issued

Engine = AsyncEngine
Transaction = AsyncConnection
DatabaseError = SQLAlchemyError
"""What an operation raises when the database does not answer, or gave the transaction up."""
DAY = 86_400
NO_COUNTS = b"[]"


class UnknownCampaign(PrivquantError):
    """There is no campaign with this id."""


@asynccontextmanager
async def reading(engine: Engine) -> AsyncIterator[Transaction]:
    """A transaction whose reads all see one moment."""
    if engine.dialect.name != "postgresql":
        async with engine.connect() as db:
            yield db
        return
    async with engine.execution_options(isolation_level="REPEATABLE READ").connect() as db:
        # TRUNCATE, which sealing ends with, does not respect snapshots. Lock first: the snapshot comes after it.
        await db.execute(text("LOCK TABLE tail IN ACCESS SHARE MODE"))
        yield db


@asynccontextmanager
async def writing(engine: Engine) -> AsyncIterator[Transaction]:
    """A transaction that is committed at the end of the block."""
    async with engine.execution_options(writes=True).begin() as db:
        yield db


async def _read(db: Transaction, statement: str, *values: object) -> Sequence[Any]:
    """The rows of one of `statements`."""
    return (await db.execute(text(sql.for_sqlalchemy(statement)), _named(values))).all()


def _named(values: Sequence[object]) -> dict[str, object]:
    return {f"p{place}": value for place, value in enumerate(values, 1)}


@lru_cache(maxsize=512)
def manifest_of(envelope: bytes) -> Manifest:
    """The manifest of a stored envelope, with its signature checked; neither ever changes."""
    form = json.loads(envelope)
    manifest = Manifest.from_dict(form["manifest"])
    mark = fingerprint(manifest.issuer)
    return open_issued(envelope, campaign_id=manifest.id, key_fingerprint=mark)


async def add_campaign(db: Transaction, first: list[tuple[Query, int]], **values: Any) -> None:
    """A new campaign, with the queries that are handed out first. values: id, envelope, pace and keep_days."""
    values |= {"state": State.OPEN.value, "created": int(time.time())}
    made = await db.execute(insert(schema.campaign).values(**values))
    assert made.inserted_primary_key is not None
    rows = sql.published_rows(made.inserted_primary_key[0], first, 0)
    if rows:
        await db.execute(text(sql.for_sqlalchemy(sql.PUBLISH)), [_named(row) for row in rows])


async def find_campaign(db: Transaction, identity: str) -> tuple[Any, Manifest]:
    """The row of a campaign, and its manifest."""
    table = schema.campaign
    row = (await db.execute(select(table).where(table.c.id == identity))).first()
    if row is None:
        raise UnknownCampaign(f"there is no campaign {identity!r:.80}")
    return row, manifest_of(bytes(row.envelope))


async def all_campaigns(db: Transaction) -> list[CampaignRow]:
    rows = await _read(db, sql.CAMPAIGNS, None, False)
    return [CampaignRow(no, id, state, bytes(envelope), *rest) for no, id, state, envelope, *rest in rows]


async def issuers(engine: Engine) -> list[str]:
    """Fingerprints of the keys that signed campaigns which are not closed."""
    table = schema.campaign.c
    async with reading(engine) as db:
        rows = (await db.execute(select(table.envelope).where(table.state != State.CLOSED.value))).all()
    return sorted({fingerprint(manifest_of(bytes(row.envelope)).issuer) for row in rows})


async def change_state(db: Transaction, row: Any, act: Act) -> None:
    """Do to a campaign what an operator asked for; WrongState where its state does not allow it.

    Closing also forgets what was given, in the same transaction: there is no moment between the two.
    """
    table, after = schema.campaign, step(row.state, act)
    closed = {"closed": int(time.time())} if after is State.CLOSED else {}
    as_read = (table.c.no == row.no, table.c.state == row.state)
    turned = await db.execute(update(table).where(*as_read).values(state=after.value, **closed))
    if turned.rowcount == 0:
        raise WrongState(f"another process has changed the campaign's state meanwhile; {act} it again")
    if closed:
        await forget_what_was_given(db)


async def forget_what_was_given(db: Transaction) -> None:
    """Of all closed campaigns: which query each token was given, the queries to hand out, and the snapshots."""
    closed = select(schema.campaign.c.no).where(schema.campaign.c.state == State.CLOSED.value)
    for table in (schema.pin, schema.flight, schema.published, schema.snapshot):
        await db.execute(delete(table).where(table.c.campaign.in_(closed)))


async def kept_long_enough(db: Transaction) -> list[tuple[str, int]]:
    """Closed campaigns whose days are over, with how many they were."""
    table = schema.campaign.c
    erasable = table.state.in_([state.value for state in CAN_BE_ERASED])
    due = table.closed + table.keep_days * DAY <= int(time.time())
    rows = await db.execute(select(table.id, table.keep_days).where(erasable, due))
    return [(row.id, row.keep_days) for row in rows]


async def delete_campaign(db: Transaction, number: int) -> None:
    """All rows of a campaign."""
    for table in schema.OF_CAMPAIGNS:
        await db.execute(delete(table).where(table.c.campaign == number))
    await db.execute(delete(schema.campaign).where(schema.campaign.c.no == number))


async def read_counts(db: Transaction, number: int, *, from_log: bool = False) -> list[Counts]:
    """Counts per query; `from_log`: summed anew from the log."""
    return counts_of(await _read(db, sql.COUNTS_FROM_LOG if from_log else sql.COUNTS, number))


def as_dict(counts: Sequence[Counts]) -> dict[Query, tuple[int, int]]:
    return {row.query: (row.answered, row.ones) for row in counts}


async def add_tokens(db: Transaction, number: int, ids: Sequence[bytes]) -> None:
    await db.execute(insert(schema.token), [{"campaign": number, "id": each} for each in ids])


async def set_link(db: Transaction, number: int, secret: bytes, places: int) -> None:
    """The open link of a campaign; a second one replaces the first and keeps the places taken."""
    table, values = schema.link, {"secret": secret, "places": places}
    kept = await db.execute(update(table).where(table.c.campaign == number).values(values))
    if kept.rowcount == 0:
        await db.execute(insert(table).values(campaign=number, taken=0, **values))


async def places_of_link(db: Transaction, number: int) -> dict[str, int] | None:
    table = schema.link.c
    row = (await db.execute(select(table.places, table.taken).where(table.campaign == number))).first()
    return None if row is None else dict(row._mapping)


async def size_of(db: Transaction, number: int, name: str) -> int:
    """How many rows of the table with this name are the campaign's."""
    table = schema.metadata.tables[name]
    found = await db.execute(select(func.count()).select_from(table).where(table.c.campaign == number))
    return int(found.scalar_one())


async def turn_snapshot(db: Transaction, number: int, heard: int, counts: bytes, step: int) -> int:
    """Take these counts as the next snapshot, if they have `step` reports more than the next one has now.

    The one that was next is shown from then on. How many reports the next one has afterwards.
    """
    table, campaign = schema.snapshot, schema.campaign.c
    # Two empty ones first, unless there are some, or the campaign has been closed meanwhile.
    runs = campaign.state.in_([state.value for state in SHOWS_SNAPSHOTS])
    empty = select(campaign.no, literal(0), literal(NO_COUNTS), literal(0), literal(NO_COUNTS))
    inserting = (postgresql if db.dialect.name == "postgresql" else sqlite).insert(table)
    columns = ["campaign", "shown_heard", "shown", "coming_heard", "coming"]
    begun = inserting.from_select(columns, empty.where(campaign.no == number, runs)).on_conflict_do_nothing()
    await db.execute(begun)
    turned = {"shown_heard": table.c.coming_heard, "shown": table.c.coming}
    this = (table.c.campaign == number, table.c.coming_heard + step <= heard)
    await db.execute(update(table).where(*this).values(coming_heard=heard, coming=counts, **turned))
    kept = await db.execute(select(table.c.coming_heard).where(table.c.campaign == number))
    return int(kept.scalar() or 0)


async def shown_snapshot(db: Transaction, number: int) -> tuple[int, bytes]:
    """Reports and packed counts of the snapshot that is shown; no reports where there is none."""
    table = schema.snapshot.c
    row = (await db.execute(select(table.shown_heard, table.shown).where(table.campaign == number))).first()
    return (0, NO_COUNTS) if row is None else (row.shown_heard, bytes(row.shown))


async def heard_in_snapshots(db: Transaction) -> list[tuple[str, int, int]]:
    """Id and number of every campaign that has a snapshot, and the reports in the one that is shown."""
    campaign, snapshot = schema.campaign.c, schema.snapshot.c
    wanted = select(campaign.id, campaign.no, snapshot.shown_heard).where(campaign.no == snapshot.campaign)
    return [(row.id, row.no, row.shown_heard) for row in await db.execute(wanted)]


async def insert_operator(db: Transaction, name: str, hashed: bytes, role: str) -> bool:
    """False if there is an operator with this name."""
    values = {"name": name, "token": hashed, "role": role, "created": int(time.time())}
    try:
        await db.execute(insert(schema.operator).values(**values))
    except IntegrityError:
        return False
    return True


async def delete_operator(db: Transaction, name: str) -> bool:
    """False if there was none."""
    return bool((await db.execute(delete(schema.operator).where(schema.operator.c.name == name))).rowcount)


async def all_operators(db: Transaction) -> list[dict[str, Any]]:
    table = schema.operator.c
    rows = await db.execute(select(table.name, table.role, table.created).order_by(table.name))
    return [dict(row._mapping) for row in rows]


async def operator_with(db: Transaction, hashed: bytes) -> tuple[str, str] | None:
    """Name and role of the operator whose token has this hash."""
    table = schema.operator.c
    row = (await db.execute(select(table.name, table.role).where(table.token == hashed))).first()
    return None if row is None else (row.name, row.role)


async def note(db: Transaction, operator: str, act: str, campaign: str | None, detail: str = "") -> None:
    """Write an act down, in the transaction that does it."""
    values = {"operator": operator, "act": act, "campaign": campaign, "detail": detail}
    await db.execute(insert(schema.audit).values(at=int(time.time()), **values))


async def last_acts(db: Transaction, last: int) -> list[dict[str, Any]]:
    """Newest first."""
    rows = await db.execute(select(schema.audit).order_by(schema.audit.c.no.desc()).limit(last))
    return [dict(row._mapping) for row in rows]

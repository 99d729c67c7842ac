"""The tables. What links a person to a bit is in none of them, nor in two of them together.

    campaign   one row a campaign: signed manifest and state
    token      tokens issued or claimed, by their id at rest (see server.token_ids); claim: 0 for good, else the
               minute until which a place of the open link is kept without a query, -1 when that has passed
    pin        the query a token was given, encrypted; gone as soon as its report is counted
    flight     tokens that were given a query within the last seconds, for the limit on queries in flight; gone with
               the report, or soon
    spent      tokens whose report is counted; the primary key is what makes counting exact
    tail       fresh reports: (query, bit), permuted within each group commit
    log        sealed reports: the tail is moved here in one permutation of many groups
    count      answered and ones per query, over the log; tail is added when read
    snapshot   what is shown of a campaign that runs (see campaign.snapshots)
    published  the queries to hand out next, and how many reports they follow from
    link       the open link of a campaign: hash of its secret, places, places taken
    shuffled_round  of a campaign in the shuffle model: announcement, how it ended, what its batch counted
    batch_part      sealed reports of a batch whose other parts are still to come
    operator   operators' tokens, hashed
    audit      what operators did

No column holds an address, a user agent or the time of a report. `pin.lease` is a minute, and leaves with the pin;
`token.claim` is one, and leaves when the token gets its query. `flight.age` is 1 or 2, and no time.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
)

metadata = MetaData()

# SQLite gives its own row number to a column of exactly this type; PostgreSQL a 64-bit sequence.
_Serial = BigInteger().with_variant(Integer, "sqlite")


def _campaign_no(primary: bool = False) -> Column[int]:
    return Column("campaign", Integer, ForeignKey("campaign.no"), nullable=False, primary_key=primary)


def _needed(primary: bool = False, **kinds: Any) -> list[Column[Any]]:
    """Columns that always have a value, by name."""
    return [Column(name, kind, primary_key=primary, nullable=False) for name, kind in kinds.items()]


campaign = Table(
    "campaign",
    metadata,
    Column("no", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    *_needed(envelope=LargeBinary, state=Text, created=Integer),
    Column("pace", Float, nullable=False, server_default="0"),
    Column("keep_days", Integer),
    Column("closed", Integer),
)


def _of_campaign(name: str, *columns: Column[Any], **options: Any) -> Table:
    return Table(name, metadata, _campaign_no(primary=True), *columns, **options)


def _token_ids(name: str, *more: Column[Any]) -> Table:
    return _of_campaign(name, Column("id", LargeBinary, primary_key=True), *more, sqlite_with_rowid=False)


token = _token_ids("token", Column("claim", Integer, nullable=False, server_default="0"))
claimed = token.c.claim > 0
Index("token_claim", token.c.campaign, token.c.claim, sqlite_where=claimed, postgresql_where=claimed)
flight = _token_ids("flight", *_needed(age=SmallInteger))
spent = _token_ids("spent")
pin = _token_ids("pin", *_needed(box=LargeBinary, lease=Integer))

_QUERY: dict[str, Any] = {"phase": Integer, "arm": Integer, "coin": BigInteger, "threshold": BigInteger}


def _reports(name: str) -> Table:
    number = Column("no", _Serial, primary_key=True, autoincrement=True)
    return Table(name, metadata, number, _campaign_no(), *_needed(**_QUERY, bit=SmallInteger))


tail = _reports("tail")
log = _reports("log")

count = _of_campaign(
    "count",
    *_needed(primary=True, **_QUERY),
    *_needed(answered=BigInteger, ones=BigInteger),
    sqlite_with_rowid=False,
)

snapshot = _of_campaign(
    "snapshot",
    *_needed(shown_heard=BigInteger, shown=LargeBinary),
    *_needed(coming_heard=BigInteger, coming=LargeBinary),
)

published = _of_campaign(
    "published",
    Column("place", Integer, primary_key=True),
    *_needed(**_QUERY, users=Integer),
    Column("heard", BigInteger, nullable=False, server_default="0"),
)

link = _of_campaign("link", *_needed(secret=LargeBinary, places=BigInteger, taken=BigInteger))

shuffled_round = _of_campaign(
    "shuffled_round",
    Column("round", Integer, primary_key=True),
    *_needed(threshold=BigInteger, envelope=LargeBinary, state=Text, noted=SmallInteger, extended=SmallInteger),
    Column("batch", Text),
    *_needed(reports=BigInteger, answered=BigInteger, ones=BigInteger),
)

batch_part = _of_campaign(
    "batch_part",
    Column("round", Integer, primary_key=True),
    Column("part", Integer, primary_key=True),
    *_needed(batch=Text, sealed=LargeBinary),
)

operator = Table(
    "operator",
    metadata,
    Column("name", Text, primary_key=True),
    Column("token", LargeBinary, nullable=False, unique=True),
    *_needed(role=Text, created=Integer),
)

audit = Table(
    "audit",
    metadata,
    Column("no", _Serial, primary_key=True, autoincrement=True),
    *_needed(at=Integer, operator=Text, act=Text),
    Column("campaign", Text),
    *_needed(detail=Text),
)

OF_CAMPAIGNS = tuple(table for table in metadata.sorted_tables if table.foreign_keys)
"""Those whose rows belong to a campaign."""

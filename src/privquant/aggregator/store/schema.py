"""The tables. What links a person to a bit is in none of them, nor in two of them together.

    campaign   one row a campaign: signed manifest and state
    token      tokens issued or claimed, by their id at rest (see aggregator.tickets); claim: 0 for good, else the
               minute until which a place of the open link is kept without a query, -1 when that has passed
    pin        the query a token was given, encrypted; gone as soon as its report is counted
    flight     tokens that were given a query within the last seconds, for the pace; gone with the report, or soon
    spent      tokens whose report is counted; the primary key is what makes counting exact
    tail       fresh reports: (query, bit), permuted within each group commit
    log        sealed reports: the tail is moved here in one permutation of many groups
    count      answered and ones per query, over the log; tail is added when read
    snapshot   what is shown of a campaign that runs (see aggregator.snapshots)
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


campaign = Table(
    "campaign",
    metadata,
    Column("no", Integer, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("envelope", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("created", Integer, nullable=False),
    Column("pace", Float, nullable=False, server_default="0"),
    Column("keep_days", Integer),
    Column("closed", Integer),
)


def _token_ids(name: str, *more: Column[Any]) -> Table:
    identity = Column("id", LargeBinary, primary_key=True)
    return Table(name, metadata, _campaign_no(primary=True), identity, *more, sqlite_with_rowid=False)


token = _token_ids("token", Column("claim", Integer, nullable=False, server_default="0"))
claimed = token.c.claim > 0
Index("token_claim", token.c.campaign, token.c.claim, sqlite_where=claimed, postgresql_where=claimed)
flight = _token_ids("flight", Column("age", SmallInteger, nullable=False))
spent = _token_ids("spent")
pin = _token_ids("pin", Column("box", LargeBinary, nullable=False), Column("lease", Integer, nullable=False))


def _query_columns(primary: bool = False) -> list[Column[int]]:
    kinds = {"phase": Integer, "arm": Integer, "coin": BigInteger, "threshold": BigInteger}
    return [Column(name, kind, primary_key=primary, nullable=False) for name, kind in kinds.items()]


def _reports(name: str) -> Table:
    number = Column("no", _Serial, primary_key=True, autoincrement=True)
    bit = Column("bit", SmallInteger, nullable=False)
    return Table(name, metadata, number, _campaign_no(), *_query_columns(), bit)


tail = _reports("tail")
log = _reports("log")


def _of_campaign(name: str, *columns: Column[Any], **options: Any) -> Table:
    return Table(name, metadata, _campaign_no(primary=True), *columns, **options)


count = _of_campaign(
    "count",
    *_query_columns(primary=True),
    Column("answered", BigInteger, nullable=False),
    Column("ones", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

snapshot = _of_campaign(
    "snapshot",
    Column("shown_heard", BigInteger, nullable=False),
    Column("shown", LargeBinary, nullable=False),
    Column("coming_heard", BigInteger, nullable=False),
    Column("coming", LargeBinary, nullable=False),
)

published = _of_campaign(
    "published",
    Column("place", Integer, primary_key=True),
    *_query_columns(),
    Column("users", Integer, nullable=False),
    Column("heard", BigInteger, nullable=False, server_default="0"),
)

link = _of_campaign(
    "link",
    Column("secret", LargeBinary, nullable=False),
    Column("places", BigInteger, nullable=False),
    Column("taken", BigInteger, nullable=False),
)

shuffled_round = _of_campaign(
    "shuffled_round",
    Column("round", Integer, primary_key=True),
    Column("threshold", BigInteger, nullable=False),
    Column("envelope", LargeBinary, nullable=False),
    Column("state", Text, nullable=False),
    Column("noted", SmallInteger, nullable=False),
    Column("extended", SmallInteger, nullable=False),
    Column("batch", Text),
    Column("reports", BigInteger, nullable=False),
    Column("answered", BigInteger, nullable=False),
    Column("ones", BigInteger, nullable=False),
)

batch_part = _of_campaign(
    "batch_part",
    Column("round", Integer, primary_key=True),
    Column("part", Integer, primary_key=True),
    Column("batch", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
)

operator = Table(
    "operator",
    metadata,
    Column("name", Text, primary_key=True),
    Column("token", LargeBinary, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("created", Integer, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("no", _Serial, primary_key=True, autoincrement=True),
    Column("at", Integer, nullable=False),
    Column("operator", Text, nullable=False),
    Column("act", Text, nullable=False),
    Column("campaign", Text),
    Column("detail", Text, nullable=False),
)

OF_CAMPAIGNS = tuple(table for table in metadata.sorted_tables if table.foreign_keys)
"""Those whose rows belong to a campaign."""

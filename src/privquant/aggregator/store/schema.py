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

from typing import Any

import sqlalchemy as sa

from privquant.aggregator.store.migrations import Serial, campaign_no, needed

metadata = sa.MetaData()

campaign = sa.Table(
    "campaign",
    metadata,
    sa.Column("no", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    *needed(envelope=sa.LargeBinary, state=sa.Text, created=sa.Integer),
    sa.Column("pace", sa.Float, nullable=False, server_default="0"),
    sa.Column("keep_days", sa.Integer),
    sa.Column("closed", sa.Integer),
)


def _of_campaign(name: str, *columns: sa.Column[Any], **options: Any) -> sa.Table:
    return sa.Table(name, metadata, campaign_no(), *columns, **options)


def _token_ids(name: str, *more: sa.Column[Any]) -> sa.Table:
    return _of_campaign(name, sa.Column("id", sa.LargeBinary, primary_key=True), *more, sqlite_with_rowid=False)


token = _token_ids("token", sa.Column("claim", sa.Integer, nullable=False, server_default="0"))
claimed = token.c.claim > 0
sa.Index("token_claim", token.c.campaign, token.c.claim, sqlite_where=claimed, postgresql_where=claimed)
flight = _token_ids("flight", *needed(age=sa.SmallInteger))
spent = _token_ids("spent")
pin = _token_ids("pin", *needed(box=sa.LargeBinary, lease=sa.Integer))

_QUERY: dict[str, Any] = {"phase": sa.Integer, "arm": sa.Integer, "coin": sa.BigInteger, "threshold": sa.BigInteger}


def _reports(name: str) -> sa.Table:
    number = sa.Column("no", Serial, primary_key=True, autoincrement=True)
    return sa.Table(name, metadata, number, campaign_no(primary=False), *needed(**_QUERY, bit=sa.SmallInteger))


tail = _reports("tail")
log = _reports("log")

count = _of_campaign(
    "count",
    *needed(primary=True, **_QUERY),
    *needed(answered=sa.BigInteger, ones=sa.BigInteger),
    sqlite_with_rowid=False,
)

snapshot = _of_campaign(
    "snapshot",
    *needed(shown_heard=sa.BigInteger, shown=sa.LargeBinary),
    *needed(coming_heard=sa.BigInteger, coming=sa.LargeBinary),
)

published = _of_campaign(
    "published",
    sa.Column("place", sa.Integer, primary_key=True),
    *needed(**_QUERY, users=sa.Integer),
    sa.Column("heard", sa.BigInteger, nullable=False, server_default="0"),
)

link = _of_campaign("link", *needed(secret=sa.LargeBinary, places=sa.BigInteger, taken=sa.BigInteger))

shuffled_round = _of_campaign(
    "shuffled_round",
    sa.Column("round", sa.Integer, primary_key=True),
    *needed(threshold=sa.BigInteger, envelope=sa.LargeBinary, state=sa.Text),
    *needed(noted=sa.SmallInteger, extended=sa.SmallInteger),
    sa.Column("batch", sa.Text),
    *needed(reports=sa.BigInteger, answered=sa.BigInteger, ones=sa.BigInteger),
)

batch_part = _of_campaign(
    "batch_part",
    sa.Column("round", sa.Integer, primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True),
    *needed(batch=sa.Text, sealed=sa.LargeBinary),
)

operator = sa.Table(
    "operator",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("token", sa.LargeBinary, nullable=False, unique=True),
    *needed(role=sa.Text, created=sa.Integer),
)

audit = sa.Table(
    "audit",
    metadata,
    sa.Column("no", Serial, primary_key=True, autoincrement=True),
    *needed(at=sa.Integer, operator=sa.Text, act=sa.Text),
    sa.Column("campaign", sa.Text),
    *needed(detail=sa.Text),
)

OF_CAMPAIGNS = tuple(table for table in metadata.sorted_tables if table.foreign_keys)
"""Those whose rows belong to a campaign."""

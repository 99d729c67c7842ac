"""The contract of a store, whatever database it stands on.

`commit(asks)` is the heart: all asks of a group in ONE transaction, durable when it returns, so that an answer
sent afterwards is never taken back. For every ask there is one outcome:

    Pin     give this token this query, unless it has one.
            -> PINNED, or HAS with the box it was given first, or SPENT, UNKNOWN, or NONE (none offered, none there)
    Spend   count this report. The token's id is inserted ON CONFLICT DO NOTHING; only if it was new is the
            report's (query, bit) written; the token's pin is erased in the same transaction.
            -> COUNTED, or SPENT (counted before), or CLOSED
    Admit   take a place of the open link for this token.
            -> COUNTED, or HAS (it has one), or FULL, CLOSED

`commit` raises Unavailable when the database does not answer or the transaction had to be given up. The outcome is
then unknown to the caller, and asking again is always right: every ask is idempotent.

How reports are kept from being linked to tokens: within a group rows are written in permuted order, but a group
may be a single report, and a database remembers which rows came in one transaction (a write-ahead log, a row's
transaction number). So fresh reports lie in the tail, and `seal()` moves the tail to the log in one
permutation of at least `seal_rows` reports (or when a campaign closes), adds to the counts, and erases the tail and
what the database remembers of it. Counts, wherever they are read, are count + tail in one snapshot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from privquant.aggregator.causes import Unavailable as Unavailable
from privquant.aggregator.store import statements as sql
from privquant.messages import Query


class What(Enum):
    PINNED = auto()
    HAS = auto()
    SPENT = auto()
    UNKNOWN = auto()
    NONE = auto()
    COUNTED = auto()
    CLOSED = auto()
    FULL = auto()


@dataclass(slots=True)
class Pin:
    """box None: only look whether the token has a query. lease: the minute until which it is in flight."""

    campaign: int
    id: bytes
    box: bytes | None
    lease: int


@dataclass(slots=True)
class Spend:
    campaign: int
    id: bytes
    query: Query
    bit: int


@dataclass(slots=True)
class Admit:
    campaign: int
    id: bytes


Ask = Pin | Spend | Admit


@dataclass(slots=True)
class AskResult:
    what: What
    box: bytes | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Answered and ones for one query."""

    query: Query
    answered: int
    ones: int


def counts_of(rows: Iterable[Sequence[int]]) -> list[Counts]:
    """What the statement COUNTS gives, row by row."""
    return [Counts(Query(c, coin, phase, arm), n, s) for phase, arm, coin, c, n, s in rows]


def published_rows(campaign: int, queries: list[tuple[Query, int]]) -> list[tuple[int, ...]]:
    """What the statement PUBLISH takes."""
    return [
        (campaign, place, q.threshold, q.coin, q.phase, q.arm, users) for place, (q, users) in enumerate(queries)
    ]


@dataclass(frozen=True, slots=True)
class CampaignRow:
    no: int
    id: str
    state: str
    envelope: bytes
    heard: int


@dataclass(frozen=True, slots=True)
class Erasure:
    """Whether deleted rows are gone from the files of the store, and what of them may lie elsewhere, in words."""

    whole: bool
    left: str


class DeviceStore(ABC):
    """The part of a store the device routes run on."""

    @abstractmethod
    async def commit(self, asks: list[Ask]) -> list[AskResult]:
        """One transaction for all; see the module's promise."""

    @abstractmethod
    async def seal(self, least: int) -> int:
        """Move the tail to the log if it has at least `least` rows, or rows of a closed campaign.

        How many were moved; 0 also if somebody is reading and the next turn will do it.
        """

    @abstractmethod
    async def sweep(self) -> None:
        """Erase what the database itself remembers of past transactions, as far as it can be told to."""

    @abstractmethod
    async def erase(self, patience: float) -> Erasure:
        """Take what was deleted out of the store's own files, waiting at most `patience` seconds for who uses them.

        Does not raise Unavailable: the deletion itself is done, and what is not erased is said in the answer.
        """

    @abstractmethod
    async def probe(self, *, thorough: bool = False) -> None:
        """Write something that means nothing; Unavailable if that cannot be done durably.

        thorough: also look for what a small write does not meet (damaged pages, a disk that takes no new ones).
        """

    @abstractmethod
    async def _read(self, statement: str, *values: object) -> list[Any]:
        """The rows of one of `statements`, as of one moment."""

    async def campaigns(self, identity: str | None = None, *, live: bool = False) -> list[CampaignRow]:
        """All campaigns, or the one with this id, or those not closed; with how many reports each counted."""
        return [CampaignRow(*row) for row in await self._read(sql.CAMPAIGNS, identity, live)]

    async def counts(self, campaign: int) -> list[Counts]:
        """Counts per query as of one moment: sealed and fresh reports together."""
        return counts_of(await self._read(sql.COUNTS, campaign))

    @abstractmethod
    async def taken(self, campaign: int, minute: int) -> int:
        """Places taken, as of one moment: reports, and tokens with a query whose lease lasts until `minute`."""

    async def link_secret(self, campaign: int) -> bytes | None:
        """The hash of the secret of the campaign's open link, if it has one."""
        rows = await self._read(sql.LINK_SECRET, campaign)
        return bytes(rows[0][0]) if rows else None

    @abstractmethod
    async def publish(self, campaign: int, queries: list[tuple[Query, int]]) -> None:
        """Hand out these queries next, each in proportion to its number of users."""

    async def published(self, campaign: int) -> list[tuple[Query, int]]:
        """What was published last."""
        rows = await self._read(sql.PUBLISHED, campaign)
        return [(Query(c, coin, phase, arm), users) for c, coin, phase, arm, users in rows]

    @abstractmethod
    async def try_lead(self) -> bool:
        """Become (or stay) the one process that publishes, if no other is."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of all connections."""

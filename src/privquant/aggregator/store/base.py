"""The contract of a store, whatever database it stands on.

`commit(asks)` is the heart: all asks of a group run in ONE transaction, which is durable when it returns, so an
answer sent afterwards is never taken back. Every ask has one outcome:

    Pin     give this token this query, unless it has one.
            -> PINNED, or HAS with the box it was given first, or SPENT, UNKNOWN, EXPIRED (its claim), or NONE (it
            has no query and none was offered), or WAIT (it has no query and its limit leaves no slot)
    Spend   count this report. The token's id is inserted ON CONFLICT DO NOTHING; only if it was new is the
            report's (query, bit) written; the token's pin is erased in the same transaction.
            -> COUNTED, or SPENT (counted before), or CLOSED
    Admit   take a place of the open link for this token.
            -> COUNTED, or HAS (it has one), or FULL, CLOSED, or WAIT (its limit leaves no slot, or the last places
            belong to claims that may yet expire)

`commit` raises Unavailable when the database does not answer or the transaction had to be given up. The outcome is
then unknown to the caller, and asking again is always right: every ask is idempotent.

How reports are kept from being linked to tokens: within a group, rows are written in permuted order. But a group
may be a single report, and a database remembers which rows came in one transaction (a write-ahead log, a row's
transaction number). So fresh reports lie in the tail, and `seal()` moves the tail to the log in one permutation of
at least `seal_rows` reports (or when a campaign closes), adds to the counts, and erases the tail and what the
database remembers of it. Counts, wherever they are read, are count + tail in one snapshot.

How the limit on queries in flight holds: a token that was given a query (or a place of the link) on an ask with an
`InFlightLimit` is in flight, as a row of its own, until its report is counted or the second `tick` comes. Whether
there is a slot is decided inside the transaction, and for one campaign by one transaction at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from privquant.aggregator.devices.admission_rules import InFlightLimit
from privquant.aggregator.store import statements as sql
from privquant.messages import Query
from privquant.server.causes import Unavailable as Unavailable


class Outcome(Enum):
    PINNED = auto()
    HAS = auto()
    SPENT = auto()
    UNKNOWN = auto()
    NONE = auto()
    COUNTED = auto()
    CLOSED = auto()
    FULL = auto()
    WAIT = auto()
    EXPIRED = auto()


@dataclass(slots=True)
class Pin:
    """box None: only look whether the token has a query. lease: the minute until which it is in flight."""

    campaign: int
    id: bytes
    box: bytes | None
    lease: int
    limit: InFlightLimit | None = None

    def not_given(self, spent: bool, box: bytes | None, claim: int | None) -> AskResult:
        """The outcome if it gave nothing, by what the tables say of the token."""
        if spent:
            return AskResult(Outcome.SPENT)
        if box is not None:
            return AskResult(Outcome.HAS, box)
        if claim is None:
            return AskResult(Outcome.UNKNOWN)
        if claim < 0:
            return AskResult(Outcome.EXPIRED)
        return AskResult(Outcome.NONE if self.box is None else Outcome.WAIT)


@dataclass(slots=True)
class Spend:
    campaign: int
    id: bytes
    query: Query
    bit: int


@dataclass(slots=True)
class Admit:
    """term: the minute until which the place is kept for a token that asks for no query; 0 keeps it for good."""

    campaign: int
    id: bytes
    term: int = 0
    limit: InFlightLimit | None = None


Ask = Pin | Spend | Admit


@dataclass(slots=True)
class AskResult:
    outcome: Outcome
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


@dataclass(frozen=True, slots=True)
class Published:
    """Queries with their numbers of users, and how many reports they follow from."""

    queries: list[tuple[Query, int]]
    known: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """Reports counted, queries on their way, and how many reports the published queries follow from."""

    heard: int
    in_flight: int
    known: int


@dataclass(frozen=True, slots=True)
class CampaignRow:
    no: int
    id: str
    state: str
    envelope: bytes
    pace: float
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

        How many were moved; 0 also if somebody is reading, and the next call will do it.
        """

    @abstractmethod
    async def sweep(self) -> None:
        """Erase what the database itself remembers of past transactions, as far as it can be told to."""

    @abstractmethod
    async def erase(self, patience: float) -> Erasure:
        """Take what was deleted out of the store's own files, waiting at most `patience` seconds for their users.

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

    def _limited(self, asks: list[Ask]) -> list[int]:
        """The campaigns whose slots these asks need, in one order."""
        return sorted({ask.campaign for ask in asks if not isinstance(ask, Spend) and ask.limit is not None})

    async def campaigns(self, identity: str | None = None, *, live: bool = False) -> list[CampaignRow]:
        """All campaigns, or the one with this id, or those not closed; with how many reports each counted."""
        return [CampaignRow(*row) for row in await self._read(sql.CAMPAIGNS, identity, live)]

    async def counts(self, campaign: int) -> list[Counts]:
        """Counts per query as of one moment: sealed and fresh reports together."""
        return counts_of(await self._read(sql.COUNTS, campaign))

    async def taken(self, campaign: int, minute: int) -> int:
        """Places taken, as of one moment: reports, and tokens with a query whose lease lasts until `minute`."""
        return int((await self._read(sql.TAKEN, campaign, minute))[0][0])

    async def link_secret(self, campaign: int) -> bytes | None:
        """The hash of the secret of the campaign's open link, if it has one."""
        rows = await self._read(sql.LINK_SECRET, campaign)
        return bytes(rows[0][0]) if rows else None

    @abstractmethod
    async def publish(self, campaign: int, queries: list[tuple[Query, int]], known: int) -> None:
        """Hand out these queries, which follow from `known` reports, each in proportion to its number of users."""

    async def published(self, campaign: int) -> Published:
        """What was published last."""
        rows = await self._read(sql.PUBLISHED, campaign)
        queries = [(Query(c, coin, phase, arm), users) for c, coin, phase, arm, users, _ in rows]
        return Published(queries, rows[0][5] if rows else 0)

    async def traffic(self, campaign: int) -> Traffic:
        """As of one moment."""
        return Traffic(*(await self._read(sql.TRAFFIC, campaign))[0])

    @abstractmethod
    async def tick(self, minute: int) -> None:
        """Age what is in flight, and let go of claims whose term is before `minute`; the leader calls it."""

    @abstractmethod
    async def try_lead(self) -> bool:
        """Become (or stay) the one process that publishes, if no other is."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of all connections."""

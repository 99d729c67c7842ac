"""Users in partitions: what the holder of some rows does, and how a driver asks all of them as one population.

Each row of a partition is a user. Whoever holds the partition throws the coins beside the data; only randomized
counts leave it. A `Partition` keeps four promises, whatever is repeated, killed or restarted:

- no user is asked twice, ever: a second campaign gets those that are left;
- a round's questions are written down before they are answered; asked again, the same round gets the very same
  answer, and other questions under its number are refused;
- users are taken in an order that does not depend on their values;
- what leaves depends on a user's value only through that user's coin.

`PartitionedPopulation` divides a round over the partitions as if its users had been drawn at random from all of
them. Protocols that ask in batches run on it through ask and tell; the division is a function of campaign and round
alone, so a driver that was killed and starts again with the same campaign is given the same answers again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privquant.device import spending
from privquant.device.answer_states import Event
from privquant.device.client import respond
from privquant.device.ledger import Ledger
from privquant.device.ledger_format import Answer
from privquant.device.limits import check_budget, check_coin
from privquant.device.policy import Policy
from privquant.device.refusals import PolicyRefused
from privquant.domain import Domain
from privquant.errors import InvalidInput, PrivquantError
from privquant.messages import AnyQuery, Query, TreeQuery
from privquant.privacy.coin import Coin
from privquant.protocols.base import Protocol as AnyProtocol
from privquant.protocols.base import ThresholdProtocol
from privquant.protocols.tree.hierarchical import Hierarchical

Asked: TypeAlias = tuple[tuple[AnyQuery, int], ...]
"""A round: pairs (question, how many users it is for)."""

# Above this many users numpy's multivariate hypergeometric refuses.
_MOST_EXACT = 10**9


class PartitionRefused(PrivquantError):
    """A partition will not answer this: other questions for a round it knows, a coin its owner does not allow."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Answers to a threshold question: how many users were asked, answered, and answered with a one."""

    query: Query
    asked: int
    answered: int
    ones: int

    def tell(self, protocol: AnyProtocol) -> None:
        """Tell the protocol, and give up those who did not answer."""
        assert isinstance(protocol, ThresholdProtocol)
        protocol.tell_counts(self.query, self.answered, self.ones)
        protocol.give_up(repeat(self.query, self.asked - self.answered))

    def plus(self, other: Answered) -> Answered:
        return Answered(
            self.query, self.asked + other.asked, self.answered + other.answered, self.ones + other.ones
        )


@dataclass(frozen=True, slots=True)
class Signs:
    """Answers to a tree question through the Hadamard encoding.

    asked:       how many users were asked.
    level_users: how many answered at each level.
    rows, sums:  for each level the rows that were drawn, and the sum of signs at each.
    """

    query: TreeQuery
    asked: int
    level_users: tuple[int, ...]
    rows: tuple[NDArray[np.int64], ...]
    sums: tuple[NDArray[np.int64], ...]

    def tell(self, protocol: AnyProtocol) -> None:
        assert isinstance(protocol, Hierarchical)
        protocol.tell_signs(self.query, self.level_users, self.rows, self.sums)
        protocol.give_up(repeat(self.query, self.asked - sum(self.level_users)))

    @classmethod
    def none(cls, query: TreeQuery, asked: int) -> Signs:
        """Of users who did not answer."""
        nothing = tuple(np.empty(0, np.int64) for _ in range(query.height))
        return cls(query, asked, (0,) * query.height, nothing, nothing)

    def plus(self, other: Signs) -> Signs:
        levels = zip(self.rows, other.rows, self.sums, other.sums, strict=True)
        both = [summed(np.concatenate((mine, theirs)), np.concatenate((a, b))) for mine, theirs, a, b in levels]
        users = tuple(a + b for a, b in zip(self.level_users, other.level_users, strict=True))
        rows, sums = zip(*both, strict=True)
        return Signs(self.query, self.asked + other.asked, users, rows, sums)


Reply: TypeAlias = Answered | Signs


class Partition(Protocol):
    """What another engine implements for its own kind of partition (a table's shard, a file, a node)."""

    def open(self, campaign: str) -> int:
        """How many users it has for this campaign, whom nobody had asked: the same number when asked again."""

    def answer(self, campaign: str, number: int, asked: Asked) -> list[Reply]:
        """Randomized counts of one round, a reply a question; fewer users than asked where no more are left."""

    def kept(self) -> list[dict[str, Any]]:
        """What it wrote down, round by round: who was asked what, without the answers."""


class OneUser:
    """A partition of one: a person's device whose questions come by another carrier than HTTP.

    Policy and ledger are the device's own, in the same file: the bit is drawn once, is on disk before it leaves,
    counts towards the same sums, and a question for a campaign that was answered gets the same bit or none.

    value:       clamped to the domain of the policy's rule.
    measurement: what the value is, by the policy's name for it.
    """

    def __init__(self, value: float, policy: Policy, measurement: str) -> None:
        rule = policy.measurements.get(measurement)
        if rule is None:
            raise InvalidInput(f"the policy has no measurement {measurement!r}, so nothing is said about it")
        self._rule = rule
        self._name = measurement
        self._index = rule.domain.index(value)
        self._ledger = Ledger(policy.ledger)

    def open(self, campaign: str) -> int:
        """1 if this person will answer the campaign or has answered it, else 0."""
        so_far = self._ledger.answers(self._name)
        if any(answer.campaign == campaign for answer in so_far):
            return 1
        try:
            most = spending.Spent(self._rule.max_units, 0, self._rule.max_units)
            check_budget(self._rule, campaign, self._name, most, so_far)
        except PolicyRefused:
            return 0
        return 1

    def answer(self, campaign: str, number: int, asked: Asked) -> list[Reply]:
        [(query, count)] = asked if len(asked) == 1 else [(None, 0)]
        if not isinstance(query, Query) or count != 1:
            raise PartitionRefused("one person is asked one threshold question at most")
        check_coin(self._rule, query.coin)
        check_threshold(query, self._rule.domain)

        def throw(so_far: Sequence[Answer]) -> Answer:
            check_budget(self._rule, campaign, self._name, spending.local(query.coin), so_far)
            bit = respond(Coin(query.coin), self._index, query.threshold)
            return Answer(self._name, campaign, query.coin, query.threshold, bit, "", str(number))

        drawn = self._ledger.prepare(self._name, campaign, throw)
        if (drawn.threshold, drawn.coin, drawn.ticket) != (query.threshold, query.coin, str(number)):
            raise PartitionRefused(
                f"campaign {campaign!r} was answered here before, to another question; nothing more is said"
            )
        self._ledger.advance(drawn, Event.SEND)  # synced: from here on this bit may have left
        return [Answered(query, 1, 1, drawn.bit)]

    def kept(self) -> list[dict[str, Any]]:
        return [
            {"campaign": answer.campaign, "round": int(answer.ticket), "threshold": answer.threshold}
            for answer in self._ledger.answers(self._name)
            if answer.ticket.isdecimal()
        ]


class PartitionedPopulation:
    """Many partitions as one population. Engines say how they are called: one after the other here.

    campaign: names this run in the partitions' books: the same name again gives the same answers again.
    """

    def __init__(self, partitions: Sequence[Partition], *, campaign: str) -> None:
        self._partitions = tuple(partitions)
        if not isinstance(campaign, str) or not 0 < len(campaign) <= 200 or not campaign.isprintable():
            raise InvalidInput(
                f"a campaign is named by a text of 1 to 200 printable characters, got {campaign!r:.80}"
            )
        self.campaign = campaign
        self._number = 0
        self._left = np.array(self._open_all(), np.int64)
        if not self._left.sum():
            raise InvalidInput(
                "there is nobody left to ask: every row of these partitions was asked before, and none is asked "
                "twice"
            )

    @property
    def users(self) -> int:
        """Users whom nobody has asked yet."""
        return int(self._left.sum())

    def check(self, protocol: AnyProtocol) -> None:
        """Refuse a protocol that cannot be asked in rounds, or has more users than there are."""
        if isinstance(protocol, Hierarchical):
            if protocol.encoding != "hadamard":
                raise InvalidInput(
                    f"a report of the encoding {protocol.encoding!r} is as long as the tree is wide, for every "
                    "row; in partitions use encoding='hadamard', one index and one bit a row"
                )
        elif not (isinstance(protocol, ThresholdProtocol) and protocol.takes_counts):
            raise InvalidInput(
                f"protocol {protocol.name!r} asks one user at a time, each question depending on the answer "
                "before: that is a round trip to a partition for every user. Use one that asks in batches: "
                "isotonic, naive or hierarchical (encoding='hadamard')"
            )
        if protocol.users - protocol.asked > self.users:
            raise InvalidInput(
                f"the protocol is to ask {protocol.users - protocol.asked:,} users, but the partitions have "
                f"{self.users:,} who were not asked before"
            )

    def answer_round(self, pairs: Sequence[tuple[AnyQuery, int]]) -> list[Reply]:
        """Ask one round: a reply for each pair. Users of a partition that is lost count as not answering."""
        self._number += 1
        shares = self._divided([count for _, count in pairs])
        asked = {
            k: [(place, int(share[k])) for place, share in enumerate(shares) if share[k]]
            for k in range(self._left.size)
        }
        questions = {k: tuple((pairs[i][0], n) for i, n in parts) for k, parts in asked.items() if parts}
        replies = self._answer_all(self._number, questions)
        whole = [_silence(query, 0) for query, _ in pairs]
        for k in questions:
            found = replies.get(k) or [_silence(query, count) for query, count in questions[k]]
            for (place, _), reply in zip(asked[k], found, strict=True):
                whole[place] = whole[place].plus(reply)  # type: ignore[arg-type]
        return whole

    def _divided(self, counts: Sequence[int]) -> list[NDArray[np.int64]]:
        """Each question's users by partition, as if drawn at random from all who are left; they are then asked."""
        shares = []
        for place, count in enumerate(counts):
            seed = hashlib.sha256(f"{self.campaign}\n{self._number}\n{place}".encode()).digest()
            share = _drawn(np.random.default_rng(list(seed)), self._left, count)
            self._left = self._left - share
            shares.append(share)
        return shares

    # -- what an engine does in its own way ----------------------------------------------------------------------

    def _open_all(self) -> list[int]:
        return [partition.open(self.campaign) for partition in self._partitions]

    def _answer_all(self, number: int, asked: Mapping[int, Asked]) -> dict[int, list[Reply] | None]:
        """Replies by partition; None for one that is lost."""
        return {k: self._partitions[k].answer(self.campaign, number, questions) for k, questions in asked.items()}


def summed(rows: NDArray[np.int64], signs: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each row once, and the sum of its signs."""
    found, place = np.unique(rows, return_inverse=True)
    total = np.zeros(found.size, np.int64)
    np.add.at(total, place, signs)
    return found, total


def check_threshold(query: Query, domain: Domain) -> None:
    if not 0 <= query.threshold <= domain.size - 2:
        raise PartitionRefused(
            f"a threshold lies in 0 .. {domain.size - 2} (domain indices), got {query.threshold!r}"
        )


def _drawn(rng: np.random.Generator, left: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """How many of `count` users drawn without replacement come from each partition."""
    total = int(left.sum())
    if count > total:
        raise InvalidInput(f"asked {count:,} users, but only {total:,} were not asked before")
    if total < _MOST_EXACT:
        return np.asarray(rng.multivariate_hypergeometric(left, count, method="marginals"), np.int64)
    # Beyond numpy's reach: with replacement, and what a partition lacks drawn again from the others.
    share = np.zeros_like(left)
    while missing := count - int(share.sum()):
        free = left - share
        share += np.minimum(rng.multinomial(missing, free / free.sum()), free)
    return share


def _silence(query: AnyQuery, asked: int) -> Reply:
    """The reply of users who are lost: asked, and nothing heard."""
    return Answered(query, asked, 0, 0) if isinstance(query, Query) else Signs.none(query, asked)

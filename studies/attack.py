"""Liars in a simulated run: how many, when they come, and what they say.

A liar is one of the run's users and is asked like any other; the data do not count its value. Liars who send a bit
throw no coin. Liars with a fake value answer as a device would that held it, coin and all, so that nothing in the
rates of ones gives them away. Withheld reports come after all others, to the questions they were handed out for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privquant.arrays import Flags
from privquant.errors import InvalidInput
from privquant.lab.populations import Users
from privquant.lab.sample import Sample
from privquant.messages import AnyQuery, AnyReport, Query, Report, TreeQuery
from privquant.privacy.coin import DRAW
from privquant.protocols.tree.encodings import encode
from privquant.validation import check_choice, check_probability

MOMENTS = ("first", "middle", "last", "thin", "spread")
# A thin window has one liar in four of its users, at the end of the run.
_ONE_IN = 4


@dataclass(frozen=True)
class Attack:
    """Who lies, when, and how.

    share:    of all users of the run.
    when:     the "first" of the run, those right after its "middle", the "last"; "thin": a quarter of the users at
              its end; "spread": drawn at random from all.
    bit:      what each of them reports, whatever it is asked; unless there is a fake value.
    rank:     each of them pretends to have the value of this rank in the data, answering by it through the coin.
    withheld: whether their reports come after all others.
    """

    share: float
    when: str = "last"
    bit: int = 0
    rank: float | None = None
    withheld: bool = False

    def __post_init__(self) -> None:
        check_choice(self.when, "when", MOMENTS)
        if not 0.0 <= self.share <= 1.0 / _ONE_IN:
            raise InvalidInput(f"share of liars lies from 0 to {1 / _ONE_IN}, got {self.share!r}")
        if self.bit not in (0, 1):
            raise InvalidInput(f"a liar's bit is 0 or 1, got {self.bit!r}")
        if self.rank is not None:
            check_probability(self.rank, "rank")

    def value(self, sample: Sample) -> int | None:
        """The index of the fake value among these data."""
        return None if self.rank is None else int(sample.quantile(self.rank))

    def liars(self, users: int, rng: np.random.Generator) -> Flags:
        """For each user in the order of asking, whether it is a liar."""
        found, count = np.zeros(users, np.bool_), round(self.share * users)
        if self.when == "first":
            found[:count] = True
        elif self.when == "middle":
            found[users // 2 : users // 2 + count] = True
        elif self.when == "last":
            found[users - count :] = True
        else:
            window = _ONE_IN * count if self.when == "thin" else users
            found[users - window + rng.permutation(window)[:count]] = True
        return found

    def among(self, sample: Sample, users: int, rng: np.random.Generator) -> UsersAndLiars:
        """A run's users, asked one by one: those of the sample, and the liars."""
        return UsersAndLiars(sample, self, users, rng)


class UsersAndLiars:
    """Users of a sample, some of whom lie: the plain way, one by one, for any protocol.

    `withheld` reports are not given back by `answer`; `late()` has them, for who drives the run.
    """

    def __init__(self, sample: Sample, attack: Attack, users: int, rng: np.random.Generator) -> None:
        self._honest = Users(sample, rng)
        self._attack = attack
        self._value = attack.value(sample)
        self._rng = rng
        self._liars = attack.liars(users, rng)
        self._asked = 0
        self._late: list[AnyReport] = []

    def answer(self, queries: Sequence[AnyQuery]) -> list[AnyReport]:
        lying = self._liars[self._asked : self._asked + len(queries)].tolist()
        self._asked += len(queries)
        honest = iter(self._honest.answer([q for q, lies in zip(queries, lying, strict=True) if not lies]))
        found = []
        for query, lies in zip(queries, lying, strict=True):
            if not lies:
                found.append(next(honest))
            elif self._attack.withheld:
                self._late.append(self._lie(query))
            else:
                found.append(self._lie(query))
        return found

    def late(self) -> list[AnyReport]:
        return self._late

    def _lie(self, query: AnyQuery) -> AnyReport:
        value = self._value
        if isinstance(query, TreeQuery):
            # A tree's report has no bit to send whatever is asked: the ends of the domain take its place.
            last = query.branching**query.height - 1
            return encode(query, (0 if self._attack.bit else last) if value is None else value, self._rng)
        assert isinstance(query, Query)
        if value is None:
            return Report(query, self._attack.bit)
        flipped = int(self._rng.integers(0, DRAW, dtype=np.uint64) < np.uint64(query.coin))
        return Report(query, int(value <= query.threshold) ^ flipped)

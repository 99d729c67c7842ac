"""Populations answer, protocols ask. Each is one object that turns queries into reports.

All draw from a numpy Generator handed in: this is the simulator. The device's coin takes no seed.
"""

from collections.abc import Callable, Sequence

import numpy as np

from privquant.arrays import Ints
from privquant.errors import InvalidInput, PrivquantError
from privquant.lab.sample import Sample
from privquant.lab.schedule import Schedule
from privquant.messages import AnyQuery, AnyReport, Query, Report, TreeQuery
from privquant.privacy.coin import DRAW, Coin
from privquant.protocols.base import Protocol
from privquant.protocols.tree.encodings import encode
from privquant.validation import check_choice


class OutOfUsers(PrivquantError):
    """More users were asked than the population has."""


class _OfSample:
    def __init__(self, sample: Sample, rng: np.random.Generator, *, draw: str = "empirical") -> None:
        """Users of a sample.

        Parameters
        ----------
        sample : Sample
            Their values.
        rng : numpy Generator
            Of their coins and of who is asked.
        draw : {"empirical", "statistical"}
            Each user at most once (the paper's empirical setting), or every answer from a user drawn anew (the
            statistical setting, users drawn from a distribution).
        """
        check_choice(draw, "draw", ("empirical", "statistical"))
        self._sample = sample
        self._rng = rng
        self._statistical = draw == "statistical"
        self._start()

    def _start(self) -> None:
        """Before anybody is asked."""


class Users(_OfSample):
    """A sample's users, asked one by one in random order."""

    def _start(self) -> None:
        self._order = None if self._statistical else self._rng.permutation(self._sample.indices)
        self._asked = 0

    def _take(self, count: int) -> Ints:
        if self._order is None:
            return self._sample.indices[self._rng.integers(0, self._sample.n, size=count)]
        if self._asked + count > self._order.size:
            raise OutOfUsers(f"asked {self._asked + count} users, but there are {self._order.size}")
        self._asked += count
        return np.asarray(self._order[self._asked - count : self._asked])

    def answer(self, queries: Sequence[AnyQuery]) -> list[AnyReport]:
        values = self._take(len(queries))
        if queries and isinstance(queries[0], TreeQuery):
            return [encode(q, int(v), self._rng) for q, v in zip(queries, values, strict=True)]  # type: ignore[arg-type]
        asked = [q for q in queries if isinstance(q, Query)]
        thresholds = np.fromiter((q.threshold for q in asked), np.int64, len(asked))
        coins = np.fromiter((q.coin for q in asked), np.uint64, len(asked))
        flipped = self._rng.integers(0, DRAW, size=len(asked), dtype=np.uint64) < coins
        bits = ((values <= thresholds) ^ flipped).astype(int).tolist()
        return [Report(q, bit) for q, bit in zip(asked, bits, strict=True)]

    def answer_counts(self, query: Query, count: int) -> int:
        values = self._take(count)
        flipped = self._rng.integers(0, DRAW, size=count, dtype=np.uint64) < np.uint64(query.coin)
        return int(((values <= query.threshold) ^ flipped).sum())


class CountUsers(_OfSample):
    """A sample's users, answering by exact counts: the cost does not depend on how many users a query is for.

    Users are kept as cells between the thresholds met so far, each with its total and how many of it were
    asked. Which users of a cell were asked is uniform, so splitting a cell splits its asked users
    hypergeometrically, and a batch of fresh users falls into the cells as a multivariate hypergeometric.
    """

    def _start(self) -> None:
        self._edges: list[int] = []  # thresholds met, rising; cell k lies between edges k-1 and k
        self._free = [self._sample.n]
        self._used = [0]

    def answer_counts(self, query: Query, count: int) -> int:
        rng = self._rng
        if self._statistical:
            true_ones = int(rng.binomial(count, float(self._sample.at_most(query.threshold)) / self._sample.n))
        else:
            true_ones = self._draw(query.threshold, count)
        flip = Coin(query.coin).flip
        return int(rng.binomial(true_ones, 1.0 - flip) + rng.binomial(count - true_ones, flip))

    def _draw(self, threshold: int, count: int) -> int:
        """How many of `count` fresh users are at or below the threshold; they count as asked from now on."""
        if count > sum(self._free):
            raise OutOfUsers(f"asked {count} users, but only {sum(self._free)} were not asked before")
        cell = self._split(threshold)
        drawn = self._rng.multivariate_hypergeometric(self._free, count, method="marginals")
        for k, taken in enumerate(drawn.tolist()):
            self._free[k] -= taken
            self._used[k] += taken
        return int(drawn[:cell].sum())

    def _split(self, threshold: int) -> int:
        """Make `threshold` an edge; the number of cells at or below it."""
        position = int(np.searchsorted(self._edges, threshold, side="left")) if self._edges else 0
        if position < len(self._edges) and self._edges[position] == threshold:
            return position + 1
        start = int(self._sample.at_most(self._edges[position - 1])) if position else 0
        left = int(self._sample.at_most(threshold)) - start
        free, used = self._free[position], self._used[position]
        right = free + used - left
        used_left = int(self._rng.hypergeometric(left, right, used)) if used else 0
        self._edges.insert(position, threshold)
        self._free[position : position + 1] = [left - used_left, right - (used - used_left)]
        self._used[position : position + 1] = [used_left, used - used_left]
        return position + 1


Adversary = Callable[[int, float, int], float]
"""(coin's index, its probability, flips so far) -> the probability the adversary uses instead."""


def population_of(
    protocol: Protocol, sample: Sample, rng: np.random.Generator, schedule: Schedule, *, draw: str = "empirical"
) -> Users | CountUsers:
    """The sample as a population that answers this protocol: by count where that is all that matters."""
    by_count = protocol.takes_counts and schedule.kind != "in-flight"
    return (CountUsers if by_count else Users)(sample, rng, draw=draw)


class Coins:
    """Noisy binary search without privacy: coin i lands heads with probability p_i, and there are as many
    throws as one likes. An adversary may move a coin's probability by at most `reach` at each throw
    (AdvMonotonicNBS of the paper); one that goes further is refused.
    """

    def __init__(
        self,
        probabilities: Callable[[int], float],
        rng: np.random.Generator,
        *,
        adversary: Adversary | None = None,
        reach: float = 0.0,
    ) -> None:
        """Coins to throw.

        Parameters
        ----------
        probabilities : callable
            The probability of heads of coin i.
        rng : numpy Generator
            Of the throws.
        adversary : callable, optional
            (coin's index, its probability, throws so far) -> the probability used instead.
        reach : float
            How far the adversary may move a probability.
        """
        self._probability = probabilities
        self._rng = rng
        self._adversary = adversary
        self._reach = reach
        self._thrown = 0

    def _heads(self, index: int) -> float:
        probability = self._probability(index)
        if self._adversary is not None:
            moved = self._adversary(index, probability, self._thrown)
            if abs(moved - probability) > self._reach + 1e-12:
                raise InvalidInput(
                    f"the adversary moved coin {index} from {probability:g} to {moved:g}, "
                    f"but may move it by at most {self._reach:g}"
                )
            probability = min(max(moved, 0.0), 1.0)
        self._thrown += 1
        return probability

    def answer(self, queries: Sequence[AnyQuery]) -> list[AnyReport]:
        asked = [q for q in queries if isinstance(q, Query)]
        return [Report(q, int(self._rng.random() < self._heads(q.threshold))) for q in asked]

    def answer_counts(self, query: Query, count: int) -> int:
        return sum(int(self._rng.random() < self._heads(query.threshold)) for _ in range(count))

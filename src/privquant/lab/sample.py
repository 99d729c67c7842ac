"""The users' values as the lab holds them: domain indices, and their histogram when counts are enough."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from privquant.arrays import Flags, Floats, Ints
from privquant.columns import to_indices
from privquant.domain import Domain, given_domain
from privquant.errors import InvalidInput
from privquant.validation import check_quantile


class Sample:
    """n users' domain indices. Sorted distinct values and cumulative counts are made on first use.

    Parameters
    ----------
    indices : array of int
        One a user; `Sample.of_values(column, domain)` makes them from values.
    size : int
        Of the domain.
    """

    def __init__(self, indices: Ints, size: int) -> None:
        self.indices = np.ascontiguousarray(indices, dtype=np.int64)
        self.size = size
        if self.indices.ndim != 1 or self.indices.size == 0:
            raise InvalidInput(f"a sample is one column of at least one index, got shape {self.indices.shape}")
        if int(self.indices.min()) < 0 or int(self.indices.max()) >= size:
            raise InvalidInput(f"a sample's indices must lie in 0 .. {size - 1}")

    @classmethod
    def of_values(cls, values: Any, domain: Domain) -> Sample:
        """The sample of a column of values (see `privquant.quantile`), one a user."""
        found = given_domain(domain)
        return cls(to_indices(values, found).indices, found.size)

    @classmethod
    def of_counts(cls, values: Ints, counts: Ints, size: int) -> Sample:
        """A sample given as distinct rising indices and how many users hold each; users are never listed
        unless a population asks them one by one."""
        distinct, held = np.asarray(values, np.int64), np.asarray(counts, np.int64)
        if distinct.shape != held.shape or (np.diff(distinct) <= 0).any() or (held <= 0).any():
            raise InvalidInput("a sample's counts need distinct rising indices, each held by at least one user")
        sample = cls(distinct, size)
        del sample.indices
        sample.__dict__["_histogram"] = (distinct, np.cumsum(held))
        return sample

    @cached_property
    def indices(self) -> Ints:
        """One a user; a sample given as counts lists them when they are asked for."""
        return np.repeat(self.values, np.diff(self._from_zero))

    @property
    def n(self) -> int:
        listed = self.__dict__.get("indices")
        return int(self.cumulative[-1]) if listed is None else int(listed.size)

    @cached_property
    def _histogram(self) -> tuple[Ints, Ints]:
        values, counts = np.unique(self.indices, return_counts=True)
        return values, np.cumsum(counts, dtype=np.int64)

    @property
    def values(self) -> Ints:
        """The distinct indices, rising."""
        return self._histogram[0]

    @property
    def cumulative(self) -> Ints:
        """How many users are at or below each of `values`."""
        return self._histogram[1]

    @cached_property
    def _from_zero(self) -> Ints:
        return np.concatenate(([0], self.cumulative))

    def at_most(self, threshold: Ints | int) -> Ints:
        """How many users have an index of at most `threshold` (an array or one number; -1 gives 0)."""
        found: Ints = self._from_zero[np.searchsorted(self.values, threshold, side="right")]
        return found

    def quantile(self, q: float) -> int:
        """The smallest index v with F(v) >= q."""
        rank = int(np.searchsorted(self.cumulative, q * self.n - 1e-9, side="left"))
        return int(self.values[min(rank, self.values.size - 1)])

    def rank_error(self, answers: Ints, q: float) -> Floats:
        """Distance of q to [F(v-1), F(v)], for each answer v."""
        return rank_distance(self.at_most(answers - 1), self.at_most(answers), self.n, q)

    def success(self, answers: Ints, q: float, alpha: float) -> Flags:
        """Whether each answer v is within alpha of q in rank."""
        return is_within(self.at_most(answers - 1), self.at_most(answers), self.n, q, alpha)


def rank_distance(below: Ints, upto: Ints, n: int, q: float) -> Floats:
    """The rank error of an answer with so many users below it and at or below it: from q to [below/n, upto/n]."""
    return np.asarray(np.maximum(0.0, np.maximum(below / n - q, q - upto / n)))


def is_within(below: Ints, upto: Ints, n: int, q: float, alpha: float) -> Flags:
    """The paper's success: F(v-1) < q + alpha and F(v) > q - alpha (its coin is m = v - 1)."""
    return np.asarray((below / n < q + alpha) & (upto / n > q - alpha))


def padded(sample: Sample, q: float) -> Sample:
    """The sample with n virtual users more: (1-q) n at the bottom and the rest at the top, q n rounded."""
    top = round(check_quantile(q) * sample.n)
    ends = np.repeat(np.array([0, sample.size - 1], np.int64), [sample.n - top, top])
    return Sample(np.concatenate((sample.indices, ends)), sample.size)


class Draw(NamedTuple):
    """The users of some trials, and the quantiles of the population they were drawn from, where there is one."""

    sample: Sample
    population: Callable[[float], int] | None = None

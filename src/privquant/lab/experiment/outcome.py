"""What came out of a cell's trials, and every measure of it.

Answers are kept as indices with how many users are below them and at or below them: all measures follow from these
counts exactly, whatever alpha they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np

from privquant.arrays import Flags, Floats, Ints
from privquant.lab.sample import Draw, is_within, rank_distance


class Rate(NamedTuple):
    """A share of trials, and its standard error by their number."""

    value: float
    error: float


@dataclass(frozen=True)
class Outcome:
    """One row a trial, one column a quantile.

    answers, below, upto:  the answer, users below it, users at or below it.
    truth, truth_upto:     the true quantile of the users, and how many are at or below it.
    population:            the quantile of the population they were drawn from; -1 where there is none.
    low, high:             ends of what was claimed beside the answer, -1 where there is no bound; no columns where
                           nothing was. low_below, high_upto: users below and at or below them.
    alarms:                whether an alarm about liars was raised, and whether a part of the run was left out of
                           the answer; no columns where nobody looked.
    seconds:               of processor, for all trials; not part of what is the same for the same seed.
    """

    n: int
    quantiles: tuple[float, ...]
    answers: Ints
    below: Ints
    upto: Ints
    truth: Ints
    truth_upto: Ints
    population: Ints
    low: Ints
    high: Ints
    low_below: Ints
    high_upto: Ints
    alarms: Ints = field(default_factory=lambda: np.empty((0, 0), np.int64))
    seconds: float = 0.0

    @property
    def trials(self) -> int:
        return int(self.answers.shape[0])

    def hits(self, alpha: float, which: int = 0) -> Flags:
        """Trials whose answer is within alpha of the quantile in rank."""
        return is_within(self.below[:, which], self.upto[:, which], self.n, self.quantiles[which], alpha)

    def success(self, alpha: float, which: int = 0) -> float:
        """Share of trials that hit."""
        return float(self.hits(alpha, which).mean())

    def success_rate(self, alpha: float, which: int = 0) -> Rate:
        """The same with the paper's error bar, the standard deviation over that many trials."""
        rate = self.success(alpha, which)
        return Rate(rate, math.sqrt(rate * (1.0 - rate) / self.trials))

    def rank_errors(self, which: int = 0) -> Floats:
        """Distance of q to [F(v-1), F(v)]."""
        return rank_distance(self.below[:, which], self.upto[:, which], self.n, self.quantiles[which])

    def abs_errors(self, which: int = 0) -> Floats:
        """The paper's error |F(m) - F(true m)| of the coin m = v - 1."""
        return np.asarray(np.abs(self.below[:, which] - self.truth_upto[:, which]) / self.n)

    def missed(self, which: int = 0) -> tuple[Flags, Flags]:
        """Trials whose claim lies wholly below the population's quantile, and wholly above it."""
        low, high, truth = self.low[:, which], self.high[:, which], self.population[:, which]
        return np.asarray((high >= 0) & (high < truth)), np.asarray((low >= 0) & (low > truth))

    def widths(self, which: int = 0) -> Floats:
        """F(high) - F(low - 1) of each claim; an open side reaches to the end of the data."""
        return np.asarray((self.high_upto[:, which] - self.low_below[:, which]) / self.n)

    def unbounded(self, which: int = 0) -> Flags:
        return np.asarray((self.low[:, which] < 0) | (self.high[:, which] < 0))

    def to_dict(self) -> dict[str, Any]:
        return {
            f.name: value.tolist() if isinstance(value := getattr(self, f.name), np.ndarray) else value
            for f in fields(self)
        }

    @classmethod
    def from_dict(cls, form: dict[str, Any]) -> Outcome:
        def array(name: str) -> Ints:
            given = np.array(form.get(name, []), np.int64)
            return given if given.size else given.reshape(len(form["answers"]), 0)

        made = {f.name: array(f.name) for f in fields(cls) if f.name not in ("n", "quantiles", "seconds")}
        return cls(form["n"], tuple(form["quantiles"]), **made, seconds=form["seconds"])


def measured(
    draw: Draw, quantiles: Sequence[float], answers: Ints, ends: Ints, alarms: Ints, seconds: float
) -> Outcome:
    """The outcome of trials on one sample. ends: (trial, quantile, lower or upper), empty without a claim."""
    sample = draw.sample
    shape = answers.shape
    truth = np.array([sample.quantile(q) for q in quantiles], np.int64)
    population = np.array([-1 if draw.population is None else draw.population(q) for q in quantiles], np.int64)
    low, high = (np.ascontiguousarray(ends[..., side]) for side in range(2))
    # Both sides may claim too much, which happens less often than 1 - confidence: the claim is then between them.
    crossed = (high >= 0) & (high < low)
    low, high = np.where(crossed, high, low), np.where(crossed, low, high)
    return Outcome(
        sample.n,
        tuple(quantiles),
        answers,
        sample.at_most(answers - 1),
        sample.at_most(answers),
        np.broadcast_to(truth, shape).copy(),
        np.broadcast_to(sample.at_most(truth), shape).copy(),
        np.broadcast_to(population, shape).copy(),
        low,
        high,
        sample.at_most(np.where(low < 0, 0, low) - 1),
        sample.at_most(np.where(high < 0, sample.size - 1, high)),
        alarms,
        seconds,
    )


def joined(parts: Sequence[Outcome]) -> Outcome:
    """Outcomes of one cell, in their order, as one."""
    first = parts[0]
    names = [f.name for f in fields(Outcome) if isinstance(getattr(first, f.name), np.ndarray)]
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Outcome(first.n, first.quantiles, **arrays, seconds=math.fsum(part.seconds for part in parts))

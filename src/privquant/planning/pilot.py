"""A pilot: values like those that will be asked for, so that a plan speaks of their unit as well as of ranks.

From it come the values between which a rank error of alpha leaves the answer, and the ties and steps that forgive
errors. It is a sample itself: with m values its own ranks are off by about 1/(2 sqrt(m)).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from privquant.arrays import Ints
from privquant.columns import to_indices
from privquant.domain import Domain
from privquant.error_words import finite
from privquant.errors import InvalidInput

# Fewer values say nothing about a quantile's neighbourhood.
FEWEST = 20


class Reach(NamedTuple):
    """Where alpha leaves the answer: below, above in rank as ties allow; low, high as values (None: no bound)."""

    below: float
    above: float
    low: int | float | None
    high: int | float | None


@dataclass(frozen=True, eq=False)
class Pilot:
    """The pilot's indices in the domain, rising."""

    indices: Ints
    domain: Domain

    @property
    def users(self) -> int:
        return int(self.indices.size)

    def rank(self, index: int) -> float:
        """F(index)."""
        return float(np.searchsorted(self.indices, index, side="right")) / self.users

    def index_at(self, rank: float) -> int:
        """The smallest index whose rank reaches `rank`."""
        place = int(np.ceil(rank * self.users - 1e-9)) - 1
        return int(self.indices[min(max(place, 0), self.users - 1)])

    def quantile(self, q: float) -> int | float:
        return self.domain.value(self.index_at(q))

    def reach(self, q: float, alpha: float) -> Reach:
        """The values an answer within alpha of q can have, and the ranks at which the next ones begin.

        An alpha that does not reach the end leaves an answer beyond all values wrong, however few those of the
        pilot's end are.
        """
        low = self.index_at(q - alpha + 1.0 / self.users) if alpha < q else None
        high = self.index_at(q + alpha) if alpha < 1.0 - q else None
        return Reach(
            1.0 if low is None else min(max(alpha, q - self.rank(low - 1)), math.nextafter(q, 0.0)),
            1.0 if high is None else min(max(alpha, self.rank(high) - q), math.nextafter(1.0 - q, 0.0)),
            None if low is None else finite(self.domain.lower_edge(low)),
            None if high is None else finite(self.domain.value(high)),
        )

    def shared_value(self, q: float, alpha: float) -> tuple[int | float, float]:
        """The value most of the pilot share among those within alpha of q, and their part of all."""
        first = int(np.searchsorted(self.indices, self.index_at(max(q - alpha, 0.0)), side="left"))
        last = int(np.searchsorted(self.indices, self.index_at(min(q + alpha, 1.0)), side="right"))
        values, counts = np.unique(self.indices[first:last], return_counts=True)
        most = int(np.argmax(counts))
        return self.domain.value(int(values[most])), float(counts[most]) / self.users


def pilot_of(values: Any, domain: Domain) -> Pilot:
    """A pilot from a column of values; those that are missing are left out."""
    return pilot_of_indices(to_indices(values, domain, missing="drop", fractions="round").indices, domain)


def pilot_of_indices(found: Ints, domain: Domain) -> Pilot:
    """A pilot from domain indices in any order."""
    if found.size < FEWEST:
        raise InvalidInput(f"a pilot has at least {FEWEST} values, got {found.size}")
    return Pilot(np.sort(found), domain)

"""Where a cell's users come from: a `DataSet` (`privquant.lab.data`) for all trials, or drawn every few trials."""

from dataclasses import dataclass
from typing import Protocol as Interface

import numpy as np

from privquant.domain import Domain, Integers
from privquant.errors import InvalidInput
from privquant.lab.sample import Draw, Sample
from privquant.lab.shapes import SHAPES, distribution
from privquant.validation import check_choice, check_count

# Beyond this many users a drawn histogram is repeated instead of drawn longer: counts are all that trials need.
LISTED = 100_000


class Source(Interface):
    """name, n, domain: what figures call it, its users, their values. key: equal keys, equal law of the users."""

    @property
    def name(self) -> str: ...
    @property
    def n(self) -> int: ...
    @property
    def domain(self) -> Domain: ...
    @property
    def key(self) -> str: ...

    def draw(self, rng: np.random.Generator) -> Draw:
        """The users of the next trials."""


@dataclass(frozen=True)
class Drawn:
    """n users drawn from a distribution of a shape, both anew each time; the population's quantile is known."""

    name: str
    n: int
    size: int

    def __post_init__(self) -> None:
        check_choice(self.name, "shape", SHAPES)
        check_count(self.n, "n", 1)
        if self.n > LISTED and self.n % LISTED:
            raise InvalidInput(f"a drawn sample of more than {LISTED} users is a multiple of that, got {self.n}")

    @property
    def domain(self) -> Integers:
        return Integers(0, self.size - 1)

    @property
    def key(self) -> str:
        return f"{self.name}:n={self.n}:B={self.size}:drawn"

    def draw(self, rng: np.random.Generator) -> Draw:
        shape = distribution(self.name, self.size, rng)
        listed = shape.draw(min(self.n, LISTED), rng)
        if self.n <= LISTED:
            return Draw(Sample(listed, self.size), shape.quantile)
        values, counts = np.unique(listed, return_counts=True)
        return Draw(Sample.of_counts(values, counts * (self.n // LISTED), self.size), shape.quantile)

"""The hardest data for a search within alpha of q: all hangs on one value.

q - alpha of the users sit at the bottom of the domain, as many as reach q + alpha share one value that may be
anywhere, and the others sit at the top: any other answer is off by alpha or more. It is the family of the paper's
lower bound, made for the q and alpha of one plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privquant.domain import Integers
from privquant.lab.sample import Draw, Sample


@dataclass(frozen=True)
class Cliff:
    """n users on a cliff for one quantile and alpha; its place is drawn anew each time."""

    n: int
    size: int
    quantile: float
    alpha: float

    name = "cliff"

    @property
    def domain(self) -> Integers:
        return Integers(0, self.size - 1)

    @property
    def key(self) -> str:
        return f"cliff:n={self.n}:B={self.size}:q={self.quantile:g}:alpha={self.alpha:g}:drawn"

    def draw(self, rng: np.random.Generator) -> Draw:
        below = max(math.floor(self.n * (self.quantile - self.alpha)), 0)
        upto = min(math.ceil(self.n * (self.quantile + self.alpha)), self.n)
        place = int(rng.integers(1, self.size - 1))
        values, counts = np.array([0, place, self.size - 1]), np.array([below, upto - below, self.n - upto])
        there = counts > 0
        return Draw(Sample.of_counts(values[there], counts[there], self.size), lambda q: place)

"""Shapes of data for tests of what is said about an answer; nothing else in the package knows them.

Ten are lumpy, eight (`SMOOTH_SHAPES`) are smooth, and `lump` makes smooth ones with one lump of a chosen size.

A shape is a list of pieces (weight, first index, last index), rising and apart, uniform inside: atoms are pieces of
one index. Some put a jump exactly where the statement's slack ends, so they are told the quantile and the slack.
"""

from fractions import Fraction

import numpy as np


class Pieces:
    """A distribution over indices: users can be drawn, and F is known exactly up to rounding."""

    def __init__(self, pieces):
        pieces = [(float(w), int(a), int(b)) for w, a, b in pieces if w > 1e-12]
        total = sum(w for w, _, _ in pieces)
        self.weight = np.array([w / total for w, _, _ in pieces])
        self.first = np.array([a for _, a, _ in pieces], np.int64)
        self.last = np.array([b for _, _, b in pieces], np.int64)
        assert (self.last >= self.first).all()
        assert (self.first[1:] > self.last[:-1]).all()

    def draw(self, n, rng):
        which = rng.choice(self.weight.size, n, p=self.weight)
        return rng.integers(self.first[which], self.last[which], endpoint=True)

    def share(self, index):
        """F(index)."""
        found = 0.0
        for w, a, b in zip(self.weight, self.first.tolist(), self.last.tolist(), strict=True):
            if index >= b:
                found += w
            elif index >= a:
                found += w * float(Fraction(index - a + 1, b - a + 1))
        return found


def _inside(size, rng, low=0.1, high=0.9):
    return int((low + (high - low) * rng.random()) * size)


def five_categories(size, rng, q, slack):
    at = np.sort(rng.choice(min(size, 10**6), 5, replace=False)) * (size // min(size, 10**6))
    return Pieces([(w, v, v) for w, v in zip(rng.dirichlet(np.full(5, 2.0)), at, strict=True)])


def likert(size, rng, q, slack):
    """Marks 1 to 7 at the bottom of the domain."""
    return Pieces([(w, v, v) for w, v in zip((0.04, 0.09, 0.17, 0.27, 0.23, 0.13, 0.07), range(1, 8), strict=True)])


def spikes_on_smooth(size, rng, q, slack):
    """Uniform with a spike of 4 % at every tenth: round numbers that people like."""
    step, start = size // 20, size // 4
    pieces = []
    for k in range(10):
        pieces += [(0.04, start + k * step, start + k * step)]
        pieces += [(0.06, start + k * step + 1, start + (k + 1) * step - 1)]
    return Pieces(pieces)


def many_zeros(size, rng, q, slack):
    return Pieces([(0.8, 0, 0), (0.15, 1, size // 50), (0.05, size // 50 + 1, size // 3)])


def zeros_to_q(size, rng, q, slack):
    """Zeros up to just below the quantile."""
    z = max(q - 0.5 * slack, 0.3 * q)
    return Pieces([(z, 0, 0), (1.0 - z, size // 3, size // 2)])


def staircase(size, rng, q, slack):
    """Twenty narrow steps with empty treads."""
    step = size // 25
    return Pieces([(0.05, k * step + step // 2, k * step + step // 2 + max(step // 200, 1)) for k in range(20)])


def jump_at_slack_above(size, rng, q, slack):
    """Just below the quantile up to one value; there F jumps to a hair above q + slack."""
    below, above = max(q - 0.3 * slack, 0.01), min(q + 1.02 * slack, 0.995)
    place = _inside(size, rng)
    return Pieces([(below, place // 2, place - 1), (above - below, place, place), (1 - above, place + 1, size - 1)])


def jump_at_slack_below(size, rng, q, slack):
    """F ends a lump a hair below q - slack and jumps to just above q beyond an empty stretch."""
    below, above = max(q - 1.02 * slack, 0.005), min(q + 0.3 * slack, 0.995)
    place = _inside(size, rng, 0.3, 0.7)
    return Pieces(
        [(below, place // 3, place // 2), (above - below, place, place), (1 - above, place + 1, size - 1)]
    )


def both_slacks(size, rng, q, slack):
    """The whole slack and a hair more on one value, in the midst of smooth data."""
    below, above = max(q - 1.02 * slack, 0.005), min(q + 1.02 * slack, 0.995)
    place = _inside(size, rng)
    return Pieces([(below, 0, place - 1), (above - below, place, place), (1 - above, place + 1, size - 1)])


def narrow_and_wide(size, rng, q, slack):
    """Half of the users in a ten-thousandth of the domain, in the midst of the others."""
    place, width = _inside(size, rng, 0.3, 0.6), max(size // 10**4, 1)
    return Pieces([(0.25, 0, place - 1), (0.5, place, place + width), (0.25, place + width + 1, size - 1)])


STATEMENT_SHAPES = {
    made.__name__: made
    for made in (
        five_categories,
        likert,
        spikes_on_smooth,
        many_zeros,
        zeros_to_q,
        staircase,
        jump_at_slack_above,
        jump_at_slack_below,
        both_slacks,
        narrow_and_wide,
    )
}


def _fine(inverse, size):
    """A smooth distribution by its quantile function, as 800 uniform pieces of equal weight."""
    cuts = np.unique(np.clip([inverse(u) for u in np.linspace(1e-4, 1 - 1e-4, 801)], 0, size - 1).astype(np.int64))
    return Pieces([(float(1 / (cuts.size - 1)), a, b - 1) for a, b in zip(cuts[:-1], cuts[1:], strict=True)])


def exponential(size, rng, q, slack):
    scale = size * rng.uniform(0.01, 0.1)
    return _fine(lambda u: -np.log1p(-u) * scale, size)


def logistic(size, rng, q, slack):
    centre, scale = size * rng.uniform(0.3, 0.7), size * rng.uniform(0.01, 0.03)
    return _fine(lambda u: centre + scale * np.log(u / (1 - u)), size)


def triangle(size, rng, q, slack):
    low, width = size * rng.uniform(0.0, 0.5), size * rng.uniform(0.2, 0.5)
    return _fine(lambda u: low + width * np.sqrt(u), size)


def weibull(size, rng, q, slack):
    scale = size * rng.uniform(0.02, 0.2)
    return _fine(lambda u: scale * (-np.log1p(-u)) ** (1 / 1.7), size)


def gumbel(size, rng, q, slack):
    centre, scale = size * rng.uniform(0.2, 0.4), size * rng.uniform(0.01, 0.05)
    return _fine(lambda u: centre - scale * np.log(-np.log(u)), size)


def laplace(size, rng, q, slack):
    """Its density has a corner at the median."""
    centre, scale = size * rng.uniform(0.3, 0.7), size * rng.uniform(0.01, 0.04)
    return _fine(lambda u: centre + scale * np.sign(u - 0.5) * -np.log(1 - abs(2 * u - 1)), size)


def cauchy(size, rng, q, slack):
    centre, scale = size * rng.uniform(0.3, 0.7), size * rng.uniform(0.001, 0.01)
    return _fine(lambda u: centre + scale * np.tan(np.pi * (u - 0.5)), size)


def arcsine(size, rng, q, slack):
    """Most users at the two ends of an interval."""
    low, width = size * rng.uniform(0.0, 0.3), size * rng.uniform(0.3, 0.6)
    return _fine(lambda u: low + width * np.sin(np.pi * u / 2) ** 2, size)


SMOOTH_SHAPES = {
    made.__name__: made for made in (exponential, logistic, triangle, weibull, gumbel, laplace, cauchy, arcsine)
}


def lump(mass):
    """Logistic data with `mass` on one value or, as often, in a narrow stretch; the quantile is somewhere in it."""

    def made(size, rng, q, slack):
        below = min(max(q - mass * rng.random(), 0.002), max(0.998 - mass, 0.002))
        share = min(mass, 0.998 - below)
        centre, scale = size * rng.uniform(0.3, 0.6), size * rng.uniform(0.01, 0.03)
        width = 1 if rng.random() < 0.5 else max(int(scale * 10 ** rng.uniform(-4, -1)), 1)
        at = below / (1 - share)
        grid = np.unique(np.concatenate([np.linspace(1e-4, 1 - 1e-4, 401), [at]]))
        cuts = np.clip(centre + scale * np.log(grid / (1 - grid)), 0, size - width - 2).astype(np.int64)
        place = int(cuts[np.searchsorted(grid, at)])
        pieces = [(share, place, place + width - 1)]
        for u, v, a, b in zip(grid[:-1], grid[1:], cuts[:-1], cuts[1:], strict=True):
            moved = width if u >= at else 0
            if b > a:
                pieces.append(((1 - share) * (v - u), a + moved, b - 1 + moved))
        return Pieces(sorted(pieces, key=lambda piece: piece[1]))

    return made

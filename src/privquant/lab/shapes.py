"""Shapes of data with hard spots, as distributions: users can be drawn from them, and their quantiles are known.

    pareto      heavy tail, the paper's (exponent 1.5)      uniform     on a random interval around the middle
    heavy       no mean (exponent 1/2)                      flat        uniform on the whole domain
    lognormal   centred at size^0.6                         tiny        uniform on an interval of size^0.3 values
    ties        60 atoms of random weight                   const       one value
    atom        35 % of all users on one value, the         gap         two lumps, half of the users in each
                median inside it                            gap48       the same with 48 % in the lower one
    normal      a tenth of the domain wide, anywhere        gamma       shape 2: times, sizes
    bimodal     two normal lumps, the median between them   salary      lognormal, rounded to 60 or so values
    zeros       30 % zeros, the others exponential          kink        ten times denser below a value near the
                                                            median than above it
    hard        the lower bound's family: q - 2a at the bottom, 4a at one value, the rest at the top (q = 1/2,
                a = 0.04)

Where a shape has a random place (an interval, an atom) every distribution drawn has its own.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np

from privquant.arrays import Floats, Ints
from privquant.domain import MAX_SIZE
from privquant.errors import InvalidInput
from privquant.validation import check_choice, check_count, check_quantile

__all__ = ["SHAPES", "distribution", "shape"]

Inverse = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Distribution:
    """A distribution over domain indices.

    draw:     n independent users' indices.
    quantile: the smallest index v with F(v) >= q.
    """

    draw: Callable[[int, np.random.Generator], Ints]
    quantile: Callable[[float], int]


def distribution(name: str, size: int, rng: np.random.Generator) -> Distribution:
    """A distribution of this shape over 0 .. size-1; what is random about the shape is drawn from rng."""
    check_choice(name, "shape", SHAPES)
    if check_count(size, "size", 1) > MAX_SIZE:
        raise InvalidInput(f"size must be at most 2^63, got {size}")
    return _MAKERS[name](size, rng)


def shape(name: str, n: int, size: int, rng: np.random.Generator) -> Ints:
    """n users' indices drawn from a distribution of this shape."""
    users = check_count(n, "n", 1)
    return distribution(name, size, rng).draw(users, rng)


def _to_indices(values: Floats, size: int) -> Ints:
    """Whole parts, clipped to the domain; exact up to 2^63 because a float below 2^63 fits an int64."""
    most = math.nextafter(float(size), 0.0)
    return np.minimum(np.floor(np.clip(values, 0.0, most)).astype(np.int64), size - 1)


def _quantiles(inverse: Inverse, size: int) -> Callable[[float], int]:
    """The quantiles of a distribution whose quantile function is `inverse`, rounded down to indices."""
    return lambda q: int(_to_indices(inverse(np.array([check_quantile(q)])), size)[0])


def _by_inverse(inverse: Inverse, size: int) -> Distribution:
    """The distribution whose quantile function is `inverse`, rounded down to indices."""
    return Distribution(lambda n, rng: _to_indices(inverse(rng.random(n)), size), _quantiles(inverse, size))


def _between(low: int, high: int) -> Distribution:
    """Uniform on low .. high, both included."""

    def quantile(q: float) -> int:
        return low + math.ceil(Fraction(check_quantile(q)) * (high - low + 1)) - 1

    return Distribution(lambda n, rng: rng.integers(low, high, n, endpoint=True), quantile)


def _atoms(at: Ints, weights: Floats) -> Distribution:
    """`weights` on the rising indices `at`."""
    upto = np.cumsum(weights)

    def of(shares: Floats) -> Ints:
        return at[np.minimum(np.searchsorted(upto, shares, side="left"), at.size - 1)]

    return Distribution(
        lambda n, rng: of(rng.random(n)), lambda q: int(of(np.array([check_quantile(q) - 1e-12]))[0])
    )


def _power(exponent: float, scale: float, size: int) -> Distribution:
    """Pareto (Lomax) rounded to whole numbers; the scale shrinks where the domain has no room for it."""
    fitting = min(scale, size / 32.0)
    return _by_inverse(lambda u: fitting * ((1.0 - u) ** (-1.0 / exponent) - 1.0) + 0.5, size)


def _uniform(size: int, rng: np.random.Generator) -> Distribution:
    half = max(size // 2, 1)
    low = int(rng.integers(0, half))
    high = int(rng.integers(min(half, size - 1), size))
    return _between(low, high)


def _tiny(size: int, rng: np.random.Generator) -> Distribution:
    width = min(max(2, int(float(size) ** 0.3)), size)
    low = int(rng.integers(0, size - width + 1))
    return _between(low, low + width - 1)


def _ties(size: int, rng: np.random.Generator) -> Distribution:
    at = np.unique(_to_indices(rng.random(60) * size * 0.99, size))
    return _atoms(at, rng.dirichlet(np.ones(at.size)))


def _const(size: int, rng: np.random.Generator) -> Distribution:
    return _atoms(np.array([rng.integers(0, size)], np.int64), np.ones(1))


def _atom(size: int, rng: np.random.Generator) -> Distribution:
    place = (0.1 + 0.8 * rng.random()) * size

    def inverse(u: Floats) -> Floats:
        above = place + np.maximum(u - 0.65, 0.0) / 0.35 * (size - place)
        return np.where(u <= 0.3, u / 0.3 * place, np.where(u <= 0.65, place, above))

    return _by_inverse(inverse, size)


def _lumps(size: int, rng: np.random.Generator, lower: float) -> Distribution:
    """`lower` of the users uniform on 2 % of the domain in its first fifth or so, the others around 0.7."""
    low, high, width = 0.2 * rng.random(), 0.6 + 0.2 * rng.random(), 0.02

    def inverse(u: Floats) -> Floats:
        above = high + width * (u - lower) / (1.0 - lower)
        return np.where(u <= lower, low + width * u / lower, above) * size

    return _by_inverse(inverse, size)


def _hard(size: int, rng: np.random.Generator) -> Distribution:
    if size < 3:
        return _between(0, size - 1)
    place = int(rng.integers(1, size - 1))
    return _atoms(np.array([0, place, size - 1], np.int64), np.array([0.42, 0.16, 0.42]))


def _by_scores(inverse: Inverse, size: int) -> Distribution:
    """The distribution of `inverse` of a standard normal, rounded down to indices."""

    def of_ranks(u: Floats) -> Floats:
        return inverse(np.array([NormalDist().inv_cdf(each) for each in u]))

    return Distribution(
        lambda n, rng: _to_indices(inverse(rng.standard_normal(n)), size), _quantiles(of_ranks, size)
    )


def _lognormal(size: int, rng: np.random.Generator) -> Distribution:
    centre, deviation = 0.6 * math.log(size), 1.5
    return _by_scores(lambda z: np.exp(centre + deviation * z) - 1.0, size)


def _normal(size: int, rng: np.random.Generator) -> Distribution:
    centre, deviation = rng.uniform(0.2, 0.8) * size, size / 20.0
    return _by_scores(lambda z: centre + deviation * z, size)


def _salary(size: int, rng: np.random.Generator) -> Distribution:
    """Rounded to steps of a twentieth of the median, which lies at a thirtieth of the domain."""
    step = max(size / 600.0, 1.0)
    return _by_scores(lambda z: np.rint(20.0 * np.exp(0.6 * z)) * step, size)


def _solved(share: Callable[[float], float], high: float) -> Inverse:
    """The inverse of a rising distribution function on 0 .. high, by bisection."""

    def inverse(u: Floats) -> Floats:
        low, top = np.zeros_like(u), np.full_like(u, high)
        for _ in range(80):
            middle = (low + top) / 2.0
            below = np.array([share(float(x)) for x in middle]) < u
            low, top = np.where(below, middle, low), np.where(below, top, middle)
        return top

    return inverse


def _gamma(size: int, rng: np.random.Generator) -> Distribution:
    scale = size / 500.0
    exact = _solved(lambda x: -math.expm1(-x) - x * math.exp(-x), 700.0)

    quantiles = _quantiles(lambda u: scale * exact(u), size)
    return Distribution(lambda n, rng: _to_indices(rng.gamma(2.0, scale, n), size), quantiles)


def _bimodal(size: int, rng: np.random.Generator) -> Distribution:
    """Each lump's centre is two of its deviations away from the middle."""
    centre, deviation = rng.uniform(0.3, 0.7) * size, size / 30.0
    normal = NormalDist()
    exact = _solved(lambda x: 0.5 * (normal.cdf(x - 10.0) + normal.cdf(x - 14.0)), 24.0)

    def draw(n: int, rng: np.random.Generator) -> Ints:
        side = np.where(rng.random(n) < 0.5, -2.0, 2.0)
        return _to_indices(centre + deviation * (side + rng.standard_normal(n)), size)

    return Distribution(draw, _quantiles(lambda u: centre + deviation * (exact(u) - 12.0), size))


def _zeros(size: int, rng: np.random.Generator) -> Distribution:
    return _by_inverse(lambda u: np.where(u <= 0.3, 0.0, -np.log1p(-(u - 0.3) / 0.7) * size / 200.0), size)


def _kink(size: int, rng: np.random.Generator) -> Distribution:
    """Uniform on both sides of a value at rank .4 to .6, the lower side in a fiftieth of the domain's scale."""
    place, rank, scale = rng.uniform(0.3, 0.6) * size, rng.uniform(0.4, 0.6), size / 50.0
    return _by_inverse(lambda u: place + (u - rank) * np.where(u < rank, scale, 10.0 * scale), size)


_MAKERS: dict[str, Callable[[int, np.random.Generator], Distribution]] = {
    "pareto": lambda size, rng: _power(1.5, 2000.0, size),
    "heavy": lambda size, rng: _power(0.5, 100.0, size),
    "lognormal": _lognormal,
    "uniform": _uniform,
    "flat": lambda size, rng: _between(0, size - 1),
    "tiny": _tiny,
    "ties": _ties,
    "const": _const,
    "atom": _atom,
    "gap": lambda size, rng: _lumps(size, rng, 0.5),
    "gap48": lambda size, rng: _lumps(size, rng, 0.48),
    "hard": _hard,
    "normal": _normal,
    "gamma": _gamma,
    "bimodal": _bimodal,
    "salary": _salary,
    "zeros": _zeros,
    "kink": _kink,
}

SHAPES = tuple(_MAKERS)

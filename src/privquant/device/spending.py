"""What an answer costs, in whole numbers: three sums, of which an answer in the local trust model raises two
alike.

The ledger adds up epsilons for years, so it counts them in units of 10^-12 and never in floats. The cost of a
coin is the epsilon it really gives, ln((2^64 - T)/T), rounded up to a unit; limits of a policy are rounded
down.

One thing is forgiven: a campaign at 0.1 throws the coin of the binary number next to 0.1, whose epsilon may
exceed one tenth by 5.5e-18. Up to 10^-14 above a unit is therefore not rounded up, or ten answers at 0.1
would not fit a lifetime of 1. Largest excess over a lifetime limit: 10^-14 an answer.

A shuffled answer costs the epsilon and the delta of its campaign, and locally, if shuffler and aggregator work
together, the epsilon of its coin. Deltas are counted in units of 10^-18, rounded up.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from functools import lru_cache

from privquant.errors import InvalidInput
from privquant.privacy.coin import DRAW, check_flip_threshold, flip_threshold
from privquant.validation import SMALLEST_EPSILON

UNITS = 10**12
DELTA_UNITS = 10**18
_FORGIVEN = Decimal("0.01")  # of a unit: 10^-14
_UP = Context(prec=60, rounding=ROUND_CEILING)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR)

# The most honest coin has epsilon ln(2^64 - 1) = 44.36; a limit above this allows everything anyway.
LARGEST_LIMIT = Decimal(10**6)


@dataclass(frozen=True, slots=True)
class Spent:
    """Epsilon, delta and local epsilon, in units. In the local trust model epsilon is the local one and delta 0."""

    epsilon: int = 0
    delta: int = 0
    local: int = 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.epsilon + other.epsilon, self.delta + other.delta, self.local + other.local)


def local(flips: int) -> Spent:
    """What an answer through this coin costs in the local trust model."""
    return Spent(cost(flips), 0, cost(flips))


def shuffled(epsilon: float, delta: float, flips: int) -> Spent:
    """What an answer through this coin costs in a campaign that promises (epsilon, delta)."""
    return Spent(_up(epsilon, UNITS), _up(delta, DELTA_UNITS), cost(flips))


def _up(number: float, units: int) -> int:
    """The decimal number that a float is written as, in units, rounded up."""
    return math.ceil(_UP.multiply(Decimal(repr(number)), Decimal(units)))


@lru_cache(maxsize=256)
def cost(flips: int) -> int:
    """The epsilon of one answer through this coin, in units, rounded up."""
    check_flip_threshold(flips)
    # ln is correctly rounded to nearest; one step up in the last place makes it an upper bound.
    odds = _UP.divide(Decimal(DRAW - flips), Decimal(flips))
    exact = _UP.multiply(_UP.next_plus(_UP.ln(odds)), Decimal(UNITS))
    return max(1, math.ceil(_UP.subtract(exact, _FORGIVEN)))


def _exact(number: object, name: str, allowed: str) -> Decimal:
    """A number of a policy. A float means the decimal number it is written as."""
    if not isinstance(number, bool) and isinstance(number, int | float | str | Decimal):
        with suppress(InvalidOperation):
            return Decimal(repr(number) if isinstance(number, float) else number)
    raise InvalidInput(f"{name} must be a number {allowed}, got {number!r}")


def limit(epsilon: object, name: str) -> int:
    """A limit of the policy in units, rounded down."""
    exact = _exact(epsilon, name, "above 0")
    if not exact.is_finite() or not 0 < exact <= LARGEST_LIMIT:
        raise InvalidInput(f"{name} must be above 0 and at most {LARGEST_LIMIT}, got {epsilon!r}")
    if exact < Decimal(repr(SMALLEST_EPSILON)):
        raise InvalidInput(f"{name} must be at least {SMALLEST_EPSILON:g}, got {epsilon!r}")
    return math.floor(_DOWN.multiply(exact, Decimal(UNITS)))


def delta_limit(delta: object, name: str) -> int:
    """A limit of the policy on delta in units, rounded down."""
    exact = _exact(delta, name, "above 0 and below 1")
    if not exact.is_finite() or not Decimal(1) / DELTA_UNITS <= exact < 1:
        raise InvalidInput(f"{name} must be at least 1e-18 and below 1, got {delta!r}")
    return math.floor(_DOWN.multiply(exact, Decimal(DELTA_UNITS)))


def shown_delta(units: int) -> str:
    """Units of delta as a person reads them: 10000000000 is "1e-8"."""
    if not units:
        return "0"
    digits = str(units)
    first, more = digits[0], digits[1:].rstrip("0")
    return f"{first}{'.' + more if more else ''}e{len(digits) - 19}"


def shown(units: int) -> str:
    """Units as a person reads them: 1000000000000 is "1"."""
    whole, rest = divmod(units, UNITS)
    digits = f"{rest:012d}".rstrip("0")
    return f"{whole}.{digits}" if digits else f"{whole}"


@lru_cache(maxsize=256)
def keeps(limit_units: int, flips: int) -> bool:
    """Whether one answer through a coin with this flip threshold stays within a limit.

    Two integers are compared. The quotient is the float next to the limit, which is what a campaign at that
    epsilon starts from.
    """
    return check_flip_threshold(flips) >= flip_threshold(limit_units / UNITS)

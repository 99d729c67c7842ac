"""What an answer costs, in whole numbers.

The ledger adds up epsilons for years, so it counts them in units of 10^-12 and never in floats. The cost of a
coin is the epsilon it really gives, ln((2^64 - T)/T), rounded up to a unit; limits of a policy are rounded
down.

One thing is forgiven: a campaign at 0.1 throws the coin of the binary number next to 0.1, whose epsilon may
exceed one tenth by 5.5e-18. Up to 10^-14 above a unit is therefore not rounded up, or ten answers at 0.1
would not fit a lifetime of 1. Largest excess over a lifetime limit: 10^-14 an answer.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from functools import lru_cache

from privquant.errors import InvalidInput
from privquant.privacy.coin import DRAW, check_flip_threshold, flip_threshold
from privquant.validation import SMALLEST_EPSILON

UNITS = 10**12
_FORGIVEN = Decimal("0.01")  # of a unit: 10^-14
_UP = Context(prec=60, rounding=ROUND_CEILING)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR)

# The most honest coin has epsilon ln(2^64 - 1) = 44.36; a limit above this allows everything anyway.
LARGEST_LIMIT = Decimal(10**6)


@lru_cache(maxsize=256)
def cost(flips: int) -> int:
    """The epsilon of one answer through this coin, in units, rounded up."""
    check_flip_threshold(flips)
    # ln is correctly rounded to nearest; one step up in the last place makes it an upper bound.
    odds = _UP.divide(Decimal(DRAW - flips), Decimal(flips))
    exact = _UP.multiply(_UP.next_plus(_UP.ln(odds)), Decimal(UNITS))
    return max(1, math.ceil(_UP.subtract(exact, _FORGIVEN)))


def limit(epsilon: object, name: str) -> int:
    """A limit of the policy in units, rounded down. A float means the decimal number it is written as."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | str | Decimal):
        raise InvalidInput(f"{name} must be a number above 0, got {epsilon!r}")
    try:
        exact = Decimal(repr(epsilon)) if isinstance(epsilon, float) else Decimal(epsilon)
    except InvalidOperation:
        raise InvalidInput(f"{name} must be a number above 0, got {epsilon!r}") from None
    if not exact.is_finite() or not 0 < exact <= LARGEST_LIMIT:
        raise InvalidInput(f"{name} must be above 0 and at most {LARGEST_LIMIT}, got {epsilon!r}")
    if exact < Decimal(repr(SMALLEST_EPSILON)):
        raise InvalidInput(f"{name} must be at least {SMALLEST_EPSILON:g}, got {epsilon!r}")
    return math.floor(_DOWN.multiply(exact, Decimal(UNITS)))


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

"""Checks of single arguments, shared by every public entry, so that one mistake has one message.

Standard library only: the device uses these too.
"""

import math
import numbers
from collections.abc import Iterable, Sequence

from privquant.errors import InvalidInput

# Below this the 64-bit coin is a fair coin: 2^64 / (1 + e^eps) rounds up to 2^63.
SMALLEST_EPSILON = 1e-9


def check_epsilon(epsilon: object, name: str = "epsilon") -> float:
    """A privacy parameter: a finite number above 0."""
    if isinstance(epsilon, bool) or not isinstance(epsilon, numbers.Real):
        raise InvalidInput(f"{name} must be a number above 0, got {epsilon!r}")
    try:
        value = float(epsilon)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value) or value <= 0:
        raise InvalidInput(f"{name} must be a finite number above 0, got {epsilon!r}")
    if value < SMALLEST_EPSILON:
        raise InvalidInput(f"{name} must be at least {SMALLEST_EPSILON:g}, got {epsilon!r}")
    return value


def check_quantile(quantile: object) -> float:
    """A quantile: strictly between 0 and 1."""
    if isinstance(quantile, bool) or not isinstance(quantile, numbers.Real):
        raise InvalidInput(f"quantile must be a number strictly between 0 and 1, got {quantile!r}")
    value = float(quantile)
    if not 0.0 < value < 1.0:
        raise InvalidInput(f"quantile must lie strictly between 0 and 1, got {quantile!r}")
    return value


def check_quantiles(quantile: float | Iterable[float], *, rising: bool = True) -> tuple[float, ...]:
    """One quantile or several; unless told otherwise several must be given in rising order without repeats."""
    if isinstance(quantile, numbers.Real):
        return (check_quantile(quantile),)
    if isinstance(quantile, str | bytes) or not isinstance(quantile, Iterable):
        raise InvalidInput(f"quantile must be a number or a sequence of numbers, got {quantile!r}")
    found = tuple(check_quantile(q) for q in quantile)
    if not found:
        raise InvalidInput("quantile is an empty sequence; give at least one number strictly between 0 and 1")
    if rising and any(b <= a for a, b in zip(found, found[1:], strict=False)):
        raise InvalidInput(f"quantiles must be in rising order without repeats, got {list(found)}")
    return found


def one_or_several(quantiles: Sequence[float]) -> float | list[float]:
    """Quantiles as a caller gives them: a single one alone."""
    return quantiles[0] if len(quantiles) == 1 else list(quantiles)


def check_probability(value: object, name: str) -> float:
    """A probability strictly between 0 and 1 (a delta, a confidence, an error alpha)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0.0 < float(value) < 1.0:
        raise InvalidInput(f"{name} must be a number strictly between 0 and 1, got {value!r}")
    return float(value)


def check_count(count: object, name: str, least: int = 0) -> int:
    """A whole number of users, trials, rounds..., at least `least`."""
    if isinstance(count, bool) or not isinstance(count, numbers.Integral):
        raise InvalidInput(f"{name} must be a whole number of at least {least}, got {count!r}")
    value = int(count)
    if value < least:
        raise InvalidInput(f"{name} must be at least {least}, got {value}")
    return value


def check_flag(value: object, name: str) -> bool:
    """True or False, and nothing that merely counts as one: the text "false" would count as true."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, got {value!r}")
    return value


def check_choice(value: object, name: str, allowed: Sequence[str]) -> str:
    """A name out of a fixed list."""
    if value not in allowed:
        raise InvalidInput(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return str(value)

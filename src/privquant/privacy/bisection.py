"""Where a condition turns from holding to failing, among floats and among integers. Standard library only."""

from __future__ import annotations

from collections.abc import Callable


def last_float(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest x in [low, high] for which a condition that holds at low, and then no more, holds."""
    if holds(high):
        return high
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return low
        low, high = (middle, high) if holds(middle) else (low, middle)


def first_failure(holds: Callable[[int], bool], low: int, high: int, guess: int) -> int:
    """The smallest integer after low for which a condition that holds at low does not; it fails at high.

    Steps from the guess grow fourfold, so that a good guess makes few looks.
    """
    probe = min(max(guess, low), high)
    reach = 2
    if probe > low and not holds(probe):
        high = probe
        while high - reach > low and not holds(high - reach):
            high, reach = high - reach, 4 * reach
        low = max(low, high - reach)
    elif probe < high:
        low = probe
        while low + reach < high and holds(low + reach):
            low, reach = low + reach, 4 * reach
        high = min(high, low + reach)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high

"""The coin: randomized response whose probability is an integer.

A user flips the true bit iff a fresh 64-bit draw is below `flip_threshold` T. T is rounded up, so the flip
probability T / 2^64 is never below 1/(1 + e^epsilon), and the epsilon really spent,
ln((2^64 - T)/T), is never above the one asked for. De-biasing and accounting use the coin really thrown.

No float takes part in the draw. Standard library only: this runs on the device.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from privquant.errors import InvalidInput
from privquant.validation import check_epsilon

__all__ = ["Coin", "flip_threshold", "real_epsilon"]

DRAW = 2**64

# 60 digits: 2^64 has 20, so the bracket around e^epsilon below is narrower than one part in 10^39 of T.
_DOWN = Context(prec=60, rounding=ROUND_FLOOR, Emax=10**6, Emin=-(10**6))
_UP = Context(prec=60, rounding=ROUND_CEILING, Emax=10**6, Emin=-(10**6))


def flip_threshold(epsilon: float) -> int:
    """The smallest integer T with ln((2^64 - T)/T) <= epsilon: T = ceil(2^64 / (1 + e^epsilon)).

    For epsilon above ln(2^64 - 1) = 44.36 it is 1: the coin cannot be more honest than one flip in 2^64.
    """
    asked = check_epsilon(epsilon)
    if asked > 50:
        return 1
    # Decimal's exp is correctly rounded to nearest; one unit in the last place below it is a lower bound.
    grown = _DOWN.next_minus(_DOWN.exp(Decimal(asked)))
    quotient = _UP.divide(Decimal(DRAW), _DOWN.add(Decimal(1), grown))
    return min(int(quotient.to_integral_value(rounding=ROUND_CEILING)), DRAW // 2 - 1)


def real_epsilon(threshold: int) -> float:
    """The epsilon a flip threshold really gives: ln((2^64 - T)/T); the inverse of `flip_threshold`.

    Rounded to the nearest float from 60 digits, so that real_epsilon(flip_threshold(e)) <= e holds between
    floats too: a device that compares it with its own limit never refuses the coin of exactly that limit.
    """
    flips = check_flip_threshold(threshold)
    return float(_DOWN.ln(_DOWN.divide(Decimal(DRAW - flips), Decimal(flips))))


def check_flip_threshold(threshold: int) -> int:
    if isinstance(threshold, bool) or not isinstance(threshold, int) or not 1 <= threshold < DRAW // 2:
        raise InvalidInput(f"a flip threshold is a whole number from 1 to 2^63 - 1, got {threshold!r}")
    return threshold


@dataclass(frozen=True, slots=True)
class Coin:
    """A coin with flip probability threshold / 2^64. `Coin.of(epsilon)` is the most honest one that keeps epsilon.

    Parameters
    ----------
    threshold : int
        The flip threshold, 1 to 2^63 - 1.
    """

    threshold: int

    def __post_init__(self) -> None:
        check_flip_threshold(self.threshold)

    @classmethod
    def of(cls, epsilon: float) -> Coin:
        """The most honest coin that keeps `epsilon`."""
        return cls(flip_threshold(epsilon))

    @property
    def epsilon(self) -> float:
        return real_epsilon(self.threshold)

    @property
    def flip(self) -> float:
        """Probability that the bit is flipped."""
        return self.threshold / DRAW

    @property
    def kappa(self) -> float:
        """1 - 2 flip = tanh(epsilon/2): what is left of a difference in rates after the coin."""
        return (DRAW - 2 * self.threshold) / DRAW

    def report_rate(self, rate: float) -> float:
        """The rate of ones among reports when a fraction `rate` of the true bits is one."""
        return 0.5 + self.kappa * (rate - 0.5)

    def debias(self, reported: float) -> float:
        """The unbiased estimate of the true rate, from the rate of ones among reports."""
        return 0.5 + (reported - 0.5) / self.kappa

    def throw(self, bit: int) -> int:
        """`bit` after one throw, from the operating system's CSPRNG.

        The draw has a fixed size and there is no branch on the bit. Never call it twice for one measurement:
        two throws cost twice epsilon.
        """
        return self.report(bit, secrets.token_bytes(8))

    def report(self, bit: int, draw: bytes) -> int:
        """What a draw of 8 bytes, most significant first, makes of a bit: flipped iff it is below T.

        Separate from `throw` so that the shipped arithmetic can be held against test vectors.
        """
        if len(draw) != 8:
            raise InvalidInput(f"a draw has 8 bytes, got {len(draw)}")
        return (bit & 1) ^ int(int.from_bytes(draw, "big") < self.threshold)

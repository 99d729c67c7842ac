"""Random bits inside a kernel: xoshiro256++, bounded integers without bias, and a shuffle.

Each trial has its own state of four words, drawn from the Generator that the trial's block was handed. numpy's
Generator cannot be called from a kernel at this speed; this one costs about a nanosecond a draw.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant._numba import njit

_LOW32 = np.uint64(0xFFFFFFFF)
_U = np.uint64


def states(rng: np.random.Generator, trials: int) -> NDArray[np.uint64]:
    """One state a trial. All zeros, which xoshiro could not leave, has probability 2^-256."""
    return rng.integers(0, 2**64, size=(trials, 4), dtype=np.uint64)


@njit(always=True, cache=True)
def _rotated(word: Any, by: Any) -> Any:
    return (word << by) | (word >> (_U(64) - by))


@njit(always=True, cache=True)
def step(s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """One draw of xoshiro256++ (Blackman and Vigna): 64 bits, and the next state."""
    drawn = _rotated(s0 + s3, _U(23)) + s0
    shifted = s1 << _U(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = _rotated(s3, _U(45))
    return drawn, s0, s1, s2, s3


@njit(always=True, cache=True)
def below(bound: Any, s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """A uniform integer in 0 .. bound-1, bound at most 2^32 (Lemire, with rejection), and the next state."""
    while True:
        drawn, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        product = (drawn >> _U(32)) * bound
        low = product & _LOW32
        # Only the lowest 2^32 mod bound products are one too many; the division is needed once in 2^32/bound draws.
        if low >= bound or low >= (_U(1) << _U(32)) % bound:
            return product >> _U(32), s0, s1, s2, s3


@njit(always=True, cache=True)
def shuffle(values: Any, state: Any) -> None:
    """A uniform permutation in place (Fisher and Yates); at most 2^32 values."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    for i in range(values.shape[0] - 1, 0, -1):
        drawn, s0, s1, s2, s3 = below(_U(i + 1), s0, s1, s2, s3)
        j = np.int64(drawn)
        kept = values[i]
        values[i] = values[j]
        values[j] = kept
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3


@njit(always=True, cache=True)
def draw_with_replacement(values: Any, count: int, state: Any) -> Any:
    """`count` independent uniform draws from values; at most 2^32 values."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    found = np.empty(count, values.dtype)
    bound = _U(values.shape[0])
    for i in range(count):
        drawn, s0, s1, s2, s3 = below(bound, s0, s1, s2, s3)
        found[i] = values[np.int64(drawn)]
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return found


@njit(always=True, cache=True)
def reported_ones(values: Any, start: int, stop: int, threshold: int, flip: Any, state: Any) -> int:
    """How many of the users values[start:stop] report a one to "is your value at most the threshold?"."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    ones = 0
    for i in range(start, stop):
        drawn, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        ones += (values[i] <= threshold) != (drawn < flip)
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return ones

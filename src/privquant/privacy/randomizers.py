"""Local randomizers as things that can be audited: inputs, draws, and where it is known the exact law.

An auditable randomizer has `inputs` and `draw(value, n)`, which gives how often each output came out of n fresh
throws. `CoinRandomizer` is our own coin: its law in exact rationals, fast draws (the operating system's CSPRNG
in bulk, compared as integers exactly as the device does), or the device's own `throw`, one by one.
`CallableRandomizer` and `CommandRandomizer` wrap anything else.
"""

import math
import os
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from privquant.errors import InvalidInput
from privquant.privacy.coin import DRAW, Coin
from privquant.validation import check_count

__all__ = [
    "CallableRandomizer",
    "CoinRandomizer",
    "CommandRandomizer",
    "Randomizer",
    "coin_randomizer",
    "law_epsilon",
]

Law = Mapping[Hashable, Fraction]


class Randomizer(Protocol):
    """Anything that can be thrown: the contract of the audit."""

    @property
    def inputs(self) -> Sequence[Any]: ...

    def draw(self, value: Any, n: int) -> Mapping[Hashable, int]:
        """How often each output came out of n fresh and independent throws at this input."""


def law_epsilon(laws: Sequence[Law]) -> float:
    """The exact epsilon of a randomizer with these output laws, one for each input; infinity if none holds."""
    worst = Fraction(1)
    for above in laws:
        for output, chance in above.items():
            for below in laws:
                other = below.get(output, Fraction(0))
                if chance > 0 and other == 0:
                    return math.inf
                if other > 0:
                    worst = max(worst, chance / other)
    # ln of a ratio of big integers, without making a float of either.
    if worst < 2:
        return math.log1p(float(worst - 1))
    return math.log(worst.numerator) - math.log(worst.denominator)


_BULK = 1 << 18


@dataclass(frozen=True, slots=True)
class CoinRandomizer:
    """Our coin. `shipped` throws the device's own function, once a draw, instead of the bulk twin."""

    coin: Coin
    shipped: bool = False
    inputs: Sequence[int] = (0, 1)

    def law(self, value: int) -> Law:
        """The exact law of the report, given the true bit."""
        flip = Fraction(self.coin.threshold, DRAW)
        return {value: 1 - flip, 1 - value: flip}

    @property
    def epsilon(self) -> float:
        return law_epsilon([self.law(0), self.law(1)])

    def draw(self, value: int, n: int) -> Mapping[Hashable, int]:
        if self.shipped:
            throw = self.coin.throw
            ones = sum(throw(value) for _ in range(n))
        else:
            flips = 0
            for start in range(0, n, _BULK):
                size = min(_BULK, n - start)
                draws = np.frombuffer(os.urandom(8 * size), dtype=">u8")
                flips += int(np.count_nonzero(draws < np.uint64(self.coin.threshold)))
            ones = n - flips if value else flips
        return {1: ones, 0: n - ones}


@dataclass(frozen=True, slots=True)
class CallableRandomizer:
    """A function from an input to one output (hashable), called once a draw."""

    function: Callable[[Any], Hashable]
    inputs: Sequence[Any] = (0, 1)

    def draw(self, value: Any, n: int) -> Mapping[Hashable, int]:
        try:
            return Counter(self.function(value) for _ in range(n))
        except InvalidInput:
            raise
        except Exception as error:
            if isinstance(error, TypeError) and "unhashable" in str(error):
                raise InvalidInput(
                    f"the randomizer's outputs must be hashable (numbers, strings, bytes, tuples): {error}"
                ) from error
            raise InvalidInput(
                f"the randomizer failed at input {value!r}: {type(error).__name__}: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class CommandRandomizer:
    """A program that prints one output a line. `{input}` and `{draws}` in its arguments are filled in.

    It is run once for each input and part of the audit, without a shell, and must print `{draws}` lines.
    """

    command: str
    inputs: Sequence[str] = ("0", "1")
    timeout: float = 600.0

    def draw(self, value: str, n: int) -> Mapping[Hashable, int]:
        if "{input}" not in self.command or "{draws}" not in self.command:
            raise InvalidInput(f"the command must contain {{input}} and {{draws}}, got {self.command!r}")
        filled = [
            part.replace("{input}", str(value)).replace("{draws}", str(n)) for part in shlex.split(self.command)
        ]
        try:
            done = subprocess.run(filled, capture_output=True, timeout=self.timeout, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InvalidInput(f"the command cannot be audited: {error}") from error
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise InvalidInput(
                f"the command ended with code {done.returncode}: {said[-1] if said else 'it said nothing'}"
            )
        counts = Counter(done.stdout.split())
        printed = sum(counts.values())
        if printed != n:
            raise InvalidInput(f"the command was asked for {n} outputs and printed {printed}, one a line")
        return {output.decode(errors="replace"): count for output, count in counts.items()}


def coin_randomizer(epsilon: float, *, shipped: bool = False) -> CoinRandomizer:
    """Our coin at an epsilon."""
    return CoinRandomizer(Coin.of(epsilon), shipped)


def check_draws(counts: Mapping[Hashable, int], n: int, value: Any) -> Mapping[Hashable, int]:
    """A randomizer that lost or invented draws cannot be audited."""
    total = sum(check_count(count, "a count of draws") for count in counts.values())
    if total != n:
        raise InvalidInput(f"the randomizer was thrown {n} times at input {value!r} and gave {total} outputs")
    return counts

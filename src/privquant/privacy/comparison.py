"""The methods of accounting side by side, and what a better one saves in users.

One measure is the coin-noise error: the standard deviation that the coins alone add to a rate estimated from a
batch of b reports, sqrt(p q / b) / (p - q). The same (epsilon, delta) allows a more honest coin under a tighter
account, so the same error needs fewer users. The other is what a user of the result sees where the batch is itself
a sample: coin noise and the sampling error of b people together, at a rate of one half.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from privquant.errors import InvalidInput
from privquant.privacy import shuffle
from privquant.privacy.coin import Coin
from privquant.validation import check_count


def coin_noise(local_epsilon: float, batch: int) -> float:
    """Standard deviation of the estimated rate that the coins of a batch cause."""
    coin = Coin.of(local_epsilon)
    return math.sqrt(coin.flip * (1.0 - coin.flip) / check_count(batch, "batch", 1)) / coin.kappa


def whole_error(local_epsilon: float, batch: int) -> float:
    """Standard deviation of the estimated rate of a population from which the batch was drawn, at a rate of 1/2."""
    return math.hypot(coin_noise(local_epsilon, batch), 0.5 / math.sqrt(batch))


@dataclass(frozen=True, slots=True)
class MethodResult:
    """One method: the coin it allows, or the epsilon it gives to a coin; and the coin's noise."""

    method: str
    epsilon: float
    local_epsilon: float
    noise: float
    noise_users: float


def coins_by_method(
    *,
    epsilon: float,
    delta: float,
    batch: int,
    cap: float | None = None,
    colluding: float = 0.0,
    rtol: float = 1e-3,
    methods: Iterable[str] = shuffle.METHODS,
) -> list[MethodResult]:
    """For every method the most honest coin that keeps (epsilon, delta) in a batch.

    Where the cap decides, a smaller epsilon is reached than asked for, and the result has that one. A fraction
    `colluding` of all users, of whom the batch is a random part, is counted at its worst (see `shuffle.guarantee`).
    """
    results = []
    honest, d = shuffle.at_worst(batch, colluding, delta)
    for method in methods:
        local = shuffle.local_epsilon(epsilon=epsilon, delta=d, batch=honest, method=method, cap=cap, rtol=rtol)
        reached = epsilon
        if cap is not None and local >= cap:
            reached = shuffle.epsilon(local_epsilon=local, batch=honest, delta=d, method=method, rtol=rtol)
        noise = coin_noise(local, batch)
        results.append(MethodResult(method, min(epsilon, reached), local, noise, noise * batch))
    return results


def epsilons_by_method(
    *, local_epsilon: float, delta: float, batch: int, colluding: float = 0.0, rtol: float = 1e-3
) -> list[MethodResult]:
    """For every method the epsilon it gives to a coin that is already chosen."""
    noise = coin_noise(local_epsilon, batch)
    honest, d = shuffle.at_worst(batch, colluding, delta)
    results = []
    for method in shuffle.METHODS:
        reached = shuffle.epsilon(local_epsilon=local_epsilon, batch=honest, delta=d, method=method, rtol=rtol)
        results.append(MethodResult(method, reached, local_epsilon, noise, noise * batch))
    return results


@dataclass(frozen=True, slots=True)
class Saving:
    """A batch accounted for exactly, and the batches that another method needs for the same error.

    `needed` is for the same coin noise, `needed_of_a_sample` for the same whole error where the batch is a sample.
    """

    epsilon: float
    batch: int
    local_epsilon: float
    noise: float
    method: str
    needed: int
    needed_of_a_sample: int

    @property
    def ratio(self) -> float:
        return self.needed / self.batch

    @property
    def ratio_of_a_sample(self) -> float:
        return self.needed_of_a_sample / self.batch

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"ratio": self.ratio, "ratio_of_a_sample": self.ratio_of_a_sample}


def users_needed(
    *,
    noise: float,
    epsilon: float,
    delta: float,
    method: str,
    least: int = 1,
    error: Callable[[float, int], float] = coin_noise,
) -> int:
    """The smallest batch whose error (coin noise, unless another is given) is at most `noise` by `method`."""

    def enough(batch: int) -> bool:
        local = shuffle.local_epsilon(epsilon=epsilon, delta=delta, batch=batch, method=method)
        return error(local, batch) <= noise

    low, high = least - 1, least
    while not enough(high):
        if high >= shuffle.LARGEST_BATCH:
            raise InvalidInput(f"an error of {noise:g} needs more than {shuffle.LARGEST_BATCH} users")
        low, high = high, min(2 * high, shuffle.LARGEST_BATCH)
    return low + 1 + bisect_left(range(low + 1, high), True, key=enough)


def saving(*, epsilon: float, delta: float, batch: int, method: str = "lemma") -> Saving:
    """How many users `method` (the paper's lemma) needs for the error that `batch` users have exactly."""
    local = shuffle.local_epsilon(epsilon=epsilon, delta=delta, batch=batch)
    noise = coin_noise(local, batch)
    least = max(1, batch // 2)
    needed = users_needed(noise=noise, epsilon=epsilon, delta=delta, method=method, least=least)
    whole = whole_error(local, batch)
    sampled = users_needed(noise=whole, epsilon=epsilon, delta=delta, method=method, least=least, error=whole_error)
    return Saving(epsilon, batch, local, noise, method, needed, sampled)


EPSILONS = (0.1, 0.5, 1.0, 2.0)
BATCHES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


def savings(*, delta: float, batches: Sequence[int] = BATCHES) -> list[Saving]:
    """The table: every epsilon with every batch."""
    return [saving(epsilon=epsilon, delta=delta, batch=batch) for epsilon in EPSILONS for batch in batches]

"""The coins of shuffled rounds, as a plan needs them: fast, for any number of users.

A round's coin follows from its size by exact accounting, some 0.1 s each. A plan tries many numbers of users, so
the local epsilon is accounted for on a grid of round sizes (a factor of two apart) and read between them: linear in
the logarithm of the size, within 7 % of the exact one. Beyond the largest it grows as the logarithm itself.
"""

from __future__ import annotations

import math
from functools import lru_cache

from privquant.planning.limits import kappa_of
from privquant.privacy.shuffle import local_epsilon
from privquant.protocols.isotonic.shuffled import round_sizes
from privquant.protocols.naive.bracket import batch_sizes, rounds_for

_LARGEST = 24  # log2 of the largest round that is accounted for
_PRECISION = 1e-2


@lru_cache(maxsize=4096)
def _on_grid(power: int, epsilon: float, delta: float, method: str) -> float:
    found = local_epsilon(epsilon=epsilon, delta=delta, batch=2**power, method=method, rtol=_PRECISION)
    return max(found, epsilon)


def coin_of_round(batch: float, epsilon: float, delta: float, method: str = "exact") -> float:
    """The local epsilon of the coin that a round of `batch` users may throw."""
    place = math.log2(max(batch, 1.0))
    if place >= _LARGEST:
        return _on_grid(_LARGEST, epsilon, delta, method) + (place - _LARGEST) * math.log(2.0)
    low = math.floor(place)
    below, above = (_on_grid(power, epsilon, delta, method) for power in (low, low + 1))
    return below + (place - low) * (above - below)


def rounds_of(protocol: str, users: float, epsilon: float, size: int) -> list[int]:
    """The users of each round of a shuffled run."""
    count = max(int(users), 1)
    if protocol == "naive":
        return [batch for batch in batch_sizes(count, rounds_for(size)) if batch > 0]
    return round_sizes(count, epsilon, size)


@lru_cache(maxsize=4096)
def shuffled_kappa(protocol: str, users: float, epsilon: float, delta: float, size: int, method: str) -> float:
    """kappa of the one coin that would tell as much as those of all rounds: the root of the mean of kappa^2."""
    rounds = rounds_of(protocol, users, epsilon, size)
    if not rounds:
        return kappa_of(epsilon)
    told = math.fsum(n * kappa_of(coin_of_round(n, epsilon, delta, method)) ** 2 for n in rounds)
    return math.sqrt(told / math.fsum(rounds))


@lru_cache(maxsize=256)
def liars_face(users: float, epsilon: float, delta: float, size: int) -> float:
    """The epsilon of the one coin under which liars could do as much as in isotonic search's shuffled rounds.

    A round's shift of rank is in proportion to 1/kappa, and its weight in the fit to users * kappa^2.
    """
    rounds = rounds_of("isotonic", users, epsilon, size)
    kappas = [kappa_of(coin_of_round(n, epsilon, delta)) for n in rounds]
    told = math.fsum(n * k * k for n, k in zip(rounds, kappas, strict=True))
    moved = math.fsum(n * k for n, k in zip(rounds, kappas, strict=True))
    return 2.0 * math.atanh(min(told / moved, 1.0 - 1e-12))

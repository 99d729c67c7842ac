"""The bounds for any randomizer: their own definition summed term by term, and randomizers they must cover."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from math import comb

import pytest

from privquant.privacy import shuffle
from privquant.privacy.shuffle_bounds import (
    clone_rate,
    clones_bracket,
    lemma_delta,
    lemma_epsilon,
    theorem_delta,
    theorem_epsilon,
    within_theorem,
)


def _clones_by_definition(rate: float, epsilon: float, local: float, batch: int) -> float:
    """(A + D, C - A + 1 - D) against its mirror image, D ~ Bernoulli(p): every outcome, one by one."""
    p = 1 / (1 + math.exp(-local))
    total = 0.0
    for c in range(batch):
        weight = comb(batch - 1, c) * rate**c * (1 - rate) ** (batch - 1 - c)
        law = [comb(c, a) / 2**c for a in range(c + 1)]
        for first in range(c + 2):
            here = law[first] if first <= c else 0.0
            before = law[first - 1] if first >= 1 else 0.0
            one, other = p * before + (1 - p) * here, (1 - p) * before + p * here
            total += weight * max(0.0, one - math.exp(epsilon) * other)
    return total


@pytest.mark.parametrize("method", ["stronger", "clones"])
@pytest.mark.parametrize("batch", [1, 2, 3, 10, 37, 60])
def test_the_clone_bounds_are_their_definition(method: str, batch: int) -> None:
    for local in (0.1, 1.0, 3.0):
        for share in (0.0, 0.1, 0.5, 0.9):
            epsilon = share * local
            truth = _clones_by_definition(clone_rate(method, local), epsilon, local, batch)
            found = clones_bracket(method, epsilon, local, batch, 1e-6)
            assert found.lower <= truth * (1 + 1e-9) + 1e-15
            assert truth * (1 - 1e-9) - 1e-15 <= found.upper <= truth * (1 + 2e-6) + 1e-15


def _shuffled_law(inputs: tuple[int, ...], laws: list[list[float]]) -> dict[tuple[int, ...], float]:
    """The law of the histogram of reports."""
    k = len(laws[0])
    law = {(0,) * k: 1.0}
    for value in inputs:
        grown: dict[tuple[int, ...], float] = {}
        for histogram, chance in law.items():
            for output in range(k):
                key = (*histogram[:output], histogram[output] + 1, *histogram[output + 1 :])
                grown[key] = grown.get(key, 0.0) + chance * laws[value][output]
        law = grown
    return law


def _shuffled_delta(laws: list[list[float]], batch: int, epsilon: float) -> float:
    """The worst over all inputs of the others and all changes of one user."""
    worst = 0.0
    values = range(len(laws))
    for others in combinations_with_replacement(values, batch - 1):
        found = [_shuffled_law((value, *others), laws) for value in values]
        for one in found:
            for two in found:
                if one is not two:
                    factor = math.exp(epsilon)
                    worst = max(worst, sum(max(0.0, p - factor * two[key]) for key, p in one.items()))
    return worst


def _k_ary(k: int, local: float) -> list[list[float]]:
    """k-ary randomized response."""
    rest = math.exp(local) + k - 1
    return [[(math.exp(local) if x == y else 1.0) / rest for y in range(k)] for x in range(k)]


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("batch", [2, 5])
def test_the_general_bounds_cover_k_ary_randomized_response(k: int, batch: int) -> None:
    for local in (0.5, 2.0):
        for share in (0.05, 0.5):
            truth = _shuffled_delta(_k_ary(k, local), batch, share * local)
            for method in ("stronger", "clones", "theorem", "lemma"):
                bound = shuffle.delta(epsilon=share * local, local_epsilon=local, batch=batch, method=method)
                assert bound >= truth * (1 - 1e-12)


def _three_ways(local: float) -> list[list[float]]:
    """Two inputs that look like the coin's and a third that hides them as little as local privacy allows."""
    g = math.exp(local)
    aside = (1 - 2 / (1 + g)) / (g - 2 / (1 + g))
    heads, tails = (1 - aside) * g / (1 + g), (1 - aside) / (1 + g)
    return [[heads, tails, aside], [tails, heads, aside], [tails, tails, 1 - 2 * tails]]


def test_the_exact_method_is_for_the_coin_only() -> None:
    """Twin: a randomizer of the same local epsilon breaks what "exact" says, so the check above can fail."""
    local, epsilon, batch = 2.0, 0.2, 8
    laws = _three_ways(local)
    odds = max(a[y] / b[y] for a in laws for b in laws for y in range(3))
    assert math.log(odds) == pytest.approx(local, rel=1e-12)
    one, two = (_shuffled_law((value, *[2] * (batch - 1)), laws) for value in (0, 1))
    truth = sum(max(0.0, p - math.exp(epsilon) * two.get(key, 0.0)) for key, p in one.items())
    assert truth > 1.04 * shuffle.delta(epsilon=epsilon, local_epsilon=local, batch=batch, method="exact")
    for method in ("stronger", "clones", "theorem", "lemma"):
        assert truth <= shuffle.delta(epsilon=epsilon, local_epsilon=local, batch=batch, method=method)


def test_the_ladder_is_in_order() -> None:
    """Each rung is at least as good as the one before: lemma, theorem, clones, stronger, exact."""
    for batch in (10, 1_000, 100_000):
        for epsilon in (0.05, 0.5, 1.0, 2.0):
            found = [
                shuffle.local_epsilon(epsilon=epsilon, delta=1e-6, batch=batch, method=method)
                for method in shuffle.METHODS
            ]
            assert all(better >= worse * (1 - 1e-3) for better, worse in zip(found, found[1:], strict=False))
            assert found[-1] >= epsilon


def test_the_closed_forms_are_inverse_to_each_other() -> None:
    for local in (0.5, 2.0, 5.0):
        for delta in (1e-4, 1e-8):
            for to_epsilon, to_delta in ((theorem_epsilon, theorem_delta), (lemma_epsilon, lemma_delta)):
                epsilon = to_epsilon(local, 10**6, delta)
                assert to_delta(epsilon * (1 + 1e-13), local, 10**6) == pytest.approx(delta, rel=1e-9)


def test_the_closed_forms_say_nothing_outside_the_theorem() -> None:
    assert not within_theorem(5.0, 1000, 1e-8)
    assert theorem_epsilon(5.0, 1000, 1e-8) == lemma_epsilon(5.0, 1000, 1e-8) == math.inf
    # From about 2.3 on the lemma leaves the theorem's range: no larger coin than at its edge.
    at_3 = shuffle.local_epsilon(epsilon=3.0, delta=1e-8, batch=10**5, method="lemma")
    assert at_3 < math.log(9.0 * 10**5 / (80 * math.log(4e8)))
    assert within_theorem(at_3, 10**5, 1e-8)


def test_the_lemma_is_the_papers_formula() -> None:
    for epsilon in (0.1, 0.5, 1.0):
        formula = math.log(epsilon**2 * 10**7 / (80 * math.log(4e8)))
        assert shuffle.local_epsilon(epsilon=epsilon, delta=1e-8, batch=10**7, method="lemma") == pytest.approx(
            formula, rel=1e-12
        )


def test_where_the_lemma_starts() -> None:
    """At B = 4^8 (16 batches), delta = 1e-8 the lemma starts at n = 2.54e6, 1.01e5, 2.54e4 users."""
    for epsilon, users in ((0.1, 2.54e6), (0.5, 1.01e5), (1.0, 2.54e4)):
        edge = 16 * 80 * math.log(4e8) / epsilon**2
        assert edge == pytest.approx(users, rel=0.01)
        batch = math.floor(edge / 16)
        assert shuffle.local_epsilon(epsilon=epsilon, delta=1e-8, batch=batch, method="lemma") == epsilon

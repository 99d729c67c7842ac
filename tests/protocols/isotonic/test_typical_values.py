"""The range of values that is called typical: it holds as often as it says, and is what a plain search finds."""

from __future__ import annotations

import numpy as np
import pytest

import privquant as pq
from privquant.error_words import Typical
from privquant.protocols.isotonic.curve import Seen, fit_curve, log_likelihood, normal_score, place_range

KAPPA = 0.46


@pytest.fixture(scope="module")
def ranges() -> list[tuple[float, float, float, float]]:
    """(low, answer, high, truth) of those of 200 runs in which something is typical."""
    found = []
    for number in range(200):
        rng = np.random.default_rng([11, number])
        values = np.clip(rng.normal(5000, 1000, 300), 0, 9999).astype(int)
        answer = pq.median(values, domain=(0, 9999), epsilon=1.0, rng=rng)
        if isinstance(answer.typical, Typical):
            truth = float(np.quantile(values, 0.5, method="inverted_cdf"))
            found.append((answer.typical.low, answer.value, answer.typical.high, truth))
    return found


def test_the_truth_lies_in_the_range(ranges) -> None:
    # Measured: .92 to .96 for runs as small as these, of which .88 is missed by less than one in 1,000 sets of 200.
    assert len(ranges) >= 180
    assert np.mean([low <= truth <= high for low, _, high, truth in ranges]) >= 0.88


def test_half_the_range_would_not_do(ranges) -> None:
    held = [(answer + low) / 2 <= truth <= (answer + high) / 2 for low, answer, high, truth in ranges]
    assert np.mean(held) < 0.88


@pytest.mark.parametrize("seed", range(4))
def test_the_ends_are_those_of_a_plain_search_over_all_curves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(0.0, 0.4, 40))
    n = rng.integers(5, 80, 40).astype(float)
    share = 1.0 / (1.0 + np.exp(-2.5 * (x - 0.1)))
    s = rng.binomial(n.astype(int), 0.5 + KAPPA * (share - 0.5)).astype(float)
    seen = Seen(x, n, s, KAPPA, 0.01, normal_score(0.5))
    best = fit_curve(seen)
    most = log_likelihood(seen, best)
    low, high = place_range(seen, best, 2.0)
    speeds, ratios = best[1] + np.linspace(-3, 3, 61), np.linspace(-1.2, 1.2, 25)

    def lost(place: float) -> float:
        grid = (np.array([place, speed, ratio]) for speed in speeds for ratio in ratios)
        return 2.0 * (most - max(log_likelihood(seen, curve) for curve in grid))

    # 2 standard deviations are a loss of 4; the ends are found to 3 % of the 2, the plain search to its grid.
    assert lost(low) == pytest.approx(4.0, abs=0.5)
    assert lost(high) == pytest.approx(4.0, abs=0.5)
    assert low < best[0] < high

"""The sign of a lump: what its definition says, large where there is one, small where there is none."""

import math

import numpy as np
import pytest

from privquant.protocols.isotonic.curve import Seen, fit_curve, normal_score
from privquant.protocols.isotonic.jumps import strongest_jump

KAPPA, LEAST, QUANTILE = 0.6, 1e-3, 0.5
HEIGHT = float(normal_score(QUANTILE))


def seen(x, n, s):
    return Seen(x, n, s, KAPPA, LEAST, HEIGHT)


def smooth(x):
    return 0.5 * (1 + math.erf(0.7 * x / math.sqrt(2)))


def heard(rng, share, places=60, each=40):
    """Reports at evenly spaced places of a distribution function, and the curve fitted to them."""
    x = np.linspace(-1.5, 1.5, places)
    n = np.full(places, float(each))
    s = np.array([float(rng.binomial(each, 0.5 + KAPPA * (share(one) - 0.5))) for one in x])
    return x, n, s, fit_curve(seen(x, n, s))


def by_definition(x, n, s, curve, first, last):
    """Least squares in the metric of the information: each direction as a vector, by finite differences."""

    def shares(parameters):
        away = x - parameters[0]
        speed = np.exp(parameters[1] + np.where(away < 0, -0.5, 0.5) * parameters[2])
        return np.array([0.5 * math.erfc(-(HEIGHT + v) / math.sqrt(2)) for v in speed * away])

    rate = 0.5 + KAPPA * (shares(curve) - 0.5)
    scale = np.sqrt(n / (rate * (1 - rate)))
    residual = (s / n - rate) * scale
    step = 1e-6
    tangents = []
    for i in range(3):
        up, down = curve.copy(), curve.copy()
        up[i] += step
        down[i] -= step
        tangents.append(KAPPA * (shares(up) - shares(down)) / (2 * step) * scale)
    # the normal prior of the ratio is one more observation: of the ratio, with this standard deviation
    rows = np.column_stack([*tangents])
    rows = np.vstack([rows, [0, 0, 1 / 0.35]])
    residual = np.append(residual, -curve[2] / 0.35)
    best = 0.0
    for k in range(first, last + 1):
        jump = np.append(KAPPA * ((np.arange(x.size) >= k) - shares(curve)) * scale, 0.0)
        fitted, *_ = np.linalg.lstsq(rows, jump, rcond=None)
        rest = jump - rows @ fitted
        best = max(best, float(rest @ residual) / math.sqrt(float(rest @ rest)))
    return best


@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_score_that_its_definition_says(seed):
    x, n, s, curve = heard(np.random.default_rng(seed), smooth)
    # uneven weights, as outside the window
    n[:15] *= 0.3
    s[:15] *= 0.3
    curve = fit_curve(seen(x, n, s))
    found = strongest_jump(seen(x, n, s), curve, 10, 50)
    assert found == pytest.approx(by_definition(x, n, s, curve, 10, 50), rel=1e-3, abs=1e-6)


def signs(share, trials, seed):
    rng = np.random.default_rng(seed)
    return [
        float(strongest_jump(seen(x, n, s), curve, 5, 54))
        for x, n, s, curve in (heard(rng, share) for _ in range(trials))
    ]


def test_chance_makes_a_small_one_and_a_lump_a_large_one():
    """200 runs of each: nine of ten without a lump stay below 3, and hardly one with half of all on one value."""

    def lumpy(x):
        return 0.5 * smooth(x) + (0.5 if x >= 0.2 else 0.0)

    assert np.mean(np.array(signs(smooth, 200, 1)) < 3.0) > 0.9
    assert np.mean(np.array(signs(lumpy, 200, 2)) < 3.0) < 0.05


def test_a_place_beyond_all_reports_is_no_sign():
    x, n, s, curve = heard(np.random.default_rng(3), smooth)
    assert strongest_jump(seen(x, n, s), curve, 60, 80) == 0.0

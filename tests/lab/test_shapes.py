"""Shapes: users stay in the domain, and the quantile said to be the population's is."""

import numpy as np
import pytest

from privquant.errors import InvalidInput
from privquant.lab.shapes import SHAPES, distribution, shape

N = 40_000


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("size", [1, 2, 3, 256, 4**9, 2**63])
def test_users_lie_in_the_domain_and_quantiles_are_the_populations(name, size):
    """F(v-1) < q <= F(v), seen to within 5 deviations of a sample of 40,000; false alarm below 1e-4 in all."""
    rng = np.random.default_rng(SHAPES.index(name))
    law = distribution(name, size, rng)
    users = law.draw(N, rng)
    assert users.dtype == np.int64
    assert users.min() >= 0
    assert users.max() <= size - 1
    for q in (0.01, 0.25, 0.5, 0.9):
        slack = 5 * np.sqrt(q * (1 - q) / N)
        v = law.quantile(q)
        assert (users < v).mean() < q + slack
        assert (users <= v).mean() > q - slack


def test_a_wrong_quantile_would_be_noticed():
    rng = np.random.default_rng(0)
    law = distribution("pareto", 4**9, rng)
    users = law.draw(N, rng)
    assert (users <= law.quantile(0.47)).mean() < 0.5 - 5 * np.sqrt(0.25 / N)


def test_hard_spots_are_where_they_are_said_to_be():
    rng = np.random.default_rng(2)
    assert np.unique(shape("const", 500, 2**40, rng)).size == 1
    assert np.unique(shape("ties", 5000, 10**6, rng)).size <= 60
    tiny = shape("tiny", 5000, 2**32, rng)
    assert tiny.max() - tiny.min() < 2**9.6
    atom = shape("atom", 5000, 2**32, rng)
    assert np.unique(atom, return_counts=True)[1].max() / 5000 == pytest.approx(0.35, abs=0.04)
    law = distribution("gap48", 10**6, rng)
    assert law.quantile(0.5) - law.quantile(0.47) > 0.3 * 10**6
    hard = np.unique(shape("hard", 5000, 100, rng), return_counts=True)
    assert hard[0][[0, -1]].tolist() == [0, 99]
    assert hard[1] / 5000 == pytest.approx([0.42, 0.16, 0.42], abs=0.04)


def test_equal_seeds_give_equal_users():
    for name in SHAPES:
        one, other = (shape(name, 50, 10**6, np.random.default_rng(3)) for _ in range(2))
        assert (one == other).all()


def test_unknown_shapes_are_refused():
    with pytest.raises(InvalidInput, match="shape must be one of 'pareto'"):
        shape("blob", 5, 5, np.random.default_rng(0))
    with pytest.raises(InvalidInput, match="at most 2\\^63"):
        shape("flat", 5, 2**64, np.random.default_rng(0))

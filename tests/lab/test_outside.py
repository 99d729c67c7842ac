"""The truth of data with values outside the domain, against the values themselves."""

import numpy as np
import pyarrow as pa
import pytest

from privquant.domain import Grid, Integers
from privquant.lab.data.outside import Truth

DOMAIN = Integers(0, 9)


def by_definition(values, index, q):
    """Distance of q to [F(v-1), F(v)], counted."""
    v = DOMAIN.value(index)
    below, upto = np.mean(np.asarray(values) < v), np.mean(np.asarray(values) <= v)
    return max(0.0, below - q, q - upto)


@pytest.mark.parametrize("seed", range(5))
def test_against_the_values_themselves(seed):
    values = np.random.default_rng(seed).integers(-8, 18, 101)
    truth = Truth.of(values, DOMAIN)
    assert (truth.column.below, truth.column.above) == ((values < 0).sum(), (values > 9).sum())
    for q in (0.001, 0.1, 0.5, 0.77, 0.999):
        assert truth.quantile(q, DOMAIN) == np.quantile(values, q, method="inverted_cdf")
        for index in range(10):
            assert truth.rank_error(index, q) == pytest.approx(by_definition(values, index, q), abs=1e-12)


def test_the_clamped_truth_would_have_been_wrong():
    """The twin: what is counted after clamping finds no error at all."""
    values = np.full(100, 50)
    truth = Truth.of(values, DOMAIN)
    assert float(truth.sample.rank_error(np.array([9]), 0.5)[0]) == 0.0
    assert truth.rank_error(9, 0.5) == 0.5
    assert truth.quantile(0.5, DOMAIN) == 50


@pytest.mark.parametrize(
    "values",
    [
        [-1, 3, 12, None],
        [-1.0, 3.0, 12.0, float("nan")],
        pa.array([-1, 3, 12, None]),
        pa.chunked_array([[-1, 3], [12, None]]),
    ],
)
def test_any_column(values):
    truth = Truth.of(values, DOMAIN, missing="drop")
    assert (truth.column.below, truth.column.above) == (1, 1)
    assert [truth.quantile(q, DOMAIN) for q in (0.2, 0.5, 0.9)] == [-1, 3, 12]


def test_infinite_values_and_bins():
    assert Truth.of([1.0, float("inf")], DOMAIN).quantile(0.9, DOMAIN) == float("inf")
    grid = Grid([0.0, 5.0])
    truth = Truth.of([-3.0, 2.0, 99.0], grid)
    assert truth.column.clamped == 0
    assert [truth.quantile(q, grid) for q in (0.1, 0.5, 0.9)] == [0.0, 5.0, float("inf")]
    assert truth.rank_error(2, 0.9) == 0.0

"""What is claimed of the Bayesian engine's speed and memory, as ratios from one run of its benchmark."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from privquant._numba import HAVE_NUMBA

pytestmark = pytest.mark.skipif(not HAVE_NUMBA, reason="the kernels need numba")


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))
    try:
        import bayes
    finally:
        sys.path.pop(0)
    return bayes


def test_a_user_costs_a_five_thousandth_of_the_dense_update(benchmark: ModuleType) -> None:
    assert benchmark.against_dense(n=10**6, turns=2)["ratio"] >= 5000


def test_a_user_costs_no_more_among_more_users(benchmark: ModuleType) -> None:
    assert benchmark.growth((10**5, 10**6), turns=5)[-1]["ratio"] <= 1.5


@pytest.mark.full
def test_ten_million_users(benchmark: ModuleType) -> None:
    """n = 10^7 on the Pareto data: 5000 times the dense update, growth from 10^5 of at most 1.5, below 1 GB."""
    assert benchmark.against_dense()["ratio"] >= 5000
    assert benchmark.growth()[-1]["ratio"] <= 1.5
    assert benchmark.memory()["peak_mib"] < 1e9 / 2**20
    assert benchmark.memory(size=2**63, data="uniform")["peak_mib"] < 1e9 / 2**20

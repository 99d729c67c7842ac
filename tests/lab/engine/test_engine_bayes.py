"""The Bayesian engine against its slow twins: a dense posterior, step by step, and the protocol object itself."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from privquant._numba import HAVE_NUMBA
from privquant.domain import Integers
from privquant.lab.engine import Setting, bayes, simulate_by_asking, simulator
from privquant.lab.engine.bayes import draw_with_replacement, shuffle, states, step
from privquant.lab.sample import Sample
from privquant.messages import Query, Report
from privquant.protocols.base import Protocol
from privquant.protocols.bayes.bayeslearn import BayesLearn
from privquant.protocols.registry import protocol

pytestmark = pytest.mark.skipif(not HAVE_NUMBA, reason="the kernels need numba")


def draw(words: tuple[np.uint64, ...]) -> tuple[int, tuple[np.uint64, ...]]:
    """One draw outside a kernel, where words come back as plain integers."""
    drawn, *following = step(*words)
    return int(drawn), tuple(np.uint64(word) for word in following)


def visited_path(template: BayesLearn, crowd: NDArray[np.int64], state: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The cell of every step of the engine's learner, for a crowd in the order it is asked."""
    path = np.empty(template.users, np.int64)
    bayes._learned(template, bayes._room(template), crowd, state, path=path)
    return path


def dense_path(template: BayesLearn, crowd: NDArray[np.int64], state: NDArray[np.uint64]) -> list[int]:
    """Algorithm 2 with one weight a cell, on the same random bits as the kernel."""
    cells, channel = template.cells, template.channel
    w = np.full(cells, 1.0 / cells)
    words = tuple(state)
    path = []
    for value in crowd:
        target = channel.q * w.sum()
        j = min(int(np.searchsorted(np.cumsum(w), target)), cells - 1)
        path.append(j)
        left, right = float(w[:j].sum()), float(w[j + 1 :].sum())
        at_left = template.coin_rule == "published" or channel.q * right <= (1 - channel.q) * left
        threshold = min(max(j + template.bottom - (1 if at_left else 0), 0), template.domain.size - 2)
        drawn, words = draw(words)
        bit = int((value <= threshold) != (drawn < template.coin.threshold))
        part = min(max(target - left, 0.0), float(w[j]))
        here = channel.left[bit] * part + channel.right[bit] * (w[j] - part)
        if template.update == "counts":
            here = w[j] * (channel.right[bit] if at_left else channel.left[bit])
        w[:j] *= channel.left[bit]
        w[j + 1 :] *= channel.right[bit]
        w[j] = here
        w /= w.sum()
    return path


@pytest.mark.parametrize("update", ["text", "counts"])
@pytest.mark.parametrize("coin_rule", ["text", "published"])
@pytest.mark.parametrize(
    ("size", "quantile"), [(2, 0.37), (3, 0.5), (65, 0.5), (257, 0.37), (2048, 0.5), (999, 0.9)]
)
def test_the_kernel_visits_the_cells_of_the_dense_posterior(
    size: int, quantile: float, coin_rule: str, update: str
) -> None:
    rng = np.random.default_rng(size)
    users = 700
    template = protocol(
        "bayeslearn",
        Integers(0, size - 1),
        users=users,
        epsilon=1.0,
        quantile=quantile,
        coin_rule=coin_rule,
        update=update,
        alpha=0.011,
    )
    assert isinstance(template, BayesLearn)
    for seed in range(3):
        crowd = rng.integers(0, size, users)
        state = np.random.SeedSequence(seed).generate_state(4, np.uint64)
        path = visited_path(template, crowd, state.copy())
        assert path.tolist() == dense_path(template, crowd, state)


def object_path(template: BayesLearn, crowd: NDArray[np.int64], state: NDArray[np.uint64]) -> list[int]:
    """The cells the protocol object visits, interpreted, on the same random bits as the kernel."""
    made, words, path = template.fresh(), tuple(state), []
    assert isinstance(made, BayesLearn)
    for value in crowd:
        path.append(made._posterior.cell)
        query = made.ask(1)[0]
        assert isinstance(query, Query)
        drawn, words = draw(words)
        made.tell([Report(query, int((value <= query.threshold) != (drawn < template.coin.threshold)))])
    return path


@pytest.mark.parametrize(("size", "quantile"), [(3, 0.37), (257, 0.9), (4**9, 0.5), (10**6, 0.2)])
def test_the_protocol_object_and_the_kernel_visit_the_same_cells(size: int, quantile: float) -> None:
    """One posterior, interpreted and compiled, over hundreds of blocks; sums differ in their last bits alone."""
    template = protocol("bayeslearn", Integers(0, size - 1), users=4000, epsilon=1.0, quantile=quantile)
    assert isinstance(template, BayesLearn)
    crowd = np.random.default_rng(size).integers(0, size, 4000)
    state = np.random.SeedSequence(1).generate_state(4, np.uint64)
    assert visited_path(template, crowd, state.copy()).tolist() == object_path(template, crowd, state)


def test_a_twin_that_cuts_elsewhere_visits_other_cells() -> None:
    """The comparison above can fail: another alpha leaves the path."""
    settings = {"users": 300, "epsilon": 1.0}
    one = protocol("bayeslearn", Integers(0, 64), alpha=0.05, **settings)
    other = protocol("bayeslearn", Integers(0, 64), alpha=0.051, **settings)
    assert isinstance(one, BayesLearn)
    assert isinstance(other, BayesLearn)
    crowd = np.random.default_rng(0).integers(0, 65, 300)
    state = np.random.SeedSequence(0).generate_state(4, np.uint64)
    assert visited_path(one, crowd, state.copy()).tolist() != dense_path(other, crowd, state)


def _twins(name: str, **options: object) -> tuple[Protocol, Sample]:
    size, users = 500, 250
    values = np.minimum(np.random.default_rng(7).pareto(1.5, users) * 60, size - 1).astype(np.int64)
    return protocol(name, Integers(0, size - 1), users=users, epsilon=1.5, **options), Sample(values, size)


TWINS = [
    ("bayeslearn", {}, "empirical"),
    ("bayeslearn", {"quantile": 0.8}, "statistical"),
    ("bayeslearn", {"update": "counts"}, "empirical"),
    ("bayess", {}, "empirical"),
    ("bayess", {"behaviour": "published"}, "empirical"),
    ("bayess", {"final": "test", "quantile": 0.3}, "statistical"),
]


@pytest.mark.parametrize(("name", "options", "draw"), TWINS)
def test_engine_and_protocol_object_have_one_law(name: str, options: dict, draw: str) -> None:
    """Two-sample Kolmogorov-Smirnov on the answers; false-alarm rate 1e-4 a case, fixed seeds."""
    template, sample = _twins(name, **options)
    assert simulator(template) is bayes.simulate
    fast = bayes.simulate(template, sample, 1500, np.random.default_rng(11), Setting(draw))[:, 0]
    slow = simulate_by_asking(template, sample, 120, np.random.default_rng(12), Setting(draw))[:, 0]
    assert stats.ks_2samp(fast, slow).pvalue > 1e-4


def test_a_biased_twin_is_noticed() -> None:
    """The test above can fail: an engine that searches for a slightly higher quantile is told apart."""
    template, sample = _twins("bayeslearn")
    biased = protocol("bayeslearn", template.domain, users=250, epsilon=1.5, quantile=0.56)
    fast = bayes.simulate(biased, sample, 1500, np.random.default_rng(11))[:, 0]
    slow = simulate_by_asking(template, sample, 120, np.random.default_rng(12))[:, 0]
    assert stats.ks_2samp(fast, slow).pvalue < 1e-4


def test_xoshiro_gives_its_published_sequence() -> None:
    """The first words from the state 1, 2, 3, 4, as printed with the reference implementation."""
    words = tuple(np.array([1, 2, 3, 4], np.uint64))
    found = []
    for _ in range(4):
        drawn, words = draw(words)
        found.append(drawn)
    assert found == [41943041, 58720359, 3588806011781223, 3591011842654386]


def test_every_permutation_is_equally_likely() -> None:
    """Chi-square over the 120 orders of 5 values, 60 000 shuffles; false-alarm rate 1e-4."""
    state = states(np.random.default_rng(3), 1)[0]
    seen: dict[tuple[int, ...], int] = {}
    values = np.arange(5)
    for _ in range(60_000):
        shuffle(values, state)
        key = tuple(values.tolist())
        seen[key] = seen.get(key, 0) + 1
    assert len(seen) == 120
    assert stats.chisquare(list(seen.values())).pvalue > 1e-4


def test_a_shuffle_off_by_one_is_noticed() -> None:
    """Sattolo's cycle, the classic mistake (bound i instead of i+1), reaches 24 of the 120 orders only."""
    rng = np.random.default_rng(4)
    seen = set()
    for _ in range(2000):
        values = list(range(5))
        for i in range(4, 0, -1):
            j = int(rng.integers(0, i))
            values[i], values[j] = values[j], values[i]
        seen.add(tuple(values))
    assert len(seen) == 24


def test_draws_with_replacement_are_uniform() -> None:
    """Chi-square over 7 values, 70 000 draws; false-alarm rate 1e-4."""
    found = draw_with_replacement(np.arange(7), 70_000, states(np.random.default_rng(5), 1)[0])
    assert stats.chisquare(np.bincount(found)).pvalue > 1e-4


def test_answers_do_not_depend_on_what_ran_before() -> None:
    template, sample = _twins("bayess")
    one = bayes.simulate(template, sample, 20, np.random.default_rng(1))
    two = bayes.simulate(template, sample, 20, np.random.default_rng(1))
    assert one.tolist() == two.tolist()


@pytest.mark.parametrize("size", [2, 3, 5, 2**63])
@pytest.mark.parametrize("users", [1, 2, 30])
@pytest.mark.parametrize(("name", "options"), [(n, o) for n, o, _ in TWINS])
def test_small_crowds_and_all_sizes_of_domain(name: str, options: dict, users: int, size: int) -> None:
    template = protocol(name, Integers(0, size - 1), users=users, epsilon=1.0, **options)
    sample = Sample(np.full(users, size - 1, np.int64), size)
    answers = bayes.simulate(template, sample, 5, np.random.default_rng(0))
    assert ((answers >= 0) & (answers <= size - 1)).all()


@pytest.mark.parametrize("value", [0, 1, 2**62, 2**63 - 2, 2**63 - 1])
def test_an_honest_crowd_of_one_value_is_found_among_2_to_the_63(value: int) -> None:
    template = protocol("bayeslearn", Integers(0, 2**63 - 1), users=3000, epsilon=30.0)
    sample = Sample(np.full(3000, value, np.int64), 2**63)
    assert bayes.simulate(template, sample, 2, np.random.default_rng(0)).tolist() == [[value], [value]]

"""Trials by count have the distribution of asking users one by one."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency, ks_2samp

from privquant.domain import Integers
from privquant.lab.engine import Setting, simulate_by_asking, simulator
from privquant.lab.engine import isotonic as engine
from privquant.lab.engine.draws import draw, fill, new_list, new_tree
from privquant.lab.engine.isotonic import outcomes, simulate, supports
from privquant.lab.populations import OutOfUsers, Users
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.lab.schedule import Schedule
from privquant.lab.shapes import shape
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.shuffled import shuffled_isotonic
from privquant.protocols.registry import protocol

SIZE = 1000


def sample_of(n=160, name="pareto", size=SIZE, seed=1):
    return Sample(shape(name, n, size, np.random.default_rng(seed)), size)


def isotonic(users=160, epsilon=1.5, size=SIZE, **options):
    return Isotonic(Integers(0, size - 1), users=users, epsilon=epsilon, **options)


def by_asking(template, sample, trials, seed, **schedule):
    """The protocol object asks users one by one, in random order, through the driver."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(trials):
        made = template.fresh()
        run(made, Users(sample, rng), **schedule)
        found.append([estimate.index for estimate in made.estimates()])
    return np.array(found)


USERS = [1, 3, 3, 5, 8, 9, 12]
# (threshold, users asked): the third batch goes by the cut of the second, which the fourth comes back to.
BATCHES = [(5, 1), (2, 1), (5, 2), (2, 1), (8, 1)]


def exact_cases():
    """Probability of every sequence of true ones, by brute force over all orders of the users."""
    seen = {}
    for order in itertools.permutations(USERS):
        at, found = 0, []
        for threshold, count in BATCHES:
            found.append(sum(v <= threshold for v in order[at : at + count]))
            at += count
        seen[tuple(found)] = seen.get(tuple(found), 0) + 1
    return {key: ways / math.factorial(len(USERS)) for key, ways in seen.items()}


def follows_the_exact_law(draw_batch, cells, trials=10_000):
    """Chi-square over all sequences of ones; false alarm 1e-4, fixed seed. One that cannot be is caught at once."""
    exact, seen, rng = exact_cases(), {}, np.random.default_rng(3)
    sample = Sample(np.array(USERS), 20)
    for _ in range(trials):
        fill(cells, len(USERS))
        key = tuple(
            int(draw_batch(cells, sample.values, sample.cumulative, threshold, count, rng))
            for threshold, count in BATCHES
        )
        seen[key] = seen.get(key, 0) + 1
    deviation = sum((seen.get(key, 0) - trials * p) ** 2 / (trials * p) for key, p in exact.items())
    return set(seen) <= set(exact), deviation < chi2(len(exact) - 1).isf(1e-4)


CROWDS = pytest.mark.parametrize("crowd", [new_tree(8), new_list(7)], ids=["tree", "list"])


@CROWDS
def test_users_are_drawn_as_a_random_order_of_them_is(crowd):
    assert follows_the_exact_law(draw, crowd) == (True, True)


@CROWDS
def test_that_law_notices_a_population_that_forgets_who_was_asked(crowd):
    """The twin draws with the same cells, but puts every batch back: impossible sequences, and another law."""

    def forgetful(cells, values, cumulative, threshold, count, rng):
        fill(cells, len(USERS))
        return draw(cells, values, cumulative, threshold, count, rng)

    assert follows_the_exact_law(forgetful, crowd) == (False, False)


def test_that_law_notices_cells_that_do_not_tell_who_was_asked():
    """The subtler twin: no cell remembers what fell into it, though nobody is asked twice within a batch."""

    def careless(cells, values, cumulative, threshold, count, rng):
        cells.asked[:] = 0
        return draw(cells, values, cumulative, threshold, count, rng)

    assert follows_the_exact_law(careless, new_tree(8)) == (False, False)


def test_few_users_a_query_come_from_a_list_and_many_from_the_tree():
    assert engine._unasked(2500, 1024, 2500).listed.size == 2500
    assert engine._unasked(2500, 32, 2500).listed.size == 0
    assert engine._unasked(10**6, 10**6, 10**6).listed.size == 0


CASES = [
    ({}, {}),
    ({"quantile": 0.9}, {}),
    ({"quantile": [0.25, 0.5, 0.9]}, {}),
    ({"interval": 0.9}, {}),
    ({"spread": 0.25}, {"rounds": 7}),
    ({"spread": 0.25}, {"in_flight": 20}),
]


@pytest.mark.parametrize(("options", "schedule"), CASES, ids=str)
def test_the_engine_answers_as_the_protocol_does(options, schedule, monkeypatch):
    """Two-sample Kolmogorov-Smirnov on ranks of answers; false alarm 1e-4 each, fixed seed."""
    sample, template = sample_of(), isotonic(**options)
    slow = by_asking(template, sample, 80, seed=4, **schedule)
    for listed in (0, 160):  # users from the tree, users from a list
        monkeypatch.setattr(engine, "_LISTED", listed)
        fast = simulate(template, sample, 600, np.random.default_rng(5), Setting(schedule=Schedule.of(**schedule)))
        assert fast.shape[1] == slow.shape[1] == len(template.quantiles)
        for k in range(fast.shape[1]):
            assert ks_2samp(sample.at_most(slow[:, k]), sample.at_most(fast[:, k])).pvalue > 1e-4


def test_that_comparison_notices_another_quantile():
    """The twin: an engine that searches the 0.8-quantile instead of the 0.9 fails the same test."""
    sample = sample_of()
    slow = by_asking(isotonic(quantile=0.9), sample, 80, seed=4)[:, 0]
    off = simulate(isotonic(quantile=0.8), sample, 600, np.random.default_rng(5))[:, 0]
    assert ks_2samp(sample.at_most(slow), sample.at_most(off)).pvalue < 1e-4


def test_drawing_with_replacement_is_another_setting():
    """Nearly honest coins: without replacement the last answers are known almost exactly; chi-square, 1e-4."""
    sample, template = sample_of(60, "flat", 50), isotonic(60, 6.0, 50)
    rng = np.random.default_rng(6)
    slow = simulate_by_asking(template, sample, 400, rng)[:, 0]
    found = {
        kind: simulate(template, sample, 3000, rng, Setting(kind))[:, 0] for kind in ("empirical", "statistical")
    }

    def p_value(fast):
        table = np.array([np.bincount(part, minlength=50) for part in (slow, fast)])
        return chi2_contingency(table[:, table.sum(0) > 40]).pvalue

    assert p_value(found["empirical"]) > 1e-4
    assert p_value(found["statistical"]) < 1e-4


def test_fixed_rounds_too():
    """Two-sample Kolmogorov-Smirnov; false alarm 1e-4, fixed seed."""
    sample = sample_of(2000)
    template = shuffled_isotonic(Integers(0, SIZE - 1), users=2000, epsilon=1.0, delta=1e-6, quantile=0.9)
    assert len({coin for _, coin in template.rounds}) > 1
    slow = by_asking(template, sample, 40, seed=7)[:, 0]
    fast = simulate(template, sample, 400, np.random.default_rng(8))[:, 0]
    assert ks_2samp(sample.at_most(slow), sample.at_most(fast)).pvalue > 1e-4


def test_certified_ends_agree_with_the_protocol():
    """Two-sample Kolmogorov-Smirnov on both ends; false alarm 1e-4 each, fixed seed."""
    sample, template, rng = sample_of(600), isotonic(600, interval=0.9), np.random.default_rng(9)
    slow = []
    for _ in range(40):
        made = template.fresh()
        bounds = run(made, Users(sample, rng)).interval
        slow.append([-1 if bounds.low is None else bounds.low, -1 if bounds.high is None else bounds.high])
    fast = outcomes(template, sample, 400, rng).ends[:, 0]
    for side in range(2):
        assert ks_2samp(np.array(slow)[:, side], fast[:, side]).pvalue > 1e-4


def test_the_engine_is_the_one_the_lab_uses():
    template = isotonic()
    assert simulator(template) is simulate
    assert not supports(isotonic(size=1))
    assert not supports(protocol("naive", Integers(0, 9), users=5, epsilon=1.0))


@pytest.mark.parametrize("rounds", [1, 7, 8, 13, 160, 400])
def test_as_many_rounds_as_asked_for(rounds):
    """Each round asks one threshold, so there are at most as many as rounds; the driver and the engine agree."""
    protocol, heard = isotonic(), []
    run(
        protocol, Users(sample_of(), np.random.default_rng(0)), rounds=rounds, progress=lambda n, _: heard.append(n)
    )
    assert len(heard) == min(rounds, 160)
    assert np.diff([0, *heard]).tolist() == Schedule.rounds(rounds).sizes(160)
    fast = simulate(isotonic(), sample_of(), 5, np.random.default_rng(0), Setting(schedule=Schedule.rounds(rounds)))
    assert fast.shape == (5, 1)


def test_more_users_than_there_are_cannot_be_asked():
    with pytest.raises(OutOfUsers, match="asked 161 users"):
        simulate(isotonic(161), sample_of(), 1, np.random.default_rng(0))


@pytest.mark.parametrize("users", [10**7, 10**9])
def test_huge_populations_run_by_count(users):
    """Rank errors stay within 6 deviations of what the limit allows; false alarm below 1e-6, fixed seed."""
    base = shape("pareto", 10**5, 4**9, np.random.default_rng(1))
    values, counts = np.unique(base, return_counts=True)
    sample = Sample.of_counts(values, counts * (users // 10**5), 4**9)
    template = isotonic(users, 0.879, 4**9)
    errors = sample.rank_error(simulate(template, sample, 20, np.random.default_rng(2))[:, 0], 0.5)
    assert errors.max() < 6 * 0.5 / (template.coin.kappa * math.sqrt(users))

"""Populations: nobody answers twice, and counts have exactly the law of single answers."""

import numpy as np
import pytest
from scipy import stats

from privquant.errors import InvalidInput
from privquant.lab.populations import Coins, CountUsers, OutOfUsers, Users
from privquant.lab.sample import Sample
from privquant.messages import Query
from privquant.privacy.coin import Coin

HONEST = Coin(1).threshold  # one flip in 2^64
SAMPLE = Sample(np.arange(40), 64)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_users_answer_truly_through_an_honest_coin_each_once():
    users = Users(SAMPLE, rng())
    bits = [r.bit for r in users.answer([Query(9, HONEST)] * 40)]
    assert sum(bits) == 10
    with pytest.raises(OutOfUsers, match="asked 41 users, but there are 40"):
        users.answer([Query(9, HONEST)])


def test_count_users_run_out_at_the_same_moment():
    users = CountUsers(SAMPLE, rng())
    assert users.answer_counts(Query(9, HONEST), 25) + users.answer_counts(Query(9, HONEST), 15) == 10
    with pytest.raises(OutOfUsers):
        users.answer_counts(Query(9, HONEST), 1)


def thresholds_and_counts():
    return [(20, 7), (5, 9), (30, 6), (20, 8), (11, 10)]


def sequence(make, flip, trials, seed, statistical=False):
    draw = "statistical" if statistical else "empirical"
    generator = rng(seed)
    found = []
    for _ in range(trials):
        users = make(SAMPLE, generator, draw=draw)
        found.append([users.answer_counts(Query(c, flip), k) for c, k in thresholds_and_counts()])
    return np.array(found)


def same_law(one, other):
    """Smallest p-value over the margins and the sum of consecutive pairs, Bonferroni corrected."""
    columns = [*one.T, *(one[:, :-1] + one[:, 1:]).T], [*other.T, *(other[:, :-1] + other[:, 1:]).T]
    worst = 1.0
    for a, b in zip(*columns, strict=True):
        top = max(a.max(), b.max()) + 1
        table = np.array([np.bincount(a, minlength=top), np.bincount(b, minlength=top)])
        table = table[:, table.sum(0) > 20]
        worst = min(worst, stats.chi2_contingency(table).pvalue)
    return worst * len(columns[0])


@pytest.mark.parametrize("statistical", [False, True])
def test_counts_have_the_law_of_single_answers(statistical):
    """Chi-square on every margin and on sums of neighbours; false-alarm rate 1e-4."""
    flip = Coin.of(1.0).threshold
    one = sequence(Users, flip, 4000, 1, statistical)
    other = sequence(CountUsers, flip, 4000, 2, statistical)
    assert same_law(one, other) > 1e-4


def test_the_comparison_notices_answers_with_replacement():
    """The twin: forgetting who was asked already is caught."""
    flip = Coin(1).threshold
    assert same_law(sequence(Users, flip, 4000, 1), sequence(CountUsers, flip, 4000, 2, statistical=True)) < 1e-4


def test_coins_follow_their_probabilities_and_the_adversary_keeps_its_reach():
    coins = Coins(lambda i: i / 10, rng(), adversary=lambda i, p, t: p + 0.05, reach=0.05)
    heads = coins.answer_counts(Query(5, HONEST), 4000)
    assert abs(heads / 4000 - 0.55) < 5 * np.sqrt(0.25 / 4000)
    greedy = Coins(lambda i: 0.5, rng(), adversary=lambda i, p, t: 0.7, reach=0.1)
    with pytest.raises(InvalidInput, match=r"from 0.5 to 0.7, but may move it by at most 0.1"):
        greedy.answer([Query(0, HONEST)])


def test_unknown_ways_to_draw_are_refused():
    for make in (Users, CountUsers):
        with pytest.raises(InvalidInput, match="'empirical', 'statistical', got 'bootstrap'"):
            make(SAMPLE, rng(), draw="bootstrap")


def test_sample_counts_and_quantiles():
    sample = Sample(np.array([5, 1, 1, 9]), 10)
    assert [int(sample.at_most(c)) for c in (-1, 0, 1, 4, 5, 9)] == [0, 0, 2, 2, 3, 4]
    assert [sample.quantile(q) for q in (0.1, 0.5, 0.51, 0.75, 0.76)] == [1, 1, 5, 5, 9]
    assert sample.rank_error(np.array([1, 5, 9]), 0.5).tolist() == [0.0, 0.0, 0.25]
    assert sample.success(np.array([1, 5, 9]), 0.5, 0.1).tolist() == [True, True, False]


@pytest.mark.parametrize("indices", [[], [[1]], [10], [-1]])
def test_samples_that_cannot_be(indices):
    with pytest.raises(InvalidInput):
        Sample(np.array(indices, dtype=np.int64), 10)

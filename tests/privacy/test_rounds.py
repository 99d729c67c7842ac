"""The guarantee of rounds: every line of the table by brute force or exact accounting, and the sentence."""

from __future__ import annotations

import json

import brute
import pytest

import privquant as pq
from privquant.messages import Guarantee, ShuffledRound
from privquant.privacy import shuffle
from privquant.privacy.coin import Coin

DOMAIN = pq.Integers(0, 9_999)


@pytest.fixture(scope="module")
def growing():
    """The run whose sentence was false: the number of the smallest round beside the coin of the largest."""
    return pq.shuffled_isotonic(DOMAIN, users=20_000, epsilon=1.0, delta=1e-8)


def test_the_smallest_number_with_the_largest_coin_is_another_promise(growing):
    promise = growing.guarantee
    mixed_up = shuffle.epsilon(local_epsilon=promise.local_epsilon, batch=promise.batch, delta=1e-8)
    assert promise.batch == 40
    assert mixed_up == pytest.approx(3.786, abs=1e-3)  # not the 1 that was said of them
    assert "at least 40 honest reports" not in str(promise)
    assert str(promise) == (
        "Each answer is (1, 1e-08)-differentially private if the shuffler is honest and releases each round only "
        "with at least its own number of honest reports (40 to 2,079 in 51 rounds), and 3.786-differentially "
        "private otherwise."
    )


def test_the_table_has_every_round_with_its_own_coin(growing):
    table = growing.guarantee.rounds
    assert [(row.batch, row.local_epsilon) for row in table] == [
        (size, Coin(coin).epsilon) for size, coin in growing.rounds
    ]
    assert [row.round for row in table] == list(range(1, len(table) + 1))
    for row in table:
        # the epsilon said holds, and a little less does not
        assert shuffle.delta(epsilon=row.epsilon, local_epsilon=row.local_epsilon, batch=row.batch) <= 1e-8
        less = shuffle.bracket(epsilon=0.999 * row.epsilon, local_epsilon=row.local_epsilon, batch=row.batch)
        assert less.lower > 1e-8


@pytest.mark.parametrize("delta", [0.01, 1e-4])
def test_tiny_rounds_by_brute_force(delta):
    """All inputs of every round, with coins that were calibrated and coins that were not."""
    made = pq.shuffled_isotonic(DOMAIN, users=170, epsilon=0.6, delta=delta)
    assert made.guarantee.rounds[0].batch <= 10
    free = shuffle.guarantee_of_rounds([(3, 0.2), (9, 2.5), (30, 1.0)], epsilon=0.6, delta=delta)
    for row in (*made.guarantee.rounds, *free.rounds):
        assert brute.delta(row.epsilon, row.local_epsilon, row.batch) <= delta * (1 + 1e-9)
        assert brute.delta(0.995 * row.epsilon, row.local_epsilon, row.batch) > delta or row.epsilon == 0
    assert free.epsilon == max(row.epsilon for row in free.rounds) > 0.6  # what does not hold is not said


def test_rounds_of_the_naive_search():
    promise = pq.shuffled_search(DOMAIN, users=20_000, epsilon=1.0, delta=1e-8).guarantee
    assert len(promise.rounds) == 14
    assert len({row.local_epsilon for row in promise.rounds}) == 1
    for row in promise.rounds:
        assert shuffle.epsilon(local_epsilon=row.local_epsilon, batch=row.batch, delta=1e-8) <= 1.0
    published = pq.shuffled_settings(DOMAIN, users=10**7, epsilon=1.0, delta=1e-8, method="published")
    rounds = published["guarantee"].rounds
    # the published coin is for larger batches than it has; the table says what it really gives
    assert 0 < max(row.epsilon for row in rounds) < published["guarantee"].epsilon == 1.0


def test_a_guarantee_of_rounds_survives_json_and_the_flat_form_is_still_read(growing):
    promise = growing.guarantee
    assert Guarantee.from_dict(json.loads(json.dumps(promise.to_dict()))) == promise
    state = json.loads(json.dumps(growing.state()))
    assert pq.from_state(state).guarantee == promise
    del state["settings"]["guarantee"]["rounds"]  # as states were written before
    old = pq.from_state(state)
    assert (old.guarantee.batch, old.guarantee.rounds) == (40, ())
    assert pq.stated(old.estimate(), old).guarantee == promise  # and never said in its old words
    flat = Guarantee("shuffle", 1.0, 1e-8, 3.1, 1000)
    assert flat.to_dict() == {
        "trust": "shuffle", "epsilon": 1.0, "delta": 1e-8, "local_epsilon": 3.1, "batch": 1000, "answers": 1
    }  # fmt: skip
    assert Guarantee.from_dict(flat.to_dict()) == flat


def test_the_table_as_text():
    row = ShuffledRound
    promise = Guarantee(
        "shuffle", 1.0, 1e-8, 2.0, 40, rounds=(row(1, 40, 1.0, 1.0), row(2, 40, 1.0, 1.0), row(3, 1234, 2.0, 0.9))
    )
    assert promise.table() == (
        "round  reports  local epsilon  epsilon\n"
        "  1-2       40              1        1\n"
        "    3    1,234              2      0.9"
    )
    assert Guarantee("local", 1.0).table() == ""


def test_one_round_needs_no_table():
    only = shuffle.guarantee_of_rounds([(1000, 3.0)], epsilon=1.0, delta=1e-8)
    assert only.rounds == ()
    assert "mixes at least 1000 honest reports" in str(only)
    with pytest.raises(pq.InvalidInput, match="no rounds"):
        shuffle.guarantee_of_rounds([], epsilon=1.0, delta=1e-8)

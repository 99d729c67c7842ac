"""`pq.run` on a column, and on protocols that were used."""

import numpy as np
import pandas as pd
import pytest

import privquant as pq

VALUES = np.random.default_rng(0).integers(0, 1000, 3000)


def made(name="isotonic", **change):
    return pq.protocol(name, **{"domain": (0, 1023), "users": 3000, "epsilon": 2.0, **change})


@pytest.mark.parametrize("name", ["isotonic", "bayeslearn"])
@pytest.mark.parametrize("column", [VALUES, VALUES.tolist(), pd.Series(VALUES)])
def test_a_column_is_users(name, column):
    """One by one where the order of answers matters, by counts where it does not, from the same seed."""
    people, rng = pq.Sample.of_values(VALUES, (0, 1023)), np.random.default_rng(4)
    users = (pq.CountUsers if name == "isotonic" else pq.Users)(people, rng)
    assert pq.run(made(name), column, rng=4) == pq.run(made(name), users)
    assert pq.run(made(name), people, rng=4) == pq.run(made(name), column, rng=4)


def test_a_column_in_any_schedule():
    for schedule in ({"in_flight": 50}, {"rounds": 8}, {"batch": 100}):
        found = pq.run(made(), VALUES, rng=1, **schedule)
        assert found.users == 3000
        assert abs(np.mean(found.value >= VALUES) - 0.5) < 0.1


def test_what_cannot_be_run_is_refused():
    with pytest.raises(pq.InvalidInput, match="is to ask 3,000 users, but there are 10 values"):
        pq.run(made(), VALUES[:10])
    with pytest.raises(pq.InvalidInput, match="rng goes with a column"):
        pq.run(made(), pq.Coins(lambda i: 0.5, np.random.default_rng(1)), rng=1)
    with pytest.raises(pq.InvalidInput, match="got 5"):
        pq.run(made(), 5)
    with pytest.warns(UserWarning, match="lowest value of the domain") as caught:
        pq.run(made(users=100), [-5] * 100, rng=1)
    assert caught[0].filename == __file__


def test_a_protocol_that_was_used_says_so():
    protocol = made()
    found = pq.run(protocol, VALUES, rng=1)
    with pytest.raises(pq.InvalidInput, match=r"was used: 3,000 users answered it already; protocol.fresh\(\) is"):
        pq.run(protocol, VALUES)
    assert pq.run(protocol.fresh(), VALUES, rng=1) == found


def test_a_protocol_whose_run_failed_says_so():
    class Broken:
        def answer_counts(self, query, count):
            raise RuntimeError("the line is down")

    protocol = made("naive", domain=(0, 1), users=40)
    with pytest.raises(RuntimeError, match="the line is down"):
        pq.run(protocol, Broken())
    with pytest.raises(pq.InvalidInput, match="in a run that failed: 40 of the 40 users it asked never answered"):
        pq.run(protocol, VALUES)
    said = pq.stated(protocol.estimate(), protocol)
    assert "no answer: 40 of 40 users asked have not answered, and nobody is left to ask" in repr(said)
    assert pq.stated(said, protocol) == said


def test_why_there_is_no_answer():
    fresh = made()
    assert "no answer yet" in repr(pq.stated(fresh.estimate(), fresh))
    gone = made(users=20)
    while queries := gone.ask(20):
        gone.give_up(queries)
    assert "no answer: all 20 users asked gave up" in repr(pq.stated(gone.estimate(), gone))

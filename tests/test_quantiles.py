"""The public face: what people call first."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privquant as pq
from privquant.errors import InvalidInput

VALUES = np.random.default_rng(0).integers(0, 1000, 4000)
DOMAIN = pq.Integers(0, 1023)


@pytest.mark.parametrize("name", pq.protocol_names())
def test_every_protocol_finds_the_median_of_a_small_domain(name):
    """Fixed seeds; at epsilon 4 and 4,000 users an error of 10 points is far out for every protocol."""
    options = {"encoding": "hadamard"} if name == "hierarchical" else {}
    got = pq.median(VALUES, epsilon=4.0, domain=DOMAIN, protocol=name, rng=3, **options)
    assert abs(np.mean(got.value >= VALUES) - 0.5) < 0.1
    assert got.users == 4000
    assert got.protocol == name
    assert "epsilon=4" in repr(got)


def test_all_columns_give_the_same_answer():
    answers = {
        pq.median(column, epsilon=2.0, domain=DOMAIN, rng=7).value
        for column in (VALUES, VALUES.tolist(), pd.Series(VALUES), pl.Series(VALUES), pa.array(VALUES))
    }
    assert len(answers) == 1


def test_several_quantiles_come_as_a_monotone_list():
    found = pq.quantile(VALUES, [0.25, 0.5, 0.9], epsilon=2.0, domain=DOMAIN, rng=1)
    assert [e.quantile for e in found] == [0.25, 0.5, 0.9]
    assert sorted(e.value for e in found) == [e.value for e in found]
    assert isinstance(pq.quantile(VALUES, 0.25, epsilon=2.0, domain=DOMAIN, rng=1), pq.Estimate)


def test_a_protocol_of_one_quantile_divides_the_users():
    found = pq.quantile(VALUES, [0.25, 0.75], epsilon=2.0, domain=DOMAIN, rng=1, protocol="naive")
    assert [e.users for e in found] == [2000, 2000]


def test_a_large_crowd_is_no_burden():
    many = np.tile(VALUES, 100)
    for name in ("isotonic", "bayeslearn", "naive"):
        got = pq.median(many, epsilon=1.0, domain=DOMAIN, protocol=name, rng=2)
        assert got.users == 400_000
        assert abs(np.mean(got.value >= VALUES) - 0.5) < 0.05


def test_notes_say_what_was_done_to_the_data():
    got = pq.median([1.0, None, 5000.0, 3.4], epsilon=1.0, domain=DOMAIN, rng=1, missing="drop", fractions="round")
    assert got.notes[1:] == (
        "1 values were outside the domain and clamped to its ends",
        "1 values were missing and left out",
        "1 values were rounded to whole numbers",
    )


def test_progress_reaches_the_end():
    seen = []
    pq.median(VALUES, epsilon=1.0, domain=DOMAIN, rng=1, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (4000, 4000)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)


def test_to_dict_is_json():
    import json

    got = pq.median(VALUES, epsilon=1.0, domain=DOMAIN, rng=1)
    form = json.loads(json.dumps(got.to_dict()))
    assert form["value"] == got.value
    assert form["guarantee"]["trust"] == "local"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": 0}, "above 0, got 0"),
        ({"epsilon": float("nan")}, "got nan"),
        ({"epsilon": "1"}, "got '1'"),
        ({"epsilon": float("inf")}, "got inf"),
        ({"q": 0}, "between 0 and 1, got 0"),
        ({"q": [0.5, 1.5]}, "between 0 and 1, got 1.5"),
        ({"seed": 7}, "seed is called rng here: say rng=7"),
        ({"random_state": 7}, "random_state is called rng here: say rng=7"),
        ({"domain": (0, 10, 20)}, "Integers, Grid, LogGrid or a pair"),
        ({"domain": (0, 1.5)}, "high must be a whole number, got 1.5"),
        ({"q": []}, "empty sequence"),
        ({"q": "0.5"}, "got '0.5'"),
        ({"domain": None}, "never inferred"),
        ({"protocol": "best"}, "unknown protocol 'best'"),
        ({"values": []}, "no values"),
        ({"values": [1, "x"]}, "must be numbers"),
        ({"values": [1, float("nan")]}, "1 of 2 values are missing"),
        ({"values": None}, "got None"),
        ({"values": 5}, "got 5"),
        ({"epsilon": 10**400}, "finite number above 0"),
        ({"colour": "red"}, "has no option 'colour'; it has lam, .*interval"),
        ({"users": 5}, "has no option 'users'; it has lam, .*interval"),
        ({"quantile": 0.9, "protocol": "naive"}, "has no option 'quantile'; it has"),
    ],
)
def test_bad_input_names_what_was_given(change, said):
    call = {"values": VALUES, "q": 0.5, "epsilon": 1.0, "domain": DOMAIN, "rng": 1, **change}
    with pytest.raises(InvalidInput, match=said):
        pq.quantile(call.pop("values"), call.pop("q"), **call)


def test_any_sequence_of_quantiles_gives_a_list():
    import pandas as pd

    for several in ((0.25, 0.75), np.array([0.25, 0.75]), pd.Series([0.25, 0.75])):
        found = pq.quantile(VALUES, several, epsilon=2.0, domain=DOMAIN, rng=1, protocol="naive")
        assert [e.quantile for e in found] == [0.25, 0.75]


def test_the_tiniest_quantile_has_an_answer():
    assert pq.quantile(VALUES, 1e-300, epsilon=1.0, domain=DOMAIN, rng=1, protocol="naive").value is not None


@pytest.mark.parametrize("q", [0.5, [0.5, 0.95]])
def test_every_estimate_says_how_far_off_it_may_be(q):
    for found in np.atleast_1d(pq.quantile(VALUES, q, epsilon=1.0, domain=DOMAIN, rng=1)):
        assert f"points of {100 * found.quantile:g} % in the population" in str(found.certain)
        assert 0 < found.certain.within < 0.5
    for found in np.atleast_1d(pq.quantile(VALUES, q, epsilon=1.0, domain=DOMAIN, rng=1, protocol="naive")):
        assert str(found.rank).startswith(f"rank within {100 * found.quantile:g} % +- ")
        assert str(found.rank).endswith("nothing is proven for this protocol")


# -- the shuffle model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["isotonic", "naive"])
def test_shuffled_from_the_front_door(name):
    """Fixed seed; at 4,000 users and epsilon 1 the shuffled coins leave an error far below 10 points."""
    found = pq.median(VALUES, epsilon=1.0, domain=DOMAIN, protocol=name, trust="shuffle", delta=1e-6, rng=3)
    assert abs(np.mean(found.value >= VALUES) - 0.5) < 0.1
    promise = found.guarantee
    assert (promise.trust, promise.epsilon, promise.delta) == ("shuffle", 1.0, 1e-6)
    assert sum(row.batch for row in promise.rounds) == 4000
    assert max(row.epsilon for row in promise.rounds) <= 1.0 < promise.local_epsilon
    assert "releases each round only with at least its own number" in str(promise)


def test_several_shuffled_quantiles():
    settings = {"epsilon": 1.0, "domain": DOMAIN, "trust": "shuffle", "delta": 1e-6, "rng": 1}
    together = pq.quantile(VALUES, [0.25, 0.75], **settings)
    assert [e.users for e in together] == [4000, 4000]
    divided = pq.quantile(VALUES, [0.25, 0.75], protocol="naive", **settings)
    assert [e.users for e in divided] == [2000, 2000]
    # each group has rounds of its own, calibrated for its own size
    assert all(sum(row.batch for row in e.guarantee.rounds) == 2000 for e in divided)
    few = pq.quantile([1, 2], [0.1, 0.5, 0.9], protocol="naive", **settings)
    assert [e.value is None for e in few] == [False, False, True]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"delta": None}, "trust='shuffle' needs a delta, e.g. delta=1e-8"),
        ({"delta": 0.0}, "delta must be a number strictly between 0 and 1, got 0.0"),
        ({"trust": "local"}, "delta goes with trust='shuffle', got delta=1e-06 with trust='local'"),
        ({"trust": "central"}, "trust must be one of 'local', 'shuffle', got 'central'"),
        ({"protocol": "bayeslearn"}, "protocol 'bayeslearn' has no shuffled form; isotonic and naive have one"),
        ({"protocol": "hierarchical"}, "'hierarchical' has no shuffled form"),
        ({"interval": 0.9}, "in the shuffle model protocol 'isotonic' has no option 'interval'; it has .*cap"),
    ],
)
def test_a_shuffled_run_that_cannot_be_is_refused(change, said):
    call = {"epsilon": 1.0, "domain": DOMAIN, "trust": "shuffle", "delta": 1e-6, "rng": 1, **change}
    with pytest.raises(InvalidInput, match=said):
        pq.median(VALUES, **call)


def test_the_error_statement_knows_its_delta():
    """It is read from the reports, and so follows the coin that each delta allows."""
    settings = {"epsilon": 0.5, "domain": DOMAIN, "trust": "shuffle", "rng": 1}
    slack = {delta: pq.median(VALUES, delta=delta, **settings).certain.within for delta in (1e-6, 1e-12)}
    assert slack[1e-6] < slack[1e-12]


# -- values outside the domain -------------------------------------------------------------------------------


@pytest.mark.parametrize(("domain", "end", "where"), [((0, 400), 400, "above"), ((600, 2000), 600, "below")])
def test_an_answer_at_an_end_that_values_were_moved_to_is_a_warning(domain, end, where):
    """400 is the 40 % quantile and 600 the 60 %: the median lies outside, and the answer is the nearest end."""
    with pytest.warns(UserWarning, match=rf"answer {end} at quantile 0.5 .* values lie {where} it") as caught:
        found = pq.median(VALUES, epsilon=4.0, domain=pq.Integers(*domain), rng=1)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the caller's line, not one of ours
    count = int((end < VALUES).sum() if where == "above" else (end > VALUES).sum())
    assert found.value == end
    assert found.notes[0] == str(caught[0].message)
    assert f"{count:,} of 4,000 values" in found.notes[0]


def test_no_warning_where_the_answer_is_inside_or_nothing_was_moved_to_its_end():
    """Warnings are errors in this suite."""
    inside = pq.median(VALUES, epsilon=4.0, domain=pq.Integers(100, 900), rng=1)
    assert any("clamped" in note for note in inside.notes)
    at_the_end = np.concatenate((np.full(9000, 7), np.full(50, -3)))  # the others were moved to the lower end
    assert pq.median(at_the_end, epsilon=4.0, domain=pq.Integers(0, 7), rng=1).value == 7
    with pytest.warns(UserWarning, match="lowest"):
        pq.median(iter([-5] * 3000 + [9]), epsilon=4.0, domain=pq.Integers(0, 7), rng=1)


# -- habits --------------------------------------------------------------------------------------------------


def test_a_pair_is_a_domain_of_whole_numbers():
    settings = {"epsilon": 1.0, "rng": 1}
    expected = pq.median(VALUES, domain=DOMAIN, **settings)
    for pair in ((0, 1023), [0, 1023], (0.0, 1.023e3), (np.int64(0), np.float64(1023))):
        assert pq.median(VALUES, domain=pair, **settings) == expected
    assert pq.plan(domain=(0, 1023), users=100, epsilon=1.0, confidence=0.9).size == 1024
    assert pq.protocol("naive", (0, 7), users=5, epsilon=1.0).domain == pq.Integers(0, 7)
    assert pq.Sample.of_values([1, 2], (0, 7)).size == 8
    for wrong in (float("nan"), float("inf"), 2.0**54, "7"):
        with pytest.raises(InvalidInput, match="high must be a whole number"):
            pq.Integers(0, wrong)


@pytest.mark.parametrize("name", ["isotonic", "naive"])
def test_quantiles_come_back_in_the_order_they_were_asked_in(name):
    settings = {"epsilon": 2.0, "domain": DOMAIN, "rng": 1, "protocol": name}
    rising = pq.quantile(VALUES, [0.25, 0.5, 0.9], **settings)
    mixed = pq.quantile(VALUES, [0.9, 0.25, 0.5, 0.9], **settings)
    assert mixed == [rising[2], rising[0], rising[1], rising[2]]

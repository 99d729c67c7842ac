"""BayesLearn as a protocol: order, lateness, options, and the answers it gives."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from posterior_pieces import pieces

from privquant.domain import Integers
from privquant.errors import InvalidInput, ProtocolError
from privquant.lab.populations import Users
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.messages import Query, Report
from privquant.protocols.bayes.bayeslearn import BayesLearn
from privquant.protocols.registry import from_state, protocol
from privquant.testing import CHECKS, Case


def make(size: int = 1000, users: int = 200, **options: object) -> BayesLearn:
    made = protocol("bayeslearn", Integers(0, size - 1), users=users, epsilon=1.0, **options)
    assert isinstance(made, BayesLearn)
    return made


def crowd(size: int, users: int, seed: int = 0) -> Users:
    rng = np.random.default_rng(seed)
    return Users(Sample(rng.integers(0, size, users), size), rng)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conforms_under_the_published_rule(check) -> None:  # type: ignore[no-untyped-def]
    case = Case("bayeslearn", {"coin_rule": "published"})
    if check.__name__ == "finds_ties_constants_and_gaps":
        with pytest.raises(AssertionError):  # the published rule has no cell for the lowest value
            check(case)
    else:
        check(case)


def test_alpha_is_c_times_the_root() -> None:
    assert make(4**8, 2500).alpha == pytest.approx(0.6 * math.sqrt(math.log(4**8) / 2500))
    assert make(4**8, 2500, c=0.3).alpha == pytest.approx(0.3 * math.sqrt(math.log(4**8) / 2500))
    assert make(alpha=0.1).alpha == 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0.5}, "alpha must lie"),
        ({"alpha": float("nan")}, "alpha must lie"),
        ({"c": 0}, "above 0"),
        ({"coin_rule": "right"}, "coin_rule must be one of"),
        ({"update": "table"}, "update must be one of"),
        ({"quantile": [0.2, 0.8]}, "one quantile a run"),
        ({"gamma": 1}, "has no option 'gamma'; it has alpha, c, coin_rule, update"),
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        make(**options)
    assert "\n" not in str(caught.value)


def test_only_the_counts_form_is_a_count_table() -> None:
    assert not make().count_table
    assert not BayesLearn.count_table
    assert make(update="counts").count_table
    assert make(update="counts").takes_counts
    with pytest.raises(ProtocolError, match="order of reports"):
        make().tell_counts(Query(0, make().coin.threshold), 2, 1)


def test_a_late_report_takes_the_two_region_form() -> None:
    """The text's update at a stale threshold would make masses negative; the two-region form never does."""
    late, users = make(64, 60), crowd(64, 60)
    queries = late.ask(60)  # all at the untouched posterior: 59 of them are stale when told
    assert len(set(queries)) == 1
    late.tell(users.answer(queries))
    starts, masses = pieces(late._posterior)
    assert min(masses) > 0
    # Only one threshold was asked, so the density has two values apart from the cell cut on time.
    widths = np.diff([*starts, 64])
    assert len({round(m / w, 12) for m, w in zip(masses, widths, strict=True)}) <= 3


def test_counts_and_single_reports_ask_the_same_from_then_on() -> None:
    one, many = make(update="counts"), make(update="counts")
    query = one.ask(30)[0]
    assert isinstance(query, Query)
    for bit in (1, 0, 1, 1, 0):
        one.tell([Report(query, bit)])
    many.tell_counts(query, 5, 3)
    assert one.ask(1) == many.ask(1)
    assert one.estimate().value == many.estimate().value


def test_ten_thousand_reports_to_one_threshold_underflow_nothing() -> None:
    table = make(update="counts", users=20_000, alpha=0.2)
    query = table.ask(1)[0]
    assert isinstance(query, Query)
    table.tell_counts(query, 10_000, 10_000)
    assert 0 <= table.estimate().value <= query.threshold  # type: ignore[operator]
    assert table.ask(1)[0].threshold < query.threshold  # type: ignore[union-attr]
    json.dumps(table.state(), allow_nan=False)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("update", ["text", "counts"])
def test_any_quantile_is_found_directly(quantile: float, update: str) -> None:
    """2500 nearly honest users on 2^20 values: the rank error is below 0.06; fixed seed."""
    size, users = 2**20, 2500
    rng = np.random.default_rng(3)
    sample = Sample(np.minimum(rng.pareto(1.5, users) * 5000, size - 1).astype(np.int64), size)
    made = protocol("bayeslearn", Integers(0, size - 1), users=users, epsilon=5.0, quantile=quantile, update=update)
    run(made, Users(sample, rng))
    value = made.estimate().value
    assert value is not None
    assert sample.rank_error(np.array([int(value)]), quantile)[0] < 0.06


def test_a_state_is_read_back_in_the_middle() -> None:
    made, users = make(2**63, 300), crowd(2**40, 300)
    for _ in range(150):
        made.tell(users.answer(made.ask(1)))
    copy = from_state(json.loads(json.dumps(made.state())))
    assert copy.ask(1) == made.ask(1)
    assert copy.estimate() == made.estimate()


def test_a_foreign_state_is_refused() -> None:
    with pytest.raises(ProtocolError, match="not a state"):
        from_state({"protocol": "bayeslearn", "settings": {}})


def test_reports_of_another_protocol_are_refused() -> None:
    made = make()
    coin = made.coin.threshold
    for query in (Query(3, coin, phase=1), Query(3, coin, arm=2), Query(3, coin, step=-1)):
        with pytest.raises(ProtocolError, match="phase 0, arm 0"):
            made.tell([Report(query, 1)])
    assert made.heard == 0

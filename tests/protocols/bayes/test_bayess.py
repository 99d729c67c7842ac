"""DpBayeSS: phases, survivors, the last stage, and the options that repeat the authors' program."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privquant.domain import Integers
from privquant.errors import InvalidInput, ProtocolError
from privquant.lab.populations import Users
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.messages import Query, Report
from privquant.privacy.coin import Coin
from privquant.protocols.bayes.bayess import BayeSS
from privquant.protocols.bayes.last_stage import PublishedStage, SearchStage, TestStage, best_cell
from privquant.protocols.bayes.reduction import (
    ends,
    first_gamma,
    padded,
    representative,
    split_users,
    survivors,
    survivors_interpolated,
)
from privquant.protocols.registry import from_state, protocol
from privquant.testing import CHECKS, Case


def make(size: int = 10_000, users: int = 2000, epsilon: float = 2.0, **options: object) -> BayeSS:
    made = protocol("bayess", Integers(0, size - 1), users=users, epsilon=epsilon, **options)
    assert isinstance(made, BayeSS)
    return made


def crowd(size: int, users: int, seed: int = 0) -> Users:
    rng = np.random.default_rng(seed)
    return Users(Sample(rng.integers(0, size, users), size), rng)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("options", [{"final": "test", "split": "theorem"}, {"behaviour": "published"}], ids=str)
def test_conforms_under_its_options(check, options: dict) -> None:  # type: ignore[no-untyped-def]
    case = Case("bayess", options)
    if "behaviour" in options and check.__name__ == "finds_ties_constants_and_gaps":
        with pytest.raises(AssertionError):  # the published learner has no cell for the lowest value
            check(case)
    else:
        check(case)


def test_users_are_split_as_the_paper_says() -> None:
    for n, size in ((2500, 4**8), (7500, 4**9), (2500, 100)):
        log, loglog = math.log(size), math.log(math.log(size))
        first, second = split_users(n, size)
        assert first == math.floor(n * log / (log + loglog + 1))
        assert second == math.floor(n * loglog / (log + loglog + 1))
    assert split_users(100, 2)[1] == 0
    assert split_users(0, 10) == (0, 0)
    assert make(4**8, 2500).plan == (*split_users(2500, 4**8), 2500 - sum(split_users(2500, 4**8)))


def test_the_theorem_learns_with_a_quarter_and_tests_with_a_quarter() -> None:
    made, users = make(users=400, final="test", split="theorem"), crowd(10_000, 400)
    assert made.plan == (100, 0, 100)
    run(made, users)
    assert made.asked == 200
    assert made.finished


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=300), st.floats(0.005, 1.0))
def test_survivors_are_every_so_manieth_of_the_sorted_list(visited: list[int], gamma: float) -> None:
    cells, counts = np.unique(np.array(visited, np.int64), return_counts=True)
    every = math.ceil(gamma * len(visited))
    by_hand = sorted({sorted(visited)[every * i - 1] for i in range(1, len(visited) // every + 1)})
    assert survivors(cells, counts, gamma).tolist() == by_hand


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=300), st.integers(2, 40))
def test_interpolated_survivors_are_numpys_quantiles(visited: list[int], parts: int) -> None:
    cells, counts = np.unique(np.array(visited, np.int64), return_counts=True)
    gamma = 1 / (parts + 0.1234)
    exact = [float(np.quantile(visited, gamma * i)) for i in range(1, parts + 1)]
    if any(abs(x - math.floor(x) - 0.5) < 1e-6 for x in exact):
        return  # a half may be rounded to either side
    assert survivors_interpolated(cells, counts, gamma).tolist() == sorted({round(x) for x in exact})


def test_something_survives_in_the_smallest_domains() -> None:
    for size in (2, 3, 10, 36):
        assert first_gamma(size) == pytest.approx(1 / 13)
    assert first_gamma(4**8) == pytest.approx(1 / math.log(4**8) ** 2)


def test_padding_stands_for_what_lies_outside() -> None:
    assert padded(np.array([3, 7]), 10) == [(-1, 2), (2, 3), (6, 7), (7, 9)]
    assert padded(np.array([0, 9]), 10) == [(-1, 0), (8, 9)]
    # The authors' pads stand even where they are empty, and start at their coin 0.
    assert padded(np.array([1, 9]), 10, published=True) == [(0, 0), (0, 1), (8, 9), (9, 9)]
    assert ends(padded(np.array([3, 7]), 10), 10) == [2, 3, 6, 7]
    assert [representative(cell, 10) for cell in padded(np.array([3, 7]), 10)] == [2, 3, 7, 8]


HONEST = Coin(1)


def told(final: SearchStage | PublishedStage | TestStage, cdf: list[float]) -> int:
    """Run a last stage on users who answer exactly at the rates of a CDF."""
    while batches := final.ask(10**6):
        for number, threshold, count in batches:
            assert final.tell_counts(number, threshold, count, round(count * cdf[threshold]))
    return final.answer()


CDF = [0.0, 0.1, 0.2, 0.3, 0.46, 0.47, 0.8, 0.9, 0.95, 1.0]


def test_the_search_takes_the_survivor_that_holds_the_quantile() -> None:
    cells = [(1, 2), (5, 6), (8, 9)]
    assert told(SearchStage(cells, 10, 4000, HONEST, 0.5), CDF) == 6


def test_in_a_gap_the_survivor_whose_end_is_closer_wins() -> None:
    # The median lies in the gap between 4 (F = 0.46) and 7 (F(6) = 0.8): 4 is closer, then 7.
    assert told(SearchStage([(3, 4), (6, 7)], 10, 4000, HONEST, 0.5), CDF) == 4
    assert told(SearchStage([(3, 4), (6, 7)], 10, 4000, HONEST, 0.75), CDF) == 7


def test_the_search_never_falls_off_an_end() -> None:
    for q, expected in ((0.05, 4), (0.99, 7)):
        assert told(SearchStage([(3, 4), (6, 7)], 10, 4000, HONEST, q), CDF) == expected


def test_the_authors_search_falls_off_the_left_end() -> None:
    """Every coin too high: their answer is the LAST coin (our value is one more)."""
    assert told(PublishedStage([(3, 4), (6, 7)], 10, 4000, HONEST, 0.05), CDF) == 8


def test_testing_finds_the_survivor_that_encloses_the_quantile() -> None:
    cells = [(1, 2), (5, 6), (8, 9)]
    final = TestStage(cells, 10, 5000, HONEST, 0.5)
    assert told(final, CDF) == 6
    assert final.answered == [1000] * 5
    assert best_cell([(0, 1), (4, 5)], {0: 0.0, 1: 0.2, 4: 0.3, 5: 0.45}, 0.5, 10) == (4, 5)
    # One whose ends nobody was left to test comes after those that were.
    assert best_cell([(0, 1), (4, 5)], {0: 0.0, 1: 0.2, 4: None, 5: None}, 0.5, 10) == (0, 1)


def test_two_reductions_and_a_search_use_every_user() -> None:
    made, users = make(4**9, 2500), crowd(4**9, 2500)
    seen: set[int] = set()
    while queries := made.ask(made.batch_size()):
        seen |= {q.phase for q in queries if isinstance(q, Query)}
        made.tell(users.answer(queries))
    assert {0, 1, 2} <= seen
    assert made.heard == 2500
    assert made.unused == 0


def test_a_report_to_a_closed_phase_is_shown_and_not_used() -> None:
    made, users = make(1000, 300), crowd(1000, 300)
    query = made.ask(1)[0]
    made.give_up([query])
    while made.phase == 0:
        made.tell(users.answer(made.ask(1)))
    before = made.state()["progress"]
    made.tell([Report(query, 1)])  # type: ignore[arg-type]
    assert made.unused == 1
    assert made.estimate().unused == 1
    assert made.state()["progress"] == before


def test_reports_that_no_phase_asks_are_refused() -> None:
    made, users = make(4**9, 2500), crowd(4**9, 2500)
    coin = made.coin.threshold
    with pytest.raises(ProtocolError, match="arm 0"):
        made.tell([Report(Query(5, coin, arm=1), 1)])
    while made.phase < 1:
        made.tell(users.answer(made.ask(1)))
    foreign = next(t for t in range(4**9) if t not in made._possible())
    with pytest.raises(ProtocolError, match="phase 1"):
        made.tell([Report(Query(foreign, coin, phase=1), 1)])
    while made.phase < 2:
        made.tell(users.answer(made.ask(1)))
    with pytest.raises(ProtocolError, match="final stage"):
        made.tell([Report(Query(0, coin, phase=99), 1)])


def test_the_published_preset_is_made_of_its_options() -> None:
    preset = make(behaviour="published")
    by_hand = make(coin_rule="published", first_step="middle", reduction="interpolated", search="published")
    for option in ("coin_rule", "first_step", "reduction", "search", "bottom"):
        assert getattr(preset, option) == getattr(by_hand, option)
    mixed = make(behaviour="published", search="text")
    assert (mixed.coin_rule, mixed.search) == ("published", "text")
    assert from_state(json.loads(json.dumps(mixed.state()))).settings() == mixed.settings()


@pytest.mark.parametrize(
    "options",
    [
        {"final": "guess"},
        {"split": "half"},
        {"behaviour": "mine"},
        {"reduction": "mean"},
        {"final": "test", "search": "text"},
    ],
)
def test_bad_options_are_refused_in_one_line(options: dict) -> None:
    with pytest.raises(InvalidInput) as caught:
        make(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("final", ["search", "test"])
@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.85])
def test_it_finds_quantiles(final: str, quantile: float) -> None:
    """6000 nearly honest users on 4^9 values: rank error below 0.1; fixed seed."""
    size, users = 4**9, 6000
    rng = np.random.default_rng(8)
    sample = Sample(np.minimum(rng.pareto(1.5, users) * 2000, size - 1).astype(np.int64), size)
    made = make(size, users, epsilon=5.0, final=final, quantile=quantile)
    run(made, Users(sample, rng))
    value = made.estimate().value
    assert value is not None
    assert sample.rank_error(np.array([int(value)]), quantile)[0] < 0.1

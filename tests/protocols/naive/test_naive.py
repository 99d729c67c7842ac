"""The naive search as a protocol: rounds, waiting and late reports, the published behaviour, the shuffled coin."""

import json

import numpy as np
import pytest

from privquant.domain import Integers
from privquant.errors import InvalidInput, ProtocolError
from privquant.lab.populations import Users
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.messages import Guarantee, Query, Report
from privquant.privacy.shuffle import epsilon as shuffled_epsilon
from privquant.protocols.naive.search import NaiveSearch
from privquant.protocols.naive.shuffled import published_local_epsilon, shuffled_search, shuffled_settings
from privquant.protocols.registry import from_state


def make(size=64, users=60, **options):
    return NaiveSearch(Integers(0, size - 1), users=users, epsilon=2.0, **options)


def test_a_round_is_one_threshold_for_its_whole_batch():
    search = make(size=64, users=63)
    assert search.sizes == (11, 11, 11, 10, 10, 10)
    assert search.ask_counts(1000) == [(Query(31, search.coin.threshold, phase=0), 11)]
    assert search.ask(1) == [], "the round is in flight"
    assert search.batch_size() == 1


def test_the_target_is_any_quantile_through_the_coin():
    search = make(size=2, users=1000, quantile=0.9)
    assert search.target == pytest.approx(0.5 + search.coin.kappa * 0.4)
    (query,) = {*search.ask(1000)}
    for ones, answer in ((int(1000 * search.target) + 1, 0), (int(1000 * search.target) - 1, 1)):
        fresh = search.fresh()
        fresh.tell_counts(query, 1000, ones)
        assert fresh.estimate().value == answer


def test_every_user_is_used_on_any_domain():
    for size in (2, 3, 5, 7, 11, 100, 1000):
        search = make(size=size, users=101)
        values = np.random.default_rng(size).integers(0, size, 101)
        run(search, Users(Sample(values, size), np.random.default_rng(0)))
        assert search.heard == 101
        assert search.unused == 0


def test_reports_to_rounds_not_yet_open_wait():
    search, users = make(), Users(Sample(np.arange(60), 64), np.random.default_rng(1))
    log = []
    while queries := search.ask(60):
        reports = users.answer(queries)
        search.tell(reports)
        log += reports
    for order in (log[::-1], [log[k] for k in np.random.default_rng(2).permutation(60)]):
        rebuilt = search.fresh()
        rebuilt.tell(order[:30])
        rebuilt = from_state(json.loads(json.dumps(rebuilt.state())))
        rebuilt.tell(order[30:])
        assert rebuilt.state() == search.state()


def test_a_waiting_report_to_a_threshold_that_was_never_asked_is_shown_unused():
    search = make(size=4, users=4)
    stray = Report(Query(0, search.coin.threshold, phase=1), 1)
    search.tell([stray])
    assert search.unused == 0
    search.tell([Report(query, 0) for query in search.ask(2)])  # goes right: round 1 asks threshold 2
    assert search.unused == 1
    assert search.estimate().unused == 1


def test_a_report_to_another_threshold_than_the_round_asked_is_refused():
    search = make()
    with pytest.raises(ProtocolError, match="round 0 asked threshold 31, got 30"):
        search.tell([Report(Query(30, search.coin.threshold), 1)])
    for query in (Query(31, search.coin.threshold, phase=6), Query(31, search.coin.threshold, arm=1)):
        with pytest.raises(ProtocolError, match=r"phase in 0 \.\. 5"):
            search.tell([Report(query, 1)])


def test_a_late_report_to_a_closed_round_is_counted_and_not_used():
    search = make(users=12)
    first = search.ask(2)
    search.tell([Report(first[0], 1)])
    search.give_up([first[1]])
    before = search.estimate().value
    search.tell([Report(first[1], 0)])
    assert (search.heard, search.unused, search.estimate().value) == (2, 1, before)


@pytest.mark.parametrize("behaviour", ["text", "published"])
def test_any_course_of_events_ends_and_can_be_rebuilt(behaviour):
    """150 random courses: users answer, give up, answer twice; the process dies and is rebuilt from its log."""
    for seed in range(150):
        rng = np.random.default_rng(seed)
        size, users = int(rng.integers(1, 40)), int(rng.integers(0, 60))
        search, log, flight = make(size=size, users=users, behaviour=behaviour), [], []
        for _ in range(500):
            flight += search.ask(int(rng.integers(1, 9)))
            rng.shuffle(flight)
            count = int(rng.integers(0, len(flight) + 1))
            now, flight = flight[:count], flight[count:]
            for query in now:
                event = Report(query, int(rng.integers(0, 2))) if rng.random() < 0.8 else query
                log.append(event)
                happen(search, event)
                if rng.random() < 0.1:
                    flight.append(query)
            if rng.random() < 0.1:
                rebuilt = search.fresh()
                for event in log:
                    happen(rebuilt, event)
                assert rebuilt.estimates() == search.estimates()
                assert (rebuilt.heard, rebuilt.unused) == (search.heard, search.unused)
                search = rebuilt
            if not flight and not search.can_ask():
                break
        else:
            raise AssertionError(f"the run with seed {seed} does not end")


def happen(search, event):
    if isinstance(event, Report):
        search.tell([event])
    else:
        search.give_up([event])


def test_fewer_users_than_rounds_still_give_an_answer_inside_the_bracket():
    search = make(size=2**20, users=3)
    run(search, Users(Sample(np.array([5, 6, 7]), 2**20), np.random.default_rng(0)))
    assert search.finished
    assert 0 <= search.estimate().value < 2**20


def test_only_the_published_search_falls_off_the_bottom():
    values = np.zeros(6000, np.int64)
    answers = {}
    for behaviour in ("text", "published"):
        search = NaiveSearch(Integers(0, 63), users=6000, epsilon=6.0, behaviour=behaviour)
        answers[behaviour] = run(search, Users(Sample(values, 64), np.random.default_rng(0))).value
    assert answers == {"text": 0, "published": 63}


def test_an_unknown_behaviour_is_refused():
    with pytest.raises(InvalidInput, match="'text', 'published', got 'best'"):
        make(behaviour="best")


# -- the shuffle model ---------------------------------------------------------------------------------------

DOMAIN = Integers(0, 4**8 - 1)


def test_the_smallest_batch_governs():
    search = shuffled_search(DOMAIN, users=1_000_015, epsilon=1.0, delta=1e-8)
    assert min(search.sizes) == search.guarantee.batch == 62_500
    assert search.guarantee.trust == "shuffle"
    assert search.guarantee.local_epsilon == search.coin.epsilon
    reached = shuffled_epsilon(local_epsilon=search.epsilon, batch=62_500, delta=1e-8)
    assert reached <= 1.0
    assert reached == pytest.approx(1.0, abs=0.01), "the coin is not more timid than it must be"


def test_exact_accounting_allows_a_more_honest_coin_than_the_lemma_and_the_authors():
    coins = [
        shuffled_settings(DOMAIN, users=10**7, epsilon=0.5, delta=1e-8, method=method)["epsilon"]
        for method in ("exact", "lemma", "published")
    ]
    assert coins[0] > coins[1] + 2
    # The lemma in its own form has n / log2 B users a batch where the program has n / ln B.
    assert coins[2] == pytest.approx(np.log(0.25 * 1e7 / (80 * np.log(4**8) * np.log(4e8))))


def test_without_gain_the_plain_local_coin_is_used():
    settings = shuffled_settings(DOMAIN, users=160, epsilon=3.0, delta=1e-8, method="lemma")
    assert settings["epsilon"] == 3.0
    assert settings["guarantee"].trust == "local"


def test_the_published_formula_says_how_many_users_it_needs():
    with pytest.raises(InvalidInput, match=r"needs more than \d+ users .* got 1000"):
        published_local_epsilon(epsilon=0.1, delta=1e-8, users=1000, size=4**8)
    with pytest.raises(InvalidInput, match="method must be one of"):
        shuffled_settings(DOMAIN, users=10**6, epsilon=1.0, delta=1e-8, method="guess")


def test_the_guarantee_survives_the_state():
    search = shuffled_search(DOMAIN, users=10**6, epsilon=1.0, delta=1e-8, quantile=0.9)
    copy = from_state(json.loads(json.dumps(search.state())))
    assert copy.guarantee == search.guarantee
    assert isinstance(copy.guarantee, Guarantee)
    assert copy.coin == search.coin

"""Isotonic search as a protocol: its state is a table of counts, and everything follows from the table."""

import json

import numpy as np
import pytest

from privquant.domain import Grid, Integers
from privquant.errors import InvalidInput, ProtocolError
from privquant.lab.populations import CountUsers, Users
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.messages import Query, Report
from privquant.privacy.coin import Coin
from privquant.privacy.shuffle import epsilon as shuffled_epsilon
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.shuffled import round_sizes, shuffled_isotonic
from privquant.protocols.registry import from_state
from privquant.testing import CHECKS, Case

DOMAIN = Integers(0, 9999)
VARIANTS = [
    Case("isotonic", {"spread": 0.25}),
    Case("isotonic", {"interval": 0.9}),
    Case("isotonic", {"lam": 0.0, "bulk": False}),
    Case("isotonic", {"smooth": False}),
]


def isotonic(users=600, epsilon=2.0, domain=DOMAIN, **options):
    return Isotonic(domain, users=users, epsilon=epsilon, **options)


def population(users=600, size=10000, seed=0):
    rng = np.random.default_rng(seed)
    return Users(Sample(rng.integers(0, size, users), size), rng)


def reports_of(protocol, count, seed=0):
    """The reports of the first `count` users, asked one by one."""
    users, heard = population(protocol.users, seed=seed), []
    for _ in range(count):
        got = users.answer(protocol.ask(1))
        protocol.tell(got)
        heard += got
    return heard


@pytest.mark.parametrize("case", VARIANTS, ids=lambda case: str(case.options))
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_variant_conforms(check, case):
    check(case)


def test_the_next_question_depends_on_the_table_alone():
    protocol = isotonic(quantile=0.9, interval=0.9)
    reports = reports_of(protocol, 400)
    shuffled = isotonic(quantile=0.9, interval=0.9)
    shuffled.tell([reports[i] for i in np.random.default_rng(1).permutation(400)])
    assert shuffled.state() == protocol.state()
    assert shuffled.ask(50) == protocol.ask(50)
    assert shuffled.estimate() == protocol.estimate()


def test_merging_is_addition():
    whole = isotonic(quantile=[0.5, 0.9])
    reports = reports_of(whole, 300)
    parts = [isotonic(quantile=[0.5, 0.9]) for _ in range(2)]
    parts[0].tell(reports[::2])
    parts[1].tell(reports[1::2])
    parts[0].merge(parts[1])
    assert parts[0].state() == whole.state()
    assert parts[0].ask(1) == whole.ask(1)
    with pytest.raises(ProtocolError, match="same settings"):
        whole.merge(isotonic(quantile=0.5))


def test_counts_are_the_same_as_reports():
    one, other = isotonic(), isotonic()
    reports = reports_of(one, 200)
    for query in dict.fromkeys(report.query for report in reports):
        bits = [report.bit for report in reports if report.query == query]
        other.tell_counts(query, len(bits), sum(bits))
    assert one.state() == other.state()
    table = {key: (n, s) for key, n, s in one.counts()}
    assert sum(n for n, _ in table.values()) == 200
    assert all(key[2] == one.coin.threshold for key in table)


def test_a_late_report_counts():
    protocol = isotonic(users=100)
    late = protocol.ask(1)[0]
    reports_of(protocol, 99)
    before = protocol.heard
    protocol.tell([Report(late, 1)])
    assert protocol.heard == before + 1
    assert protocol.estimate().unused == 0


def test_answers_to_several_quantiles_rise():
    for seed in range(5):
        protocol = isotonic(users=60, epsilon=0.5, quantile=[0.1, 0.25, 0.5, 0.75, 0.9])
        run(protocol, population(60, seed=seed))
        values = [estimate.value for estimate in protocol.estimates()]
        assert values == sorted(values)
        assert protocol.estimate().value == values[0]


def test_users_are_shared_among_quantiles_and_arms():
    protocol = isotonic(users=1000, quantile=[0.4, 0.6], interval=0.95)
    queries = protocol.ask(1000)
    arms = np.bincount([query.arm for query in queries], minlength=6)
    # 500 users a quantile: 40 % of them in each side arm
    assert arms.tolist() == [100, 200, 200, 100, 200, 200]


def test_no_single_user_is_due_to_both_side_arms():
    protocol = isotonic(users=500, interval=0.95)
    arms = [protocol.ask(1)[0].arm for _ in range(500)]
    assert np.bincount(arms).tolist() == [100, 200, 200]
    assert set(arms[:50]) == {0}


def test_extreme_quantiles_begin_with_the_bulk():
    protocol = isotonic(users=2000, epsilon=1.0, quantile=0.95)
    assert protocol.ask(1)[0].phase == 0
    run(protocol, population(2000))
    kinds = {key[0] % 3 for key, _, _ in protocol.counts()}
    assert kinds == {0, 1, 2}  # bulk, search, anchors
    bulk = sum(n for key, n, _ in protocol.counts() if key[0] % 3 == 0)
    assert protocol.run_plan.bulk <= bulk <= 1.05 * protocol.run_plan.bulk
    assert isotonic(quantile=0.95, bulk=False).ask(1)[0].phase == 1
    assert isotonic(quantile=0.5).ask(1)[0].phase == 1


def test_a_batch_can_be_spread_over_the_posterior():
    protocol = isotonic(spread=0.25, guard=False)
    reports_of(protocol, 100)
    thresholds = [query.threshold for query in protocol.ask(64)]
    assert thresholds == sorted(thresholds)
    assert 5 < len(set(thresholds)) <= 32
    # one at a time while others are in flight: spread too
    lone = [protocol.ask(1)[0].threshold for _ in range(20)]
    assert len(set(lone)) > 3
    assert len({query.threshold for query in isotonic().ask(64)}) == 1


@pytest.mark.parametrize("size", [2, 3, 2**32, 2**63])
@pytest.mark.parametrize("where", [0.0, 0.37, 1.0])
def test_a_constant_is_found_in_any_domain(size, where):
    value = min(int(where * size), size - 1)
    sample = Sample(np.full(4000, value, np.int64), size)
    protocol = isotonic(users=4000, epsilon=3.0, domain=Integers(0, size - 1))
    found = run(protocol, CountUsers(sample, np.random.default_rng(4)))
    assert found.value == value


def test_the_prior_can_be_chosen():
    uniform = isotonic(lam=0.0).ask(1)[0].threshold
    mixed, log = isotonic().ask(1)[0].threshold, isotonic(lam=1.0).ask(1)[0].threshold
    assert log < mixed < uniform
    assert abs(uniform - 4999) <= 1
    assert abs(np.log(log + 2) / np.log(10001) - 0.5) < 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": 1.5}, "lam must be a number from 0 to 1, got 1.5"),
        ({"spread": 0.7}, "spread must be a number from 0 to 0.5, got 0.7"),
        ({"interval": 95}, "interval must be a number strictly between 0 and 1, got 95"),
        ({"rounds": [(10, 2**62)]}, "the rounds have 10 users in all, but 600 are planned"),
        ({"rounds": [(600, 2**62)], "spread": 0.2}, "leave interval and spread out"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        isotonic(**options)


@pytest.mark.parametrize(
    "change",
    [{"threshold": 9999}, {"coin": 5}, {"arm": 1}, {"phase": 0}, {"phase": 2}, {"phase": 4}, {"threshold": "7"}],
    ids=str,
)
def test_foreign_reports_are_refused(change):
    protocol = isotonic(guard=False)
    query = protocol.ask(1)[0]
    fields = {name: getattr(query, name) for name in query.__slots__} | change
    with pytest.raises(ProtocolError):
        protocol.tell([Report(Query(**fields), 1)])
    assert protocol.heard == 0


def test_the_search_band_is_about_the_search_and_says_so():
    protocol = isotonic()
    assert protocol.search_band() is None
    reports_of(protocol, 400)
    low, high = protocol.search_band(0.9)
    assert low <= protocol.estimate().value <= high
    narrow = protocol.search_band(0.5)
    assert low <= narrow[0] <= narrow[1] <= high
    assert "NOT a confidence interval" in Isotonic.search_band.__doc__
    with pytest.raises(InvalidInput, match="searches the quantiles"):
        protocol.search_band(0.9, 0.3)


def test_an_interval_over_bins_shows_edges():
    edges = np.linspace(0, 1, 200)
    sample = Sample(np.random.default_rng(0).integers(0, 201, 3000), 201)
    protocol = isotonic(users=3000, domain=Grid(edges), epsilon=4.0, interval=0.95)
    found = run(protocol, CountUsers(sample, np.random.default_rng(1)))
    assert found.interval is not None
    assert found.interval.low < 0.5 < found.interval.high
    assert "confidence" in found.notes[0]


# -- shuffle rounds --------------------------------------------------------------------------------------------


def test_the_schedule_of_shuffle_rounds():
    assert round_sizes(1000, 1.0, 2**18) == [1000 * (r + 1) // 23 - 1000 * r // 23 for r in range(23)]
    middle, large = round_sizes(100_000, 1.0, 2**18), round_sizes(10**7, 1.0, 2**18)
    assert (len(middle), len(large)) == (51, 114)
    for users, sizes in ((100_000, middle), (10**7, large)):
        assert sum(sizes) == users
        assert sizes == sorted(sizes)
    assert round_sizes(3, 1.0, 2**63) == [1, 1, 1]


def test_every_round_keeps_the_promise_and_uses_what_its_size_allows():
    protocol = shuffled_isotonic(DOMAIN, users=20_000, epsilon=1.0, delta=1e-8)
    assert protocol.guarantee.trust == "shuffle"
    assert protocol.guarantee.batch == min(size for size, _ in protocol.rounds)
    real = {size: Coin(coin).epsilon for size, coin in protocol.rounds}
    assert protocol.guarantee.local_epsilon == max(real.values())
    for size in (min(real), max(real)):
        assert shuffled_epsilon(local_epsilon=real[size], batch=size, delta=1e-8) <= 1.0
    assert real[max(real)] > real[min(real)] > 1.0


def test_rounds_close_before_the_next_begins_and_survive_a_restart():
    protocol = shuffled_isotonic(DOMAIN, users=3000, epsilon=1.0, delta=1e-6)
    users = population(3000)
    first = protocol.rounds[0][0]
    some = protocol.ask(2)
    rest = protocol.ask(10_000)
    assert len(some) + len(rest) == first
    assert len({*some, *rest}) == 1
    assert protocol.ask(1) == []
    protocol.tell(users.answer([*some, *rest[1:]]))
    assert protocol.ask(1) == []
    protocol.give_up(rest[:1])
    second = protocol.ask(3)
    protocol.tell(users.answer(second))
    again = from_state(json.loads(json.dumps(protocol.state())))
    assert again.ask(1) == protocol.ask(1)
    assert second[0].phase == 2
    found = run(shuffled_isotonic(DOMAIN, users=3000, epsilon=1.0, delta=1e-6), population(3000, seed=2))
    assert 3000 < found.value < 7000


def test_a_round_takes_only_its_own_coin():
    protocol = shuffled_isotonic(DOMAIN, users=20_000, epsilon=1.0, delta=1e-8)
    other = next(coin for _, coin in protocol.rounds if coin != protocol.rounds[0][1])
    with pytest.raises(ProtocolError, match="round 1 never used the coin"):
        protocol.tell([Report(Query(5, other, 1, 0), 1)])


def test_where_shuffling_gains_nothing_the_promise_is_local():
    protocol = shuffled_isotonic(DOMAIN, users=10, epsilon=1.0, delta=1e-8)
    assert protocol.guarantee.trust == "local"
    assert protocol.guarantee.epsilon <= 1.0


@pytest.mark.parametrize(
    "rounds",
    ["x", b"ab", 5, 1.5, True, [5], [(1, 2, 3)], [()], {1: 2}, [(4, 7), (6,)], object(), [None], [np.array(3)]],
)
def test_rounds_that_are_no_pairs_are_refused(rounds):
    with pytest.raises(InvalidInput, match="pairs"):
        isotonic(rounds=rounds)


def test_without_the_curve_the_answer_is_the_median_of_the_posterior():
    plain = isotonic(smooth=False)
    reports = reports_of(plain, 600)
    curved = isotonic()
    curved.tell(reports)
    low, high = curved.search_band(0.9)
    assert low <= plain.estimate().value <= high
    assert low <= curved.estimate().value <= high
    assert plain.estimate().value != curved.estimate().value
    assert from_state(plain.state()).estimate() == plain.estimate()


@pytest.mark.parametrize("option", ["bulk", "smooth"])
@pytest.mark.parametrize("value", ["false", 0, None, 1.0])
def test_what_is_neither_true_nor_false_is_refused(option, value):
    with pytest.raises(InvalidInput, match=f"{option} must be True or False, got {value!r}"):
        isotonic(**{option: value})

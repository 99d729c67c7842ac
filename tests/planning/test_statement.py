"""What is said of an estimate: by one place, above the protocols, and only where something is known."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

import privquant as pq
from privquant.domain import Integers
from privquant.error_words import Certain, Interval, Lump, Typical, error_statement
from privquant.lab import trials
from privquant.lab.populations import CountUsers, Users
from privquant.lab.run import drive, run
from privquant.lab.sample import Sample
from privquant.planning import statement
from privquant.planning.statement import interval_sentence, stated, stated_estimates
from privquant.protocols.registry import protocol, protocol_names
from studies import paper_problems

SIZE = 1024
DOMAIN = Integers(0, SIZE - 1)
VALUES = np.random.default_rng(0).integers(0, 1000, 2500)
SAMPLE = Sample(VALUES, SIZE)


def finished(name="isotonic", *, users=2500, epsilon=1.0, **options):
    made = protocol(name, DOMAIN, users=users, epsilon=epsilon, **options)
    drive(made, Users(SAMPLE, np.random.default_rng(1)))
    return made


@pytest.mark.parametrize("name", protocol_names())
def test_a_protocol_says_nothing_and_its_estimate_has_its_index(name):
    options = {"encoding": "hadamard"} if name == "hierarchical" else {}
    for found in finished(name, **options).estimates():
        assert (found.rank, found.notes) == (None, ())
        assert DOMAIN.value(found.index) == found.value


def test_protocols_load_nothing_of_planning():
    """In a process of its own, with every protocol loaded and one finished; the twin asks for a statement."""
    code = """
import sys, numpy as np
from privquant.domain import Integers
from privquant.messages import Report
from privquant.protocols.registry import protocol, protocol_class, protocol_names
[protocol_class(name) for name in protocol_names()]
made = protocol("isotonic", Integers(0, 9), users=50, epsilon=1.0, interval=0.9)
while queries := made.ask(5):
    made.tell([Report(query, 1) for query in queries])
assert made.estimate().index is not None
{more}
print(sorted(name for name in sys.modules if name.startswith("privquant.planning")))
"""

    def loaded(more):
        script = [sys.executable, "-c", code.format(more=more)]
        return subprocess.run(script, capture_output=True, text=True, check=True, timeout=120).stdout.strip()

    assert loaded("") == "[]"
    assert "privquant.planning.statement" in loaded("import privquant; privquant.run")


def test_many_trials_compute_no_statement(monkeypatch):
    """Neither the engines nor asking the object itself; one run that a person reads does."""
    said = []
    real = statement.certain_of
    monkeypatch.setattr(statement, "certain_of", lambda *a: said.append(a) or real(*a))
    for name in ("naive", "isotonic", "bayess"):
        trials(VALUES[:60], protocol=name, epsilon=1.0, domain=DOMAIN, trials=3, seed=1)
    from privquant.lab.engine import simulate_by_asking

    template = protocol("isotonic", DOMAIN, users=60, epsilon=1.0)
    simulate_by_asking(template, SAMPLE, 3, np.random.default_rng(1))
    assert said == []
    run(template.fresh(), CountUsers(SAMPLE, np.random.default_rng(1)))
    assert len(said) == 1


def test_an_estimate_says_what_is_certain_and_what_is_typical():
    made = protocol("isotonic", DOMAIN, users=2500, epsilon=1.0)
    bare = stated(made.estimate(), made)
    assert (bare.certain, bare.typical, bare.rank) == (None, None, None)
    found = run(made, CountUsers(SAMPLE, np.random.default_rng(1)))
    assert found.rank is None
    assert found.certain.low <= found.value <= found.certain.high
    # a rank known to the standard deviation of all reports at the quantile itself, 2.2 points, some times over
    assert 0.05 < found.certain.within < 0.12
    assert found.typical.low <= found.value <= found.typical.high
    assert found.typical.within < found.certain.within
    assert stated(found, made) == found == stated(made.estimate(), made)


def test_the_two_sentences_say_which_is_which_and_of_whom():
    found = stated_estimates(finished())[0]
    assert str(found.certain).startswith("certain, for any data: with 95 % confidence some value from ")
    assert "in the population the users were drawn from, if each answered once" in str(found.certain)
    assert str(found.typical).startswith("typical, on smooth data: 95 % of such runs land within ")
    assert "among the people asked" in str(found.typical)
    for said in (found.certain, found.typical):
        assert error_statement(said.to_dict()) == said
    assert "typically" in repr(found)
    assert "certain" in repr(found)


def test_several_quantiles_and_an_interval_leave_each_search_fewer_reports():
    alone = stated_estimates(finished())[0].certain.within
    third = stated_estimates(finished(quantile=[0.25, 0.5, 0.75]))[1].certain.within
    beside = stated_estimates(finished(interval=0.95))[0].certain.within
    assert alone < beside
    assert alone < third


def test_where_ranks_reach_the_end_no_bound_on_the_quantile_is_claimed():
    high = stated_estimates(finished(quantile=0.99))[0]
    assert 0.99 + high.certain.within >= 1.0
    assert str(high.certain).endswith("; no upper bound on the quantile itself")
    assert high.certain.low is None
    middle = stated_estimates(finished(epsilon=3.0))[0]
    assert "no upper bound" not in str(middle.certain)


def test_too_few_users_are_told_that_they_say_nothing():
    few = stated_estimates(finished(users=12, epsilon=0.5))[0]
    assert (few.certain, few.typical) == (None, None)
    assert few.notes == ("12 reports, asked like this, say next to nothing about the quantile",)


def test_a_lump_is_named_instead_of_called_typical():
    """45 % of all users share one value, at ranks .22 to .67: seen in at least 30 of 40 runs, a fixed seed each."""
    rng = np.random.default_rng(5)
    values = np.where(rng.random(4000) < 0.45, 400, rng.integers(0, 1000, 4000))
    lumpy = 0
    for seed in range(40):
        found = pq.quantile(values, 0.35, epsilon=2.0, domain=DOMAIN, rng=seed)
        lumpy += isinstance(found.typical, Lump) or found.typical is None
        assert found.rank is None
        if isinstance(found.typical, Lump):
            assert str(found.typical).startswith("typical: nothing, the data look lumpy near the answer")
    assert lumpy >= 30


NOT_MEASURED = [
    ("naive", {"behaviour": "published"}),
    ("bayess", {"final": "test"}),
    ("bayess", {"behaviour": "published"}),
    ("bayess", {"alpha": 0.1}),
    ("bayeslearn", {"update": "counts"}),
    ("bayeslearn", {"alpha": 0.1}),
    ("hierarchical", {"encoding": "hadamard"}),
    ("hierarchical", {"encoding": "sue"}),
    ("hierarchical", {"answer": "argmin"}),
]


@pytest.mark.parametrize(("name", "options"), NOT_MEASURED)
def test_nothing_is_said_of_settings_that_were_not_measured(name, options):
    assert stated_estimates(finished(name, users=300, **options))[0].rank is None
    assert stated_estimates(finished(name, users=300))[0].rank is not None


def test_the_options_that_were_measured_are_options():
    for name, measured in statement._MEASURED.items():
        assert measured.keys() <= protocol(name, DOMAIN, users=10, epsilon=1.0).options().keys()


def test_a_tree_whose_encoding_follows_from_its_size_is_known_by_what_it_became():
    wide = protocol("hierarchical", Integers(0, 2**30), users=10, epsilon=1.0)
    assert wide.encoding == "hadamard"
    assert stated(wide.estimate_at(5, 0.5, users=10), wide).rank is None
    small = protocol("hierarchical", DOMAIN, users=10, epsilon=1.0)
    assert stated(small.estimate_at(5, 0.5, users=10), small).rank is not None


def test_the_interval_is_put_into_words_once():
    made = finished(epsilon=4.0, interval=0.95)
    bare = made.estimate()
    assert bare.interval is not None
    found = stated(bare, made)
    assert found.notes == (interval_sentence(bare.interval, 0.5),)
    assert stated(found, made) == found
    assert pq.median(VALUES, epsilon=4.0, domain=DOMAIN, interval=0.95, rng=1).notes[0].startswith("with 0.95 ")


def test_the_words_of_an_interval():
    both = interval_sentence(Interval(3, 9, 0.95), 0.9)
    assert both.startswith("with 0.95 confidence the 0.9-quantile of the population")
    assert "is at least 3 and at most 9, if each user answered once" in both
    assert "at least" not in interval_sentence(Interval(None, 9, 0.95), 0.9)
    assert interval_sentence(Interval(None, None, 0.95), 0.5).startswith("nothing can be certified")


@pytest.mark.parametrize("name", ["naive", "isotonic"])
def test_a_padded_quantile_claims_nothing_from_a_table_of_medians(name):
    found = paper_problems.padded_quantile(
        VALUES, 0.9, epsilon=2.0, domain=DOMAIN, rng=np.random.default_rng(1), protocol=name
    )
    assert (found.rank, found.quantile, found.users) == (None, 0.9, 2500)
    assert found.notes == ("the median with 2500 virtual users",)
    direct = paper_problems.empirical_quantile(
        VALUES, 0.9, epsilon=2.0, domain=DOMAIN, rng=np.random.default_rng(1), protocol=name
    )
    said = direct.certain if name == "isotonic" else direct.rank
    assert said.quantile == 0.9


def test_liars_are_told_the_same_in_a_plan_and_in_a_run():
    plan = statement.liars_in_a_plan(0.01, epsilon=1.0, quantile=0.5)
    assert plan.startswith("1.0% liars can move the answer's rank by -1.1 to +1.1 percentile points; 31.6% can")
    one = statement.liars_in_a_run(0.01, epsilon=1.0, quantiles=[0.5])
    said = "With 1% of liars among the users, liars can move the answer's rank by -1.1 to +1.1 points."
    assert one == f"{said} {statement.TIMED}"
    assert plan.endswith(statement.GUARDED)
    guarded = statement.liars_in_a_run(0.01, epsilon=1.0, quantiles=[0.5], guarded=True)
    assert guarded == f"{said} {statement.GUARDED}"
    two = statement.liars_in_a_run(0.01, epsilon=1.0, quantiles=[0.5, 0.9])
    assert two.count(" at quantile ") == 2


@pytest.mark.parametrize(
    ("if_lumpy", "said"),
    [
        (0.12, "; within 12 points if many share one value unnoticed"),
        (0.05, "; the same if many share one value unnoticed"),
        (None, "; at any rank if many share one value unnoticed"),
    ],
)
def test_the_typical_sentence_ends_with_lumps_that_do_not_show(if_lumpy, said):
    told = Typical(0.5, 10, 20, 0.05, if_lumpy)
    assert str(told).endswith(said)
    assert error_statement(told.to_dict()) == told


def test_statements_of_earlier_code_are_read():
    old = {"kind": "smooth", "quantile": 0.5, "low": 10, "high": 20, "within": 0.05}
    assert error_statement(old) == Typical(0.5, 10, 20, 0.05)
    empty = {"quantile": 0.99, "low": None, "high": None, "within": 0.2, "confidence": 0.95}
    assert error_statement(empty) is None
    assert error_statement(empty | {"high": 7}) == Certain(0.99, None, 7, 0.2, 0.95)


# -- ends: of the ranks, of the domain, of open bins ---------------------------------------------------------


def test_where_the_reports_bound_nothing_nothing_is_called_certain():
    """The slack takes in the last rank, and the other side has no end: any data would keep such a sentence."""
    for seed in range(5):
        few = pq.quantile([0] * 5, 0.999, epsilon=8.0, domain=(0, 99_999), rng=seed)
        assert few.certain is None
    assert "say next to nothing" in repr(few)


@pytest.mark.parametrize(("quantile", "said"), [(0.99, "lower"), (0.01, "upper")])
def test_a_side_that_was_not_tested_has_no_end(quantile, said):
    """Where the slack takes in rank 1 no value is too high: nothing speaks against lower ones. And the mirror."""
    values = np.random.default_rng(2).lognormal(6, 1, 2000).astype(int)
    found = pq.quantile(values, quantile, epsilon=2.0, domain=(0, 99_999), rng=2)
    assert found.certain.within >= min(quantile, 1.0 - quantile)
    assert (found.certain.low if said == "lower" else found.certain.high) is None
    assert (found.certain.high if said == "lower" else found.certain.low) is not None


@pytest.mark.parametrize(("value", "domain"), [(1, (-1, 1)), (0, (0, 99_999)), (2**63 - 1, (0, 2**63 - 1))])
def test_the_ends_of_the_domain_are_bounds(value, domain):
    found = pq.median([value] * 5000, epsilon=3.0, domain=domain, rng=1)
    assert found.value == value
    end = found.certain.low if value == domain[0] else found.certain.high
    assert end == value
    assert "no bound" not in repr(found)


@pytest.mark.parametrize(("users", "epsilon"), [(3000, 1.0), (20_000, 1.0), (20_000, 3.0)])
def test_a_value_that_all_share_is_certain_from_both_sides(users, epsilon):
    """A search that is sure of one value goes on to ask on both sides of it."""
    found = pq.median([7] * users, epsilon=epsilon, domain=(0, 99), rng=1)
    assert (found.certain.low, found.value, found.certain.high) == (7, 7, 7)


def test_the_first_bin_is_open():
    """Nine in ten medians of these are in the first bin, which has no lower edge; without it none would be kept."""
    kept = 0
    for seed in range(10):
        values = np.random.default_rng(seed).normal(-2, 30, 3000)
        found = pq.median(values, epsilon=0.5, domain=pq.Grid(np.linspace(0, 100, 41)), rng=seed)
        said = found.typical
        kept += not isinstance(said, Typical) or said.low <= np.median(values) <= said.high
        if isinstance(said, Typical) and found.index == 0:
            assert "from about the start of the data to " in str(said)
    assert kept >= 9


def test_what_is_written_down_reads_the_same():
    """The last bin is open: its end is infinite, which JSON has not."""
    found = pq.quantile([100.0] * 3000, [0.5, 0.9], epsilon=1.0, domain=pq.Grid([0.0, 10.0, 20.0]), rng=1)
    said = [Typical(0.5, -math.inf, math.inf, 0.05, 0.1), Lump(-math.inf, 0.0, 0.5)]
    said += [each for one in found for each in (one.certain, one.typical) if each is not None]
    assert len(said) > 2
    for each in said:
        again = error_statement(json.loads(json.dumps(each.to_dict(), allow_nan=False)))
        assert again == each
        assert str(again) == str(each)


def test_numbers_read_well():
    assert str(Interval(1, 2, 0.999)) == "1 .. 2 (99.9% certified)"
    assert str(Interval(1, 2, 0.95)) == "1 .. 2 (95% certified)"
    assert "rise by about 100 points near 7" in str(Lump(7, 7, 0.996))
    assert "within 1 point of 50 %" in str(Typical(0.5, 1, 2, 0.0101, None))
    one = Certain(0.5, 49, 49, 0.05, 0.95)
    assert "with 95 % confidence the value 49 has a rank within 5 points" in str(one)
    assert "1 user heard" in repr(pq.median([3], epsilon=1.0, domain=(0, 9), rng=1))

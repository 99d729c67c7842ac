"""What isotonic search is held to, in short here and in full by `make test-full`."""

import math

import numpy as np
import pytest

from privquant.lab.studies import search_report as report
from privquant.lab.studies.search_cell import Measured, Setting, measure, users_for, users_for_90
from privquant.lab.studies.search_table import (
    SEARCH_CELLS,
    TABLES,
    work,
)

HELD = [cell for cell in SEARCH_CELLS if cell[4] is not None]


def measured(name, size, q, epsilon, trials, data_sets, **changes):
    return measure(Setting(name, size, epsilon, quantile=q, **changes), data_sets, trials, [3])


@pytest.mark.parametrize(("name", "size", "q", "epsilon", "least"), HELD)
def test_success_is_near_the_limit(name, size, q, epsilon, least):
    """120 runs: 3.5 deviations below what is asked; false alarm 2.5e-4 a cell if the cell just meets it."""
    trials = 120
    found = measured(name, size, q, epsilon, trials, 40).success
    assert found >= least - 3.5 * math.sqrt(least * (1 - least) / trials)


def test_a_weaker_search_would_be_noticed():
    """DpBayeSS fails the same bound in the cell where it is furthest behind."""
    name, size, q, epsilon, least = HELD[6]
    found = measured(name, size, q, epsilon, 120, 40, protocol="bayess").success
    assert found < least - 3.5 * math.sqrt(least * (1 - least) / 120)


def test_shuffled_rounds_beat_the_lemma_six_times():
    """Mean rank errors of 150 runs each; the measured ratio is near 12, deviation about 1."""
    ours = measured("pareto", 4**9, 0.5, 1.0, 150, 5, users=100_000, shuffled="exact").error[0]
    lemma = measured("pareto", 4**9, 0.5, 1.0, 150, 5, users=100_000, shuffled="lemma", protocol="naive").error[0]
    assert lemma >= 6 * ours


def test_shared_reports_beat_divided_users():
    """Mean rank error over the deciles: one run of 4,500 users against nine of 500, 60 runs each.

    The ratio is 4.4 with deviation 0.3, so that below 3 is a false alarm of 1e-5, and a run that does not share its
    reports (ratio 1) is always found.
    """
    quantiles = tuple(k / 10 for k in range(1, 10))
    together = measured("tiny", 2**32, quantiles, 0.879, 60, 15, users=4500).error
    alone = [measured("tiny", 2**32, q, 0.879, 60, 15, users=500, population=4500).error[0] for q in quantiles]
    assert 3 * sum(together) < sum(alone)


def test_tables_do_not_depend_on_the_number_of_processes():
    jobs = TABLES["shuffle"](6, 2, 5)[:2]
    assert work(jobs, workers=1) == work(jobs, workers=2)


def test_users_for_a_rate_inverts_the_limit():
    rates = {n: Setting("pareto", 4**9, 0.879, users=n).limit for n in (1500, 2000, 2500, 3000)}
    needed = users_for(rates)
    assert Setting("pareto", 4**9, 0.879, users=round(needed)).limit == pytest.approx(0.9, abs=1e-3)


def test_users_for_90_says_how_sure_it_is():
    """Its standard error is that of the answers of other samples of the same size."""
    truth = {n: Setting("pareto", 4**9, 0.879, users=n).limit for n in (1500, 2000, 2500, 3000)}
    rng = np.random.default_rng(4)
    samples = [
        {n: Measured(rng.binomial(1000, rate) / 1000, (0.0,), 1000) for n, rate in truth.items()}
        for _ in range(200)
    ]
    found = [users_for_90(sample) for sample in samples[:20]]
    spread = np.std([users_for({n: m.success for n, m in sample.items()}) for sample in samples])
    assert np.mean([error for _, error in found]) == pytest.approx(spread, rel=0.25)
    fewer = {n: Measured(rate, (0.0,), 100) for n, rate in truth.items()}
    assert users_for_90(fewer)[1] > 2 * spread


def _with_and_without_curve(name, q, epsilon, trials):
    return (
        measured(name, 10**6, q, epsilon, trials, trials // 4, smooth=smooth).error[0] for smooth in (True, False)
    )


def test_the_curve_is_better_than_the_median_alone():
    """q = .9 on normal data: mean rank errors .0206 and .0229, deviation of the difference .00065 in 1,200 runs,
    so that the curve would fail once in 5,000 seeds. The twin, with a gap beside the quantile, fails the same test.
    """
    curved, plain = _with_and_without_curve("normal", 0.9, 0.879, 1200)
    assert curved < plain
    curved, plain = _with_and_without_curve("gap48", 0.5, 1.357, 600)
    assert not curved < plain


def _met(table, trials, data_sets):
    text, met = report.REPORTS[table](work(TABLES[table](trials, data_sets, 1), workers=2))
    assert met, text


FAR_AHEAD = pytest.mark.xfail(
    reason="DpBayeSS as the text has it needs 2.67 +- 0.06 times the users, not 2.8", strict=True
)


@pytest.mark.full
@pytest.mark.parametrize("table", ["search", pytest.param("users", marks=FAR_AHEAD), "shuffle"])
def test_the_whole_table(table):
    _met(table, 4000, 500)


@pytest.mark.full
@pytest.mark.parametrize("table", ["rounds", "several", "coverage"])
def test_the_slower_tables(table):
    _met(table, 1000, 250)

"""What isotonic search is held to, in short here and in full by `make test-full`."""

import math

import pytest

from privquant.lab import search_report as report
from privquant.lab.search_table import (
    SEARCH_CELLS,
    TABLES,
    Setting,
    measure,
    users_for,
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
    """Mean rank errors of 150 runs each; the measured ratio is near 9, deviation about 0.8."""
    ours = measured("pareto", 4**9, 0.5, 1.0, 150, 5, users=100_000, shuffled="exact").error[0]
    lemma = measured("pareto", 4**9, 0.5, 1.0, 150, 5, users=100_000, shuffled="lemma", protocol="naive").error[0]
    assert lemma >= 6 * ours


def test_shared_reports_beat_divided_users():
    """Mean rank error over three quantiles: one run of 4,500 users against three of 1,500, 100 runs each.

    The ratio is near 1.27 with deviation 0.08: false alarm 1e-3, fixed seed.
    """
    quantiles = (0.25, 0.5, 0.75)
    together = measured("tiny", 2**32, quantiles, 0.879, 100, 20, users=4500).error
    alone = [measured("tiny", 2**32, q, 0.879, 100, 20, users=1500, population=4500).error[0] for q in quantiles]
    assert sum(together) < sum(alone)


def test_tables_do_not_depend_on_the_number_of_processes():
    jobs = TABLES["shuffle"](6, 2, 5)[:2]
    assert work(jobs, workers=1) == work(jobs, workers=2)


def test_users_for_a_rate_inverts_the_limit():
    rates = {n: Setting("pareto", 4**9, 0.879, users=n).limit for n in (1500, 2000, 2500, 3000)}
    needed = users_for(rates)
    assert Setting("pareto", 4**9, 0.879, users=round(needed)).limit == pytest.approx(0.9, abs=1e-3)


def _met(table, trials, data_sets):
    text, met = report.REPORTS[table](work(TABLES[table](trials, data_sets, 1), workers=2))
    assert met, text


FAR_AHEAD = pytest.mark.xfail(reason="DpBayeSS as the text has it needs 2.6 times the users, not 2.8", strict=False)


@pytest.mark.full
@pytest.mark.parametrize("table", ["search", pytest.param("users", marks=FAR_AHEAD), "shuffle"])
def test_the_whole_table(table):
    _met(table, 4000, 500)


@pytest.mark.full
@pytest.mark.parametrize("table", ["rounds", "several", "coverage"])
def test_the_slower_tables(table):
    _met(table, 1000, 250)

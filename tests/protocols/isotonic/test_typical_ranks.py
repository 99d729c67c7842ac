"""The ranks that any distribution allows at the answer, against a search over all monotone rates of a grid."""

import itertools
import math

import numpy as np
import pytest

from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.table import add_counts, new_table
from privquant.protocols.isotonic.typical_ranks import UNLIKELY, rank_reach

KAPPA = 0.6
GRID = np.linspace(0.5 - KAPPA / 2, 0.5 + KAPPA / 2, 121)


def filled(rows, last=99):
    search, table = Search(last, 0.0, np.array([KAPPA])), new_table(16)
    for threshold, reports, ones in rows:
        add_counts(table, search, 0, -1, False, threshold, reports, ones)
    return table, search


def likeliest(rows, floor=(), ceiling=()):
    """The largest log-likelihood of rates that rise, from the grid.

    floor, ceiling: (threshold, rate) that thresholds from there on are not below, up to there not above.
    """
    best = np.zeros(GRID.size)
    for threshold, reports, ones in sorted(rows):
        fit = ones * np.log(GRID) + (reports - ones) * np.log(1.0 - GRID)
        for place, rate in floor:
            if threshold >= place:
                fit = np.where(rate - 1e-9 <= GRID, fit, -math.inf)
        for place, rate in ceiling:
            if threshold <= place:
                fit = np.where(rate + 1e-9 >= GRID, fit, -math.inf)
        best = np.maximum.accumulate(best) + fit
    return best.max()


def reach_by_search(rows, quantile, answer):
    free = likeliest(rows)
    high = max(r for r in GRID if free - likeliest(rows, floor=[(answer - 1, r)]) <= UNLIKELY)
    low = min(r for r in GRID if free - likeliest(rows, ceiling=[(answer, r)]) <= UNLIKELY)
    target = 0.5 + KAPPA * (quantile - 0.5)
    return max(high - target, target - low) / KAPPA


@pytest.mark.parametrize("seed", range(12))
def test_it_is_what_a_search_over_all_rates_finds(seed):
    rng = np.random.default_rng(seed)
    thresholds = np.sort(rng.choice(99, rng.integers(3, 7), replace=False)).tolist()
    rows = []
    for threshold in thresholds:
        reports = int(rng.integers(5, 60))
        rows.append((threshold, reports, int(rng.binomial(reports, 0.2 + 0.6 * threshold / 99))))
    for quantile, answer in itertools.product((0.3, 0.5, 0.8), (thresholds[0], thresholds[1] + 1, thresholds[-1])):
        found = rank_reach(*filled(rows), quantile, answer)
        step = (GRID[1] - GRID[0]) / KAPPA
        assert found == pytest.approx(reach_by_search(rows, quantile, answer), abs=1.1 * step)


def test_an_answer_beyond_the_next_threshold_has_another_reach():
    """The twin of the test above, which would tell one threshold more or less on a side."""
    rows = [(20, 40, 14), (40, 60, 26), (60, 50, 29), (80, 30, 21)]
    step = (GRID[1] - GRID[0]) / KAPPA
    assert abs(rank_reach(*filled(rows), 0.5, 50) - reach_by_search(rows, 0.5, 70)) > 3.0 * step


def test_a_lump_beside_the_answer_is_within_reach():
    """Nobody was asked between 40 and 60: the answer may have any rank from that at 40 to that at 60."""
    table, search = filled([(40, 10_000, 5_000 - 900), (60, 10_000, 5_000 + 1_500)])
    found = rank_reach(table, search, 0.5, 50)
    assert found == pytest.approx(0.15 / KAPPA, rel=0.1)


def test_at_an_end_of_the_domain_one_side_is_known():
    """Nobody is below the first value: that answer is never too high. The largest domain has no index beyond."""
    rows = [(0, 400, 260), (40, 300, 180), (80, 300, 200)]
    last = 2**63 - 1
    assert rank_reach(*filled(rows), 0.5, 0) < 0.05 < rank_reach(*filled(rows), 0.5, 1)
    mirrored = [(last - 1 - threshold, reports, reports - ones) for threshold, reports, ones in rows]
    assert rank_reach(*filled(mirrored, last), 0.5, last) == pytest.approx(rank_reach(*filled(rows), 0.5, 0))

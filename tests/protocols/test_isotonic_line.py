"""The straight line through the rates: found where there is one, refused where there is none."""

import numpy as np
import pytest

from privquant.protocols.isotonic_fit import Search, add_counts, new_table
from privquant.protocols.isotonic_line import line_crossing

UNIFORM = Search(10**6 - 1, 0.0, np.array([0.5]))
WINDOW = (400_000, 600_000)


def table_of(rate, reports=200, thresholds=41):
    """Rates on even thresholds across the window, without noise."""
    table = new_table(60)
    for c in np.linspace(*WINDOW, thresholds).astype(int).tolist():
        share = (c - WINDOW[0]) / (WINDOW[1] - WINDOW[0])
        add_counts(table, UNIFORM, 0, -1, False, c, reports, round(rate(share) * reports))
    return table


def crossing(table, quantile=0.5):
    return int(line_crossing(table, UNIFORM, quantile, *WINDOW, 1.0))


def least_squares(table, target):
    """The slow twin: numpy's weighted straight line."""
    count = int(table.held[0])
    c, n, s = table.threshold[:count], table.reports[0, :count], table.ones[0, :count]
    slope, height = np.polyfit(c.astype(float), s / n, 1, w=np.sqrt(n))
    return (target - height) / slope


def test_the_crossing_is_that_of_least_squares():
    for middle in (0.44, 0.5, 0.55):
        table = table_of(lambda share, middle=middle: middle + 0.4 * (share - 0.5))
        assert crossing(table) == pytest.approx(least_squares(table, 0.5), abs=2)


@pytest.mark.parametrize(
    "rate",
    [
        lambda share: 0.4 if share < 0.5 else 0.6,
        lambda share: 0.5,
        lambda share: 0.6 - 0.2 * share,
        lambda share: 0.35 if share < 0.9 else 0.75,
    ],
    ids=["step", "flat", "falling", "late step"],
)
def test_what_is_no_line_is_refused(rate):
    assert crossing(table_of(rate)) == -1


def test_a_window_with_few_of_the_reports_is_refused():
    table = table_of(lambda share: 0.5 + 0.4 * (share - 0.5))
    assert crossing(table) > 0
    add_counts(table, UNIFORM, 0, -1, False, 100, 5000, 1300)
    assert crossing(table) == -1


def test_two_thresholds_are_no_line():
    assert crossing(table_of(lambda share: 0.3 + 0.4 * share, thresholds=2)) == -1


def test_a_crossing_outside_the_window_stops_at_its_end():
    assert crossing(table_of(lambda share: 0.1 + 0.3 * share)) == WINDOW[1]
    assert crossing(table_of(lambda share: 0.6 + 0.3 * share)) == WINDOW[0]

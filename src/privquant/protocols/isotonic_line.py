"""A sharper answer where the data are smooth: a straight line through the rates around the quantile.

An isotonic fit makes no use of smoothness and pays for it. Where the rates of the whole window in which the search
still sees the quantile rise along a line, the line's crossing of the target uses all of them at once. It is used
only if the search found the place early, the slope is beyond doubt and no part of the window strays from it (at a
step, an atom or a gap some part does), and it moves the answer no further than the central 60 % of the posterior.
"""

from __future__ import annotations

import math

from privquant._numba import njit
from privquant.protocols.isotonic_fit import (
    Search,
    Table,
    counts_at,
    least_rate,
    point_in_cell,
    prior_mass,
    profile,
    target_rate,
    to_weights,
)

# The window is what the posterior (at its own power) leaves between these tails.
TAIL = 0.005
# Nearly all reports must lie in the window: where finding the data took longer, rates in it are not yet known.
INSIDE = 0.93
# The slope must be this many standard deviations above 0.
STEEP = 2.5
# The window in this many parts of equally many reports: the sum of squared deviations from the line, 4 expected.
PARTS = 6
STRAY = 12.0


@njit(cache=True)
def weigh_for_window(table: Table, search: Search, quantile: float) -> None:
    """The posterior whose tails bound the window: that of the answer, at power 1."""
    target = target_rate(search, quantile)
    least = least_rate(search)
    n, s, total = counts_at(table, search, quantile)
    floor = 0.5 * math.sqrt(target * (1.0 - target) / (total + 1.0))
    profile(table, n, s, target, floor, least, 1.0 - least)
    to_weights(table, 1.0, False)


@njit(cache=True)
def line_crossing(table: Table, search: Search, quantile: float, low: int, high: int, part_of_all: float) -> int:
    """Where the line through the rates at the thresholds in low .. high crosses the target; -1 if it is no line.

    Measured along the prior, which is smooth on both a linear and a logarithmic scale. part_of_all: the part of all
    reports that was asked for this quantile.
    """
    target = target_rate(search, quantile)
    variance = target * (1.0 - target)
    n, s, total = counts_at(table, search, quantile)
    whole = prior_mass(low, high, search)
    first = 0
    while first < table.held[0] and table.threshold[first] < low:
        first += 1
    last = first
    reports = 0.0
    sum_x = 0.0
    sum_y = 0.0
    while last < table.held[0] and table.threshold[last] <= high:
        x = prior_mass(low, table.threshold[last], search) / whole if table.threshold[last] > low else 0.0
        reports += n[last]
        sum_x += n[last] * x
        sum_y += s[last]
        last += 1
    if last - first < 3 or reports < INSIDE * part_of_all * total:
        return -1
    mean_x = sum_x / reports
    mean_y = sum_y / reports
    xx = 0.0
    xy = 0.0
    for k in range(first, last):
        x = prior_mass(low, table.threshold[k], search) / whole if table.threshold[k] > low else 0.0
        xx += n[k] * (x - mean_x) ** 2
        xy += (s[k] - n[k] * mean_y) * (x - mean_x)
    if xx <= 0.0 or xy <= STEEP * math.sqrt(xx * variance):
        return -1
    slope = xy / xx
    stray = 0.0
    part = 0.0
    off = 0.0
    for k in range(first, last):
        x = prior_mass(low, table.threshold[k], search) / whole if table.threshold[k] > low else 0.0
        part += n[k]
        off += s[k] - n[k] * (mean_y + slope * (x - mean_x))
        if part * PARTS >= reports:
            stray += off * off / (part * variance)
            part = 0.0
            off = 0.0
    if stray > STRAY:
        return -1
    share = mean_x + (target - mean_y) / slope
    if share <= 0.0:
        return max(low, 0)
    if share >= 1.0:
        return high
    return point_in_cell(low, high, share, search)

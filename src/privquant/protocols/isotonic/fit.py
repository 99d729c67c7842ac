"""The arithmetic of isotonic search: what a table of counts says about where the quantile lies.

Reports at threshold c are ones with probability 1/2 + kappa (F(c) - 1/2), and of F only monotonicity is known.
The distinct thresholds c_1 < .. < c_K cut the domain into cells 0 .. K (cell k holds c_k + 1 .. c_{k+1}). For
each cell: the largest likelihood of any monotone F whose quantile lies in it (`profile`), times the prior mass of
the cell, to a power: that is the posterior (`weigh_*`) from which the next threshold and the answer are read.

Plain functions on arrays, O(K) each, run by the protocol object and by the lab's engine alike: microseconds with
numba, milliseconds without. Thresholds are domain indices and stay integers up to 2^63 - 1; prior masses are
computed from integer differences, so that narrow cells high up in a huge domain keep all their digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant._numba import njit

Floats = NDArray[np.float64]

# Rates are kept this far from 0 and 1, so that no logarithm is infinite at a coin that hardly ever flips.
_EDGE = 1e-12
# A cell this much less likely than the best one has no weight (exp would underflow).
_NEGLIGIBLE = -700.0
# Share of the prior that the cells of the bulk phase divide equally, for extreme quantiles.
_GRID_SHARE = 0.8


class Search(NamedTuple):
    """What does not change in a run, as numbers a compiled kernel can read.

    last:    the greatest domain index (size - 1).
    lam:     share of the log-uniform prior; the rest is uniform.
    kappas:  one for each coin of the run; the first is the largest, counts of the others are converted to it.
    """

    last: int
    lam: float
    kappas: Floats


class Table(NamedTuple):
    """Counts for each distinct threshold, rising, and scratch space; K = held[0] of the columns are in use.

    held:     K, and whether `boost` must be made anew.
    reports, ones:  one row a coin.
    mass:     prior mass of each cell.
    grid:     whether the bulk phase asked at this threshold; `boost` is what that does to the mass of each cell.
    side_reports, side_ones:  the interval's arms apart (they are in `reports` too): one row an arm.
    """

    held: NDArray[np.int64]
    threshold: NDArray[np.int64]
    reports: Floats
    ones: Floats
    mass: Floats
    grid: NDArray[np.int64]
    boost: Floats
    side_reports: Floats
    side_ones: Floats
    n: Floats
    s: Floats
    fit: Floats
    weight: Floats
    block_n: Floats
    block_s: Floats
    block_fit: Floats


def new_table(capacity: int, *, coins: int = 1, sides: int = 0) -> Table:
    """An empty table with room for `capacity` distinct thresholds."""
    room = capacity + 2
    table = Table(
        np.zeros(2, np.int64),
        np.zeros(room, np.int64),
        np.zeros((coins, room)),
        np.zeros((coins, room)),
        np.zeros(room),
        np.zeros(room, np.int64),
        np.ones(room),
        np.zeros((sides, room)),
        np.zeros((sides, room)),
        *(np.zeros(room) for _ in range(7)),
    )
    table.mass[0] = 1.0
    return table


def grown(table: Table) -> Table:
    """The same table with twice the room."""
    count = int(table.held[0])
    larger = new_table(2 * table.threshold.size, coins=len(table.reports), sides=len(table.side_reports))
    for old, new in zip(table, larger, strict=True):
        if old is table.held:
            new[:] = old
        else:
            new[..., : count + 1] = old[..., : count + 1]
    return larger


@njit(cache=True)
def clear(table: Table) -> None:
    """Forget all counts."""
    table.held[0] = 0
    table.held[1] = 0
    table.mass[0] = 1.0
    table.boost[0] = 1.0


# -- the prior -------------------------------------------------------------------------------------------------


@njit(cache=True)
def prior_mass(low: int, high: int, search: Search) -> float:
    """Prior mass of the indices low + 1 .. high; low may be -1.

    The prior mixes uniform and log-uniform: up to index i it has mass (1-lam) (i+1)/B + lam ln(i+2)/ln(1+B).
    """
    size = float(search.last) + 1.0
    # high - low itself overflows for the whole of a domain of 2^63 values
    width = float(high) + 1.0 if low < 0 else float(high - low)
    share = width / size
    if search.lam == 0.0:
        return share
    return (1.0 - search.lam) * share + search.lam * math.log1p(width / (float(low) + 2.0)) / math.log1p(size)


@njit(cache=True)
def point_in_cell(low: int, high: int, share: float, search: Search) -> int:
    """The index in low .. high with about `share` of the prior mass of low + 1 .. high at or below it."""
    target = share * prior_mass(low, high, search)
    left = low
    right = high
    while left + 1 < right:
        # the exact midpoint, without a difference that could overflow
        middle = (left >> 1) + (right >> 1) + (left & right & 1)
        if prior_mass(low, middle, search) < target:
            left = middle
        else:
            right = middle
    if target - prior_mass(low, left, search) < prior_mass(low, right, search) - target:
        return left
    return right


# -- the table -------------------------------------------------------------------------------------------------


@njit(cache=True)
def column_of(table: Table, search: Search, threshold: int) -> int:
    """The column of a threshold, which is put in if it is new."""
    count = table.held[0]
    left = 0
    right = count
    while left < right:
        middle = (left + right) // 2
        if table.threshold[middle] < threshold:
            left = middle + 1
        else:
            right = middle
    if left < count and table.threshold[left] == threshold:
        return left
    if count + 2 > table.threshold.size:  # compiled code would write beyond the end without a word
        raise IndexError("the table of thresholds is full")
    for k in range(count, left, -1):
        table.threshold[k] = table.threshold[k - 1]
        table.grid[k] = table.grid[k - 1]
        table.mass[k + 1] = table.mass[k]
        for row in range(table.reports.shape[0]):
            table.reports[row, k] = table.reports[row, k - 1]
            table.ones[row, k] = table.ones[row, k - 1]
        for row in range(table.side_reports.shape[0]):
            table.side_reports[row, k] = table.side_reports[row, k - 1]
            table.side_ones[row, k] = table.side_ones[row, k - 1]
    table.threshold[left] = threshold
    table.grid[left] = 0
    for row in range(table.reports.shape[0]):
        table.reports[row, left] = 0.0
        table.ones[row, left] = 0.0
    for row in range(table.side_reports.shape[0]):
        table.side_reports[row, left] = 0.0
        table.side_ones[row, left] = 0.0
    table.held[0] = count + 1
    table.held[1] = 1
    low = table.threshold[left - 1] if left > 0 else -1
    high = table.threshold[left + 1] if left < count else search.last
    table.mass[left] = prior_mass(low, threshold, search)
    table.mass[left + 1] = prior_mass(threshold, high, search)
    return left


@njit(cache=True)
def add_counts(
    table: Table, search: Search, coin: int, side: int, bulk: bool, threshold: int, reports: int, ones: int
) -> None:
    """Take in `reports` answers to one threshold. side: row of the interval's arm, or -1."""
    k = column_of(table, search, threshold)
    table.reports[coin, k] += reports
    table.ones[coin, k] += ones
    if side >= 0:
        table.side_reports[side, k] += reports
        table.side_ones[side, k] += ones
    if bulk and table.grid[k] == 0:
        table.grid[k] = 1
        table.held[1] = 1


@njit(cache=True)
def make_boost(table: Table) -> None:
    """The prior for extreme quantiles: the cells between thresholds of the bulk phase share 0.8 of it equally,
    each dividing its part as the base prior does; the base prior keeps 0.2.
    """
    count = table.held[0]
    cells = 1
    for k in range(count):
        cells += table.grid[k]
    share = _GRID_SHARE if cells > 1 else 0.0
    start = 0
    inside = 0.0
    for k in range(count + 1):
        inside += table.mass[k]
        if k == count or table.grid[k] == 1:
            lift = 1.0 - share
            if inside > 0.0:
                lift += share / (cells * inside)
            for j in range(start, k + 1):
                table.boost[j] = lift
            start = k + 1
            inside = 0.0
    table.held[1] = 0


@njit(cache=True)
def counts_at(table: Table, search: Search, quantile: float) -> tuple[Floats, Floats, float]:
    """(reports, ones, total reports) a threshold, all coins together.

    Counts at a smaller kappa become as many reports at the largest one as carry the same information on F near
    the quantile, at the same de-biased rate.
    """
    count = table.held[0]
    total = 0.0
    if table.reports.shape[0] == 1:
        for k in range(count):
            total += table.reports[0, k]
        return table.reports[0], table.ones[0], total
    best = search.kappas[0]
    p_best = 0.5 + best * (quantile - 0.5)
    for k in range(count):
        table.n[k] = 0.0
        table.s[k] = 0.0
    for coin in range(table.reports.shape[0]):
        kappa = search.kappas[coin]
        p = 0.5 + kappa * (quantile - 0.5)
        worth = (kappa / best) ** 2 * (p_best * (1.0 - p_best)) / (p * (1.0 - p))
        for k in range(count):
            n = table.reports[coin, k]
            if n > 0.0:
                table.n[k] += worth * n
                table.s[k] += worth * n * (0.5 + best / kappa * (table.ones[coin, k] / n - 0.5))
    for k in range(count):
        total += table.n[k]
    return table.n, table.s, total


# -- the fit ---------------------------------------------------------------------------------------------------


@njit(cache=True)
def _log_likelihood(n: float, s: float, p: float) -> float:
    found = 0.0
    if s != 0.0:
        found += s * math.log(p)
    if s != n:
        found += (n - s) * math.log1p(-p)
    return found


@njit(cache=True)
def profile(table: Table, n: Floats, s: Floats, target: float, floor: float, least: float, most: float) -> None:
    """fit[k]: log-likelihood of the best monotone rates whose crossing of `target` lies in cell k.

    Thresholds left of the cell are fitted by rates in least .. target - floor, those right of it by rates in
    target + floor .. most (the floor never takes more than half of the way to an end). Pooling adjacent violators
    with a running log-likelihood gives all cells in one pass from each side; a fit within bounds is the free fit,
    clipped.
    """
    count = table.held[0]
    block_n, block_s, block_fit, fit = table.block_n, table.block_s, table.block_fit, table.fit
    block_fit[0] = 0.0
    fit[0] = 0.0
    highest = max(target - floor, 0.5 * (least + target))
    top = 0
    for k in range(count):
        reports = n[k]
        ones = s[k]
        while top > 0 and block_s[top] * reports >= ones * block_n[top]:
            reports += block_n[top]
            ones += block_s[top]
            top -= 1
        top += 1
        block_n[top] = reports
        block_s[top] = ones
        rate = ones / reports if reports > 0.0 else highest
        rate = max(min(rate, highest), least)
        block_fit[top] = block_fit[top - 1] + _log_likelihood(reports, ones, rate)
        fit[k + 1] = block_fit[top]
    lowest = min(target + floor, 0.5 * (most + target))
    top = 0
    for k in range(count - 1, -1, -1):
        reports = n[k]
        ones = s[k]
        while top > 0 and block_s[top] * reports <= ones * block_n[top]:
            reports += block_n[top]
            ones += block_s[top]
            top -= 1
        top += 1
        block_n[top] = reports
        block_s[top] = ones
        rate = ones / reports if reports > 0.0 else lowest
        rate = min(max(rate, lowest), most)
        block_fit[top] = block_fit[top - 1] + _log_likelihood(reports, ones, rate)
        fit[k] += block_fit[top]


@njit(cache=True)
def to_weights(table: Table, power: float, boosted: bool) -> None:
    """weight[k] proportional to (prior mass of cell k) exp(power fit[k]), summing to 1."""
    count = table.held[0]
    best = table.fit[0]
    for k in range(1, count + 1):
        best = max(best, table.fit[k])
    total = 0.0
    for k in range(count + 1):
        behind = power * (table.fit[k] - best)
        weight = table.mass[k] * math.exp(behind) if behind > _NEGLIGIBLE else 0.0
        if boosted:
            weight *= table.boost[k]
        table.weight[k] = weight
        total += weight
    for k in range(count + 1):
        table.weight[k] /= total


@njit(cache=True)
def cell_at(table: Table, share: float) -> tuple[int, float]:
    """The cell in which the posterior reaches `share`, and how far into the cell's mass that is."""
    count = table.held[0]
    passed = 0.0
    for k in range(count):
        if passed + table.weight[k] >= share:
            inside = (share - passed) / table.weight[k] if table.weight[k] > 0.0 else 0.5
            return k, min(max(inside, 0.0), 1.0)
        passed += table.weight[k]
    inside = (share - passed) / table.weight[count] if table.weight[count] > 0.0 else 0.5
    return count, min(max(inside, 0.0), 1.0)


@njit(cache=True)
def gap_seen(table: Table, n: Floats, s: Floats, own: float, target: float) -> float:
    """How far the reports nearest to the posterior's central 80 % are from the target, on the closer side.

    own: the number of reports asked for this quantile. 0 where a side has too few reports to say.
    """
    count = table.held[0]
    left, _ = cell_at(table, 0.1)
    right, _ = cell_at(table, 0.9)
    wanted = own / 8.0
    reports = 0.0
    ones = 0.0
    k = left - 1
    while k >= 0 and reports < wanted:
        reports += n[k]
        ones += s[k]
        k -= 1
    if reports < max(wanted / 2.0, 4.0):
        return 0.0
    below = target - ones / reports
    reports = 0.0
    ones = 0.0
    k = right
    while k < count and reports < wanted:
        reports += n[k]
        ones += s[k]
        k += 1
    if reports < max(wanted / 2.0, 4.0):
        return 0.0
    return max(min(below, ones / reports - target), 0.0)


@njit(cache=True)
def target_rate(search: Search, quantile: float) -> float:
    """The rate of ones among reports at the quantile."""
    return 0.5 + float(search.kappas[0]) * (quantile - 0.5)


@njit(cache=True)
def least_rate(search: Search) -> float:
    """The rate of ones where nobody's value is at or below the threshold; 1 minus it where everybody's is."""
    return max(0.5 - 0.5 * float(search.kappas[0]), _EDGE)

"""The state of isotonic search: counts for each distinct threshold, with the prior mass of the cells between them.

The distinct thresholds c_1 < .. < c_K cut the domain into cells 0 .. K; cell k holds c_k + 1 .. c_{k+1}. Plain
functions on arrays, run by the protocol object and by the lab's engine alike: microseconds with numba, milliseconds
without. Thresholds are domain indices and stay integers up to 2^63 - 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant._numba import njit
from privquant.protocols.isotonic.prior import Search, prior_mass

Floats = NDArray[np.float64]

# Share of the prior that the cells of the bulk phase divide equally, for extreme quantiles.
_GRID_SHARE = 0.8


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

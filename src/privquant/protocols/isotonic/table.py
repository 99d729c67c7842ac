"""The state of isotonic search: counts for each distinct threshold, with the prior mass of the cells between them.

The distinct thresholds c_1 < .. < c_K cut the domain into cells 0 .. K; cell k holds c_k + 1 .. c_{k+1}. Plain
functions on arrays, run by the protocol object and by the lab's engine alike: microseconds with numba, milliseconds
without. Thresholds are domain indices and stay integers up to 2^63 - 1.
"""

from typing import NamedTuple

import numpy as np

from privquant._numba import compiled_form, njit
from privquant.arrays import Floats, Ints
from privquant.protocols.isotonic.prior import Search, prior_mass

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

    held: Ints
    threshold: Ints
    reports: Floats
    ones: Floats
    mass: Floats
    grid: Ints
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
def place_of(rising: Ints, first: int, last: int, threshold: int) -> int:
    """The least column of first .. last whose threshold is not below the one given; `last` if there is none."""
    while first < last:
        middle = (first + last) // 2
        if rising[middle] < threshold:
            first = middle + 1
        else:
            last = middle
    return first


def _make_way(column: Floats | Ints, at: Ints, fresh: int, count: int) -> None:
    """Move what stands at at[i] .. at[i + 1] - 1 by i + 1: a free place before each at[i]."""
    for i in range(fresh - 1, -1, -1):
        column[at[i] + i + 1 : count + i + 1] = column[at[i] : count]
        count = at[i]


@compiled_form(_make_way)
def _make_way_one_by_one(column: Floats | Ints, at: Ints, fresh: int, count: int) -> None:
    """The same without a copy of what overlaps."""
    for i in range(fresh - 1, -1, -1):
        for k in range(count - 1, at[i] - 1, -1):
            column[k + i + 1] = column[k]
        count = at[i]


@njit(cache=True)
def _put_in(table: Table, search: Search, threshold: Ints, at: Ints, fresh: int) -> None:
    """Columns without reports for `fresh` rising thresholds, each before the column at[i] of those held so far."""
    count = table.held[0]
    if count + fresh + 1 > table.threshold.size:  # compiled code would write beyond the end without a word
        raise IndexError("the table of thresholds is full")
    _make_way(table.threshold, at, fresh, count)
    _make_way(table.grid, at, fresh, count)
    _make_way(table.mass[1:], at, fresh, count)  # the cell to the right of a threshold goes with it
    for i in range(fresh):
        table.threshold[at[i] + i] = threshold[i]
        table.grid[at[i] + i] = 0
    for counts in (table.reports, table.ones, table.side_reports, table.side_ones):
        for row in range(counts.shape[0]):
            _make_way(counts[row], at, fresh, count)
            for i in range(fresh):
                counts[row, at[i] + i] = 0.0
    table.held[0] = count + fresh
    table.held[1] = 1
    for i in range(fresh):
        k = at[i] + i
        table.mass[k] = prior_mass(table.threshold[k - 1] if k > 0 else -1, threshold[i], search)
        if i + 1 == fresh or at[i + 1] > at[i]:
            high = table.threshold[k + 1] if k + 1 < count + fresh else search.last
            table.mass[k + 1] = prior_mass(threshold[i], high, search)


@njit(cache=True)
def add_sorted(
    table: Table,
    search: Search,
    coin: int,
    side: int,
    bulk: bool,
    threshold: Ints,
    reports: Ints,
    ones: Ints,
) -> None:
    """Take in the answers to thresholds none of which is below the one before it, in one pass over the table.

    side: row of the interval's arm, or -1.
    """
    count = table.held[0]
    new = np.empty(threshold.size, np.int64)
    at = np.empty(threshold.size, np.int64)
    fresh = 0
    k = 0
    for i in range(threshold.size):
        if i > 0 and threshold[i] == threshold[i - 1]:
            continue
        k = place_of(table.threshold, k, count, threshold[i])
        if k == count or table.threshold[k] != threshold[i]:
            new[fresh] = threshold[i]
            at[fresh] = k
            fresh += 1
    if fresh > 0:
        _put_in(table, search, new, at, fresh)
    k = 0
    for i in range(threshold.size):
        k = place_of(table.threshold, k, count + fresh, threshold[i])
        table.reports[coin, k] += reports[i]
        table.ones[coin, k] += ones[i]
        if side >= 0:
            table.side_reports[side, k] += reports[i]
            table.side_ones[side, k] += ones[i]
        if bulk and table.grid[k] == 0:
            table.grid[k] = 1
            table.held[1] = 1


@njit(cache=True)
def add_counts(
    table: Table, search: Search, coin: int, side: int, bulk: bool, threshold: int, reports: int, ones: int
) -> None:
    """Take in `reports` answers to one threshold. side: row of the interval's arm, or -1."""
    one = np.empty((3, 1), np.int64)
    one[0, 0] = threshold
    one[1, 0] = reports
    one[2, 0] = ones
    add_sorted(table, search, coin, side, bulk, one[0], one[1], one[2])


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

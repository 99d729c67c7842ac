"""The decisions of isotonic search: where to ask next, how many, and what to answer.

Each is a function of the table of counts alone, so the order and the lateness of reports do not matter. The
numbers in here were found by simulation over many shapes of data; none of them touches what a user is promised.
"""

import math

from privquant._numba import njit
from privquant.arrays import Ints
from privquant.protocols.isotonic.curve import TAIL, curve_crossing
from privquant.protocols.isotonic.posterior import (
    cell_at,
    cell_from,
    gap_seen,
    least_rate,
    profile,
    target_rate,
    to_weights,
)
from privquant.protocols.isotonic.prior import Search, point_in_cell
from privquant.protocols.isotonic.table import Table, counts_at, make_boost

# A cell with less of the posterior than this is not cut again: its nearer end is asked once more.
REUSE = 0.03
# The answer is read from a posterior sharper than the one that asks: the likelihood to this power,
ANSWER_POWER = 2.0
# and never lies further from its median than this share of it.
CENTRAL = 0.3
# A round spread over posterior quantiles asks at most this many different thresholds.
SPREAD_POINTS = 32
# Fractional part of the golden ratio, whose multiples do what `even_part` says.
_GOLDEN = 0.6180339887498949


@njit(cache=True)
def batch_size(heard: int) -> int:
    """How many users to ask at one threshold: 2 % of those heard, at least one."""
    return max(1, heard // 50)


@njit(cache=True)
def is_extreme(quantile: float) -> bool:
    """Whether a quantile is searched after a bulk phase and with its prior."""
    return min(quantile, 1.0 - quantile) <= 0.2


@njit(cache=True)
def weigh_for_query(table: Table, search: Search, quantile: float, boosted: bool, part: float) -> None:
    """The posterior from which the next threshold is read; part: of all reports, those asked for this quantile."""
    if boosted and table.held[1] == 1:
        make_boost(table)
    target = target_rate(search, quantile)
    least = least_rate(search)
    spread = math.sqrt(target * (1.0 - target))
    n, s, total = counts_at(table, search, quantile)
    floor = spread / math.sqrt(total + 1.0)
    profile(table, n, s, target, floor, least, 1.0 - least)
    to_weights(table, 1.0, boosted)
    if total < 16.0:
        return
    gap = gap_seen(table, n, s, part * total, target)
    power = 1.0 if gap > 2.0 * spread / math.sqrt(part * total) else 0.8
    if 0.7 * gap > floor:
        profile(table, n, s, target, 0.7 * gap, least, 1.0 - least)
    elif power == 1.0:
        return
    to_weights(table, power, boosted)


@njit(cache=True)
def fit_for_answer(table: Table, search: Search, quantile: float, boosted: bool) -> None:
    """The likelihoods from which the answer is read: with a smaller floor than those that ask."""
    if boosted and table.held[1] == 1:
        make_boost(table)
    target = target_rate(search, quantile)
    least = least_rate(search)
    n, s, total = counts_at(table, search, quantile)
    floor = 0.5 * math.sqrt(target * (1.0 - target) / (total + 1.0))
    profile(table, n, s, target, floor, least, 1.0 - least)


@njit(cache=True)
def _threshold_in(low: int, high: int, inside: float, end_only: bool, search: Search) -> int:
    """The threshold so far into the cell low + 1 .. high; one of its ends where the cell is not to be cut."""
    if end_only or low + 1 >= high:
        nearer = high if inside >= 0.5 else low
        if nearer < 0:
            nearer = high
        if nearer >= search.last:
            nearer = low
        if 0 <= nearer < search.last:
            return nearer
    found = point_in_cell(low, high, inside, search)
    return min(max(found, 0), search.last - 1)


@njit(cache=True)
def _is_above(table: Table, cell: int) -> bool:
    """Whether the posterior above a cell is as heavy as that below it, or heavier.

    For a cell of one value that is the same as the median lying in its upper half; but where nearly all of the mass
    is in that cell only the sums themselves tell the sides apart, and one end would be asked for ever.
    """
    below = 0.0
    for k in range(cell):
        below += table.weight[k]
    above = 0.0
    for k in range(cell + 1, table.held[0] + 1):
        above += table.weight[k]
    return above >= below


@njit(cache=True)
def threshold_at(table: Table, search: Search, share: float, reuse: float) -> int:
    """The threshold at which the posterior reaches `share`; the end of a cell that has less mass than `reuse`."""
    count = table.held[0]
    k, inside = cell_at(table, share)
    low = table.threshold[k - 1] if k > 0 else -1
    high = table.threshold[k] if k < count else search.last
    if share == 0.5 and low + 1 >= high:
        inside = 1.0 if _is_above(table, k) else 0.0
    return _threshold_in(low, high, inside, table.weight[k] < reuse, search)


@njit(cache=True)
def spread_thresholds(table: Table, search: Search, spread: float, points: int, out: Ints) -> None:
    """`threshold_at` of all shares of a spread batch, cutting any cell; none is below the one before it."""
    count = table.held[0]
    threshold, weight = table.threshold, table.weight
    k = 0
    passed = 0.0
    for point in range(points):
        k, passed, inside = cell_from(weight, count, k, passed, spread_share(spread, point, points))
        low = threshold[k - 1] if k > 0 else -1
        high = threshold[k] if k < count else search.last
        out[point] = _threshold_in(low, high, inside, False, search)


@njit(cache=True)
def value_at(table: Table, search: Search, share: float) -> int:
    """The index at which the posterior reaches `share`, taken as an answer: never the closed end of its cell."""
    count = table.held[0]
    k, inside = cell_at(table, share)
    low = table.threshold[k - 1] if k > 0 else -1
    high = table.threshold[k] if k < count else search.last
    return max(point_in_cell(low, high, inside, search), low + 1)


@njit(cache=True)
def answer_window(table: Table, search: Search, quantile: float, boosted: bool) -> tuple[int, int, int]:
    """(median, low, high): of the posterior that answers, whose weights are in the table then; and the window in
    which a curve is looked for, with `low` just left of it.
    """
    fit_for_answer(table, search, quantile, boosted)
    to_weights(table, 1.0, boosted)
    low = value_at(table, search, TAIL) - 1
    high = value_at(table, search, 1.0 - TAIL)
    to_weights(table, ANSWER_POWER, boosted)
    return value_at(table, search, 0.5), low, high


@njit(cache=True)
def answer(table: Table, search: Search, quantile: float, boosted: bool, smooth: bool = True) -> int:
    """The index of the answer: where a smooth curve through the rates reaches the quantile, inside the central part
    of the posterior; the posterior's median where there are too few thresholds for a curve, or none is wanted.
    """
    median, low, high = answer_window(table, search, quantile, boosted)
    if not smooth:
        return median
    least = value_at(table, search, 0.5 - CENTRAL)
    most = value_at(table, search, 0.5 + CENTRAL)
    crossing = curve_crossing(table, search, quantile, median, low, high)
    if crossing < 0:
        return median
    return min(max(crossing, least), most)


@njit(cache=True)
def spread_share(spread: float, point: int, points: int) -> float:
    """The posterior quantile of one of `points` thresholds spread evenly over 1/2 -+ spread."""
    return 0.5 + spread * (2.0 * (point + 0.5) / points - 1.0)


@njit(cache=True)
def even_part(step: int) -> float:
    """A number in (0, 1) for each step, such that any stretch of steps fills (0, 1) evenly."""
    turn = step * _GOLDEN
    return turn - math.floor(turn)


@njit(cache=True)
def lone_share(spread: float, asked: int) -> float:
    """The same for users asked one at a time while others are in flight."""
    return 0.5 + spread * (2.0 * even_part(asked) - 1.0)


def bulk_reports(users: int, kappa: float, size: int) -> int:
    """How many reports the search for the median gets before extreme quantiles are searched: enough to find the
    bulk of the data, and at most a quarter of all.
    """
    return int(min(math.ceil(4.0 * math.log(size) / kappa**2), math.ceil(users / 4)))

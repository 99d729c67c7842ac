"""How far off in rank an answer may be if the data are not smooth, though their reports look it.

A curve knows smooth data only. A lump that does not show, many users on one value close to the answer, puts the
answer off by as many as share that value. Here F is any distribution: for each rank the best monotone rates that
put the answer there are compared with the best of all. Ranks that are not much less likely are within reach.

The answer's ranks are F(answer - 1) to F(answer): it is too high only if the first is, too low only if the second.
"""

from privquant._numba import njit
from privquant.arrays import Floats
from privquant.protocols.isotonic.posterior import best_fit, least_rate, profile, target_rate
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.table import Table, counts_at, place_of

# Ranks this many nats less likely than the likeliest are out of reach: some 99 % of answers on lumpy data are then
# within it, more than 90 % on each of the shapes in docs/statements.md.
UNLIKELY = 3.0
# The end is found to this many halvings of the way to 0 or 1, and which side of the likeliest rank a rank is on by
# a step of this part of the way.
_HALVINGS = 14
_STEP = 1e-4


@njit(cache=True)
def _behind(table: Table, n: Floats, s: Floats, cell: int, rate: float, least: float) -> float:
    """How much less likely than the best of all monotone rates are the best that cross `rate` in this cell."""
    profile(table, n, s, rate, 0.0, least, 1.0 - least)
    return float(best_fit(table) - table.fit[cell])


@njit(cache=True)
def _furthest(table: Table, n: Floats, s: Floats, cell: int, rate: float, end: float, least: float) -> float:
    """The rate furthest from `rate` on the way to `end` that the reports allow in this cell.

    Likelihood is concave in the rate, so the rates allowed are an interval; it need not begin at `rate`.
    """
    near, far = rate, end
    for _ in range(_HALVINGS):
        middle = 0.5 * (near + far)
        behind = _behind(table, n, s, cell, middle, least)
        beyond = middle + _STEP * (end - middle)
        if behind > UNLIKELY and _behind(table, n, s, cell, beyond, least) > behind:
            far = middle
        else:
            near = middle
    return far


@njit(cache=True)
def rank_reach(table: Table, search: Search, quantile: float, answer: int) -> float:
    """How far the answer's rank may be from the quantile, whatever the data."""
    count = table.held[0]
    n, s, _ = counts_at(table, search, quantile)
    rate, least = target_rate(search, quantile), least_rate(search)
    high = low = rate
    if answer > 0:  # nobody is below the first value, and nobody above the last
        at_or_above = place_of(table.threshold, 0, count, answer - 1)
        high = _furthest(table, n, s, at_or_above, rate, 1.0 - least, least)
    if answer < search.last:
        above = place_of(table.threshold, 0, count, answer + 1)
        low = _furthest(table, n, s, above, rate, least, least)
    return max(high - rate, rate - low) / float(search.kappas[0])

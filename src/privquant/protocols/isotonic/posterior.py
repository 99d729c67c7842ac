"""What the table of counts says about where the quantile lies.

Reports at threshold c are ones with probability 1/2 + kappa (F(c) - 1/2), and of F only monotonicity is known. For
each cell: the largest likelihood of any monotone F whose quantile lies in it (`profile`), times the prior mass of
the cell, to a power: that is the posterior (`to_weights`) from which the next threshold and the answer are read, in
time proportional to the thresholds met.
"""

import math

from privquant._numba import njit
from privquant.arrays import Floats
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.table import Table

# Rates are kept this far from 0 and 1, so that no logarithm is infinite at a coin that hardly ever flips.
_EDGE = 1e-12
# A cell this much less likely than the best one has no weight (exp would underflow).
_NEGLIGIBLE = -700.0


@njit(cache=True)
def _logs(rate: float) -> tuple[float, float]:
    """What a one and a zero add to the log-likelihood."""
    return math.log(rate), math.log1p(-rate)


@njit(cache=True)
def _block_fit(
    n: float, s: float, low: float, high: float, at_low: tuple[float, float], at_high: tuple[float, float]
) -> float:
    """Log-likelihood of s ones in n reports at their own rate, clipped to low .. high.

    Most blocks are clipped, and the logarithms of the ends are the same for all of them.
    """
    if n == 0.0:
        return 0.0
    rate = s / n
    if rate >= high:
        one, zero = at_high
    elif rate <= low:
        one, zero = at_low
    else:
        one, zero = _logs(rate)
    return s * one + (n - s) * zero


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
    at_low, at_high = _logs(least), _logs(highest)
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
        block_fit[top] = block_fit[top - 1] + _block_fit(reports, ones, least, highest, at_low, at_high)
        fit[k + 1] = block_fit[top]
    lowest = min(target + floor, 0.5 * (most + target))
    at_low, at_high = _logs(lowest), _logs(most)
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
        block_fit[top] = block_fit[top - 1] + _block_fit(reports, ones, lowest, most, at_low, at_high)
        fit[k] += block_fit[top]


@njit(cache=True)
def best_fit(table: Table) -> float:
    """The largest of the log-likelihoods that `profile` left; without a floor, that of the isotonic fit itself."""
    best = table.fit[0]
    for k in range(1, table.held[0] + 1):
        best = max(best, table.fit[k])
    return float(best)


@njit(cache=True)
def to_weights(table: Table, power: float, boosted: bool) -> None:
    """weight[k] proportional to (prior mass of cell k) exp(power fit[k]), summing to 1."""
    count = table.held[0]
    best = best_fit(table)
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
def cell_from(weight: Floats, count: int, first: int, passed: float, share: float) -> tuple[int, float, float]:
    """The first cell from `first` on in which the posterior reaches `share`, the mass before it (`passed` before
    `first`), and how far into the cell's mass that is. One walk serves shares that rise.
    """
    k = first
    while k < count and passed + weight[k] < share:
        passed += weight[k]
        k += 1
    inside = (share - passed) / weight[k] if weight[k] > 0.0 else 0.5
    return k, passed, min(max(inside, 0.0), 1.0)


@njit(cache=True)
def cell_at(table: Table, share: float) -> tuple[int, float]:
    """The cell in which the posterior reaches `share`, and how far into the cell's mass that is."""
    k, _, inside = cell_from(table.weight, table.held[0], 0, 0.0, share)
    return k, inside


@njit(cache=True)
def _rate_beside(n: Floats, s: Floats, start: int, step: int, stop: int, wanted: float) -> float:
    """The rate of ones of the nearest `wanted` reports from column `start` on; infinite where they are too few."""
    reports = 0.0
    ones = 0.0
    k = start
    while k != stop and reports < wanted:
        reports += n[k]
        ones += s[k]
        k += step
    return ones / reports if reports >= max(wanted / 2.0, 4.0) else math.inf


@njit(cache=True)
def gap_seen(table: Table, n: Floats, s: Floats, own: float, target: float) -> float:
    """How far the reports nearest to the posterior's central 80 % are from the target, on the closer side.

    own: the number of reports asked for this quantile. 0 where a side has too few reports to say.
    """
    left, _ = cell_at(table, 0.1)
    right, _ = cell_at(table, 0.9)
    below = _rate_beside(n, s, left - 1, -1, -1, own / 8.0)
    above = _rate_beside(n, s, right, 1, table.held[0], own / 8.0)
    if below == math.inf or above == math.inf:
        return 0.0
    return max(min(target - below, above - target), 0.0)


@njit(cache=True)
def target_rate(search: Search, quantile: float) -> float:
    """The rate of ones among reports at the quantile."""
    return 0.5 + float(search.kappas[0]) * (quantile - 0.5)


@njit(cache=True)
def least_rate(search: Search) -> float:
    """The rate of ones where nobody's value is at or below the threshold; 1 minus it where everybody's is."""
    return max(0.5 - 0.5 * float(search.kappas[0]), _EDGE)

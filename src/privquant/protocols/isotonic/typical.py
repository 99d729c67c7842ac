"""What is typical of an answer: how far off it lands in 95 of 100 runs of this kind, on smooth data.

A statement of experience about smooth data, withheld where the run's own reports speak against smoothness; what
holds for any data is `certain`. The curve that gives the answer (`curve.py`) has a place, a speed and a ratio of
speeds, fitted to the reports; their expected information at the thresholds that were asked says how far the place
would scatter with speed and ratio unknown, and the slope of the curve makes a rank of it. It follows how a run was
asked: reports far from the quantile count for little, whatever the schedule.

Lumps are looked for by one number, the strongest sign of a jump that a smooth curve could not explain (`jumps`).
Beyond a cut nothing is called typical. Below it the sign is no proof of smoothness: jumps of four to eight standard
deviations of the answer's rank often stay below, and put the answer off by as much. So the more doubt there is, the
wider is what is said; without any it is the spread on smooth data. Beside it stands what holds if there is a lump
all the same (`typical_ranks.py`). docs/statements.md says how often both hold.
Nothing is said if the reports hardly tell the place of the curve, or the quantile from an end of all ranks.
"""

import math

import numpy as np

from privquant._numba import njit
from privquant.arrays import Floats
from privquant.error_words import Lump, Typical
from privquant.protocols.isotonic.curve import (
    Seen,
    fit_curve,
    index_at,
    place_range,
    slopes,
    solve,
    weighed_reports,
)
from privquant.protocols.isotonic.jumps import strongest_jump
from privquant.protocols.isotonic.posterior import profile, target_rate
from privquant.protocols.isotonic.prior import Search, prior_mass
from privquant.protocols.isotonic.rules import answer_window
from privquant.protocols.isotonic.table import Table, counts_at
from privquant.protocols.isotonic.typical_ranks import rank_reach

# 95 % of answers on smooth data lie within about 2.0 standard deviations by the curve's information, from 1.7 to
# 2.4 from one shape, size and epsilon to the next.
SCORE = 2.0
# The same for the range of values, by the likelihood of places; speed and ratio are fitted to each.
VALUE_SCORE = 2.5
# Signs of a jump. Up to the first, which half of all runs on smooth data stay below, what is said is the spread on
# smooth data; it grows until the second to _WIDEST times that, about the slack of what is certain: more would say
# nothing. Beyond the third, which nine of ten stay below, the data are called lumpy.
_NO_DOUBT = 2.5
_DOUBT = 3.2
_LUMPY = 3.75
_WIDEST = 2.25
# Far from the median a curve fits less well, and signs are larger by about this factor, without any lump.
_EXTREME = 0.05
_EXTREME_SIGN = 1.3
# Reports that are looked at on each side of a lump to tell its size, of all that were asked for the quantile.
_NEAREST = 0.125
# A place known worse than this many times as if all were asked at the quantile is a guess.
_GUESS = 2.6
# A quantile nearer to the end of all ranks than this many standard deviations of its rank (if all were asked there)
# cannot be told from it: errors are then of another kind.
_END = 0.9
# One nearer than this many can be told from it, but the answer often is the end: what is said reaches there.
_NEAR_END = 4.0
# The part of the variance that is left, at least, when that of drawing people is taken off.
_LEAST_PART = 0.1
# A jump of rank across the answer that is named as the lump's, at least this many standard deviations.
_SEEN = 3.0

SMOOTH, FEW, LUMPY = 0, 1, 2


def typical(
    table: Table,
    search: Search,
    quantile: float,
    boosted: bool,
    answer: int,
    *,
    part: float = 1.0,
    people: bool = False,
) -> Typical | Lump | None:
    """What is typical of `answer`, in indices, from the table of all reports; None where they say too little.

    part: of all reports, those asked for this quantile. people: whether the rank is that among the very people
    asked, all of them, rather than in a population.
    """
    kind, low, high, rank = _look(table, search, quantile, boosted, answer, part, people)
    if kind == FEW:
        return None
    if kind == LUMPY:
        return Lump(int(low), int(high), float(rank))
    if_lumpy = min(max(float(rank_reach(table, search, quantile, answer)), rank), max(quantile, 1.0 - quantile))
    return Typical(quantile, int(low), int(high), float(rank), if_lumpy)


@njit(cache=True)
def _side(n: Floats, off: Floats, start: int, step: int, stop: int, wanted: float) -> tuple[float, float]:
    """(reports, sum of `off`) of the nearest `wanted` reports from column `start` on."""
    reports = 0.0
    total = 0.0
    k = start
    while k != stop and reports < wanted:
        if n[k] > 0.0:
            part = min(1.0, (wanted - reports) / n[k])
            reports += part * n[k]
            total += part * off[k]
        k += step
    return reports, total


@njit(cache=True)
def _look(
    table: Table, search: Search, quantile: float, boosted: bool, answer: int, part: float, people: bool
) -> tuple[int, int, int, float]:
    """SMOOTH, the ends of values, the half-width of rank; LUMPY, the lump's ends and its jump; FEW, and nothing."""
    count = table.held[0]
    nothing = FEW, 0, 0, 0.0
    if count < 3:
        return nothing
    origin, low, high = answer_window(table, search, quantile, boosted)
    unit = prior_mass(low, high, search)
    if not unit > 0.0:
        return nothing
    seen, inside, total = weighed_reports(table, search, quantile, origin, low, high)
    if inside == 0.0:
        return nothing
    rate = target_rate(search, quantile)
    spread = math.sqrt(rate * (1.0 - rate))
    alone = spread / (seen.kappa * math.sqrt(part * total))
    if min(quantile, 1.0 - quantile) < _END * alone:
        return nothing
    curve = fit_curve(seen)
    scatter = _scatter(seen, curve)
    first = 0
    while first < count and table.threshold[first] < low:
        first += 1
    last = first
    while last < count and table.threshold[last] <= high:
        last += 1
    sign = strongest_jump(seen, curve, first, last)
    if min(quantile, 1.0 - quantile) < _EXTREME:
        sign /= _EXTREME_SIGN
    guess = not scatter < _GUESS * math.sqrt(part) * alone
    if sign > _LUMPY or guess:
        profile(table, seen.n, seen.s, rate, 0.0, seen.least, 1.0 - seen.least)
        return _name_lump(table, search, quantile, part * total, spread, sign > _LUMPY)
    doubt = min(max((sign - _NO_DOUBT) / (_DOUBT - _NO_DOUBT), 0.0), 1.0)
    # reports asked for other quantiles tell the place by the curve alone, which is only a likeness
    variance = max(scatter, alone) ** 2
    if people:
        heard = 0.0
        for k in range(count):
            for coin in range(search.kappas.size):
                heard += table.reports[coin, k]
        variance = max(variance - quantile * (1.0 - quantile) / heard, _LEAST_PART * variance)
    wide = SCORE * (1.0 + (_WIDEST - 1.0) * doubt)
    within = wide * math.sqrt(variance)
    if min(quantile, 1.0 - quantile) < _NEAR_END * alone:
        within = max(within, min(quantile, 1.0 - quantile))
    within = min(within, max(quantile, 1.0 - quantile))
    lowest, highest = place_range(seen, curve, VALUE_SCORE)
    low = 0 if lowest == -math.inf else min(index_at(search, origin, lowest * unit), answer)
    high = search.last if highest == math.inf else max(index_at(search, origin, highest * unit), answer)
    return SMOOTH, low, high, within


@njit(cache=True)
def _scatter(seen: Seen, curve: Floats) -> float:
    """The standard deviation of the answer's rank by the curve's information; infinite if it has none."""
    gradient = np.empty(3)
    information = np.empty((3, 3))
    slopes(seen, curve, gradient, information)
    only_place = np.array([1.0, 0.0, 0.0])
    column = np.empty(3)
    if not solve(information, 0.0, only_place, column) or not column[0] > 0.0:
        return math.inf
    slope = math.exp(-0.5 * seen.height * seen.height) / math.sqrt(2.0 * math.pi) * math.exp(curve[1])
    return slope * math.sqrt(column[0])


@njit(cache=True)
def _name_lump(
    table: Table, search: Search, quantile: float, own: float, spread: float, lumpy: bool
) -> tuple[int, int, int, float]:
    """Where the isotonic fit crosses the target, and how far rates jump there; FEW if no jump is to be seen."""
    count = table.held[0]
    cell = 0
    for k in range(1, count + 1):
        if table.fit[k] > table.fit[cell]:
            cell = k
    n, s, _ = counts_at(table, search, quantile)
    left, below = _side(n, s, cell - 1, -1, -1, _NEAREST * own)
    right, above = _side(n, s, cell, 1, count, _NEAREST * own)
    jump, inverse = 0.0, 0.0  # at an end
    if left > 0.0 and right > 0.0:
        jump, inverse = above / right - below / left, 1.0 / left + 1.0 / right
    if not lumpy and not jump > _SEEN * spread * math.sqrt(inverse):
        return FEW, 0, 0, 0.0
    low = table.threshold[cell - 1] + 1 if cell > 0 else 0
    high = table.threshold[cell] if cell < count else search.last
    return LUMPY, low, high, min(max(jump / float(search.kappas[0]), 0.0), 1.0)

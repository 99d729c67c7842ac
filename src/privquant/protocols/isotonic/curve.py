"""A sharper answer: a smooth curve through the rates around the quantile, within what the isotonic fit allows.

An isotonic fit makes no use of smoothness and pays for it. Here the distribution function near the quantile is an
S-shaped curve that may rise at different speeds on its two sides,

    F(x) = Phi(Phi^-1(q) + (x - place) * (speed / ratio if x < place else speed * ratio))

with x measured along the prior (a linear and a logarithmic scale at once), fitted by maximum likelihood to all
reports; `ratio` is held near 1 by a normal prior on its logarithm. Where the data are not smooth (an atom, a gap, a
kink) the curve is wrong. If the isotonic fit is much more likely than it, there is no crossing; and where that does
not show, the posterior of the isotonic fit is narrow, and the answer never leaves its central part
(`isotonic_rules.answer`).
"""

import math
from typing import NamedTuple

import numpy as np

from privquant._numba import njit
from privquant.arrays import Floats
from privquant.protocols.isotonic.posterior import best_fit, least_rate, profile, target_rate
from privquant.protocols.isotonic.prior import Search, point_in_cell, prior_mass
from privquant.protocols.isotonic.table import Table, counts_at

# The window is what the posterior (at its own power) leaves between these tails.
TAIL = 0.005
# Reports outside the window tell how wide the data are; together they weigh at most this part of those inside, so
# that reports asked for another quantile do not bend the curve.
OUTSIDE = 0.25
# Standard deviation of log(ratio) in its prior, for the whole step from one side to the other.
_UNEVEN = 0.35
# A curve is dropped if the isotonic fit's log-likelihood is ahead by more than this times log(e + kappa^2 reports):
# of runs on smooth data, about one in a hundred.
DOUBT = 2.6
_ROOT_2 = math.sqrt(2.0)
_ROOT_2_PI = math.sqrt(2.0 * math.pi)
# Beyond this many standard deviations the normal distribution is 0 or 1 to all digits.
_FAR = 9.0
# The search for the best curve starts from the best of these: places (in windows) and speeds (3^0 .. 3^8, / 4).
_PLACES = (-0.5, -0.25, 0.0, 0.25, 0.5)
_SPEEDS = 9
# More thresholds than this are first pooled with their neighbours: only starts whose log-likelihood is then this
# close to the best one's are tried on all thresholds.
_GROUPS = 64
_CLOSE = 3.0
_STEPS = 40
_ENOUGH = 1e-5
_LONGEST = 2.0
# Places are tried this often on each side; the root of twice the loss in log-likelihood is nearly a straight line.
_TRIES = 12
_NEAR = 0.03
# A step goes at most so many times as far as the one before.
_FURTHER = 4.0


class Seen(NamedTuple):
    """What a curve is fitted to.

    x, n, s:  place, reports and ones of every threshold, each counted by its weight.
    kappa:    of the coin. least: the smallest rate of ones there is.
    height:   the normal score of the quantile.
    """

    x: Floats
    n: Floats
    s: Floats
    kappa: float
    least: float
    height: float


@njit(cache=True)
def normal_score(share: float) -> float:
    """Phi^-1 by bisection: all digits, and nothing to import in compiled code."""
    low = -_FAR
    high = _FAR
    for _ in range(64):
        middle = 0.5 * (low + high)
        if 0.5 * math.erfc(-middle / _ROOT_2) < share:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@njit(cache=True)
def log_likelihood(seen: Seen, curve: Floats) -> float:
    """Log-likelihood of a curve (place, log speed, log of one side's speed over the other's), and its prior."""
    x, n, s, kappa, least, height = seen
    left = math.exp(curve[1] - 0.5 * curve[2])
    right = math.exp(curve[1] + 0.5 * curve[2])
    found = -0.5 * (curve[2] / _UNEVEN) ** 2
    for k in range(x.size):
        away = x[k] - curve[0]
        score = height + (left if away < 0.0 else right) * away
        share = 0.5 * math.erfc(-score / _ROOT_2)
        rate = min(max(0.5 + kappa * (share - 0.5), least), 1.0 - least)
        found += s[k] * math.log(rate) + (n[k] - s[k]) * math.log1p(-rate)
    return float(found)


@njit(cache=True)
def slopes(seen: Seen, curve: Floats, gradient: Floats, information: Floats) -> None:
    """Gradient and expected information of `log_likelihood`."""
    x, n, s, kappa, least, height = seen
    left = math.exp(curve[1] - 0.5 * curve[2])
    right = math.exp(curve[1] + 0.5 * curve[2])
    for i in range(3):
        gradient[i] = 0.0
        for j in range(3):
            information[i, j] = 0.0
    turn = np.empty(3)
    for k in range(x.size):
        away = x[k] - curve[0]
        speed = left if away < 0.0 else right
        score = height + speed * away
        share = 0.5 * math.erfc(-score / _ROOT_2)
        rate = min(max(0.5 + kappa * (share - 0.5), least), 1.0 - least)
        rise = kappa * math.exp(-0.5 * score * score) / _ROOT_2_PI
        spread = rate * (1.0 - rate)
        turn[0] = -speed
        turn[1] = speed * away
        turn[2] = 0.5 * speed * abs(away)
        pull = (s[k] - n[k] * rate) * rise / spread
        weight = n[k] * rise * rise / spread
        for i in range(3):
            gradient[i] += pull * turn[i]
            for j in range(3):
                information[i, j] += weight * turn[i] * turn[j]
    gradient[2] -= curve[2] / _UNEVEN**2
    information[2, 2] += 1.0 / _UNEVEN**2


@njit(cache=True)
def _copy(curve: Floats, to: Floats) -> None:
    # by hand, as all loops here: numba compiles a slice with everything that could be wrong with its shape
    for i in range(3):
        to[i] = curve[i]


@njit(cache=True)
def solve(information: Floats, ridge: float, gradient: Floats, step: Floats) -> bool:
    """step = (information with a larger diagonal)^-1 gradient; False where that does not exist."""
    a = np.empty((3, 3))
    for i in range(3):
        step[i] = gradient[i]
        for j in range(3):
            a[i, j] = information[i, j]
        a[i, i] = a[i, i] * (1.0 + ridge) + 1e-9
    for i in range(3):
        if not a[i, i] > 1e-12:
            return False
        for j in range(i + 1, 3):
            factor = a[j, i] / a[i, i]
            for k in range(i, 3):
                a[j, k] -= factor * a[i, k]
            step[j] -= factor * step[i]
    for i in range(2, -1, -1):
        for k in range(i + 1, 3):
            step[i] -= a[i, k] * step[k]
        step[i] /= a[i, i]
    return True


@njit(cache=True)
def _pooled(seen: Seen, groups: int) -> Seen:
    """So many groups of neighbouring thresholds, each with the counts of all and at their mean place."""
    x, n, s = seen.x, seen.n, seen.s
    places = np.empty(groups)
    reports = np.zeros(groups)
    ones = np.zeros(groups)
    for group in range(groups):
        first = group * x.size // groups
        end = (group + 1) * x.size // groups
        moment = 0.0
        for k in range(first, end):
            reports[group] += n[k]
            ones[group] += s[k]
            moment += n[k] * x[k]
        places[group] = moment / reports[group] if reports[group] > 0.0 else x[first]
    return Seen(places, reports, ones, seen.kappa, seen.least, seen.height)


@njit(cache=True)
def _on_grid(point: int, curve: Floats) -> None:
    """One of the curves from which the search may start."""
    curve[0] = _PLACES[point // _SPEEDS]
    curve[1] = math.log(0.25) + point % _SPEEDS * math.log(3.0)
    curve[2] = 0.0


@njit(cache=True)
def _start(seen: Seen) -> Floats:
    """The likeliest curve of the coarse grid."""
    points = len(_PLACES) * _SPEEDS
    curve = np.zeros(3)
    trial = np.zeros(3)
    rough = np.zeros(points)
    if seen.x.size > _GROUPS:
        grouped = _pooled(seen, _GROUPS)
        for point in range(points):
            _on_grid(point, trial)
            rough[point] = log_likelihood(grouped, trial)
    highest = rough[0]
    for point in range(1, points):
        highest = max(highest, rough[point])
    near = highest - _CLOSE
    best = -math.inf
    for point in range(points):
        if rough[point] >= near:
            _on_grid(point, trial)
            found = log_likelihood(seen, trial)
            if found > best:
                best = found
                _copy(trial, curve)
    return curve


@njit(cache=True)
def _climb(seen: Seen, start: Floats, held: bool) -> Floats:
    """The likeliest curve around `start`, by damped scoring; held: the place of `start` is kept."""
    curve = start.copy()
    trial = np.zeros(3)
    best = log_likelihood(seen, curve)
    gradient = np.empty(3)
    information = np.empty((3, 3))
    step = np.empty(3)
    ridge = 1e-3
    for _ in range(_STEPS):
        slopes(seen, curve, gradient, information)
        if held:
            for i in range(3):
                information[0, i] = 0.0
                information[i, 0] = 0.0
            information[0, 0] = 1.0
            gradient[0] = 0.0
        gain = -1.0
        for _ in range(10):
            if not solve(information, ridge, gradient, step):
                return curve
            shrink = min(1.0, _LONGEST / max(abs(step[1]), 1e-300))
            for i in range(3):
                trial[i] = curve[i] + shrink * step[i]
            found = log_likelihood(seen, trial)
            if found >= best:
                gain = found - best
                best = found
                _copy(trial, curve)
                ridge = max(0.2 * ridge, 1e-6)
                break
            ridge = max(6.0 * ridge, 1e-3)
        if gain < _ENOUGH:
            break
    return curve


@njit(cache=True)
def fit_curve(seen: Seen) -> Floats:
    """The likeliest curve: damped scoring from the best point of a coarse grid."""
    return _climb(seen, _start(seen), False)


@njit(cache=True)
def place_range(seen: Seen, curve: Floats, score: float) -> tuple[float, float]:
    """(lowest, highest) place whose best curve is at most `score` standard deviations less likely than `curve`.

    How fast the curve rises is known worse than where it crosses the quantile in rank: a search asks where it
    learns most about the place, and there it learns least about the speed. A range of ranks carried over to values
    by the fitted speed would be far too narrow in the runs whose speed came out too high. So a place belongs to the
    range if the best curve through it, with speed and ratio of its own, is likely enough beside the best of all.
    """
    if seen.x.size > _GROUPS:
        seen = _pooled(seen, _GROUPS)
    best = _climb(seen, curve, False)
    most = log_likelihood(seen, best)
    return _end(seen, best, most, score, -1.0), _end(seen, best, most, score, 1.0)


@njit(cache=True)
def _end(seen: Seen, best: Floats, most: float, score: float, side: float) -> float:
    """The end of the range on one side; infinite if no place is unlikely enough."""
    inside = 0.0
    outside = math.inf
    away = score / math.exp(best[1]) / math.sqrt(max(seen.kappa * seen.kappa * seen.n.sum(), 1.0))
    trial = best.copy()
    for _ in range(_TRIES):
        trial[0] = best[0] + side * away
        trial = _climb(seen, trial, True)
        lost = math.sqrt(max(2.0 * (most - log_likelihood(seen, trial)), 0.0))
        if abs(lost - score) < _NEAR * score:
            return float(trial[0])
        if lost < score:
            inside = away
        else:
            outside = min(outside, away)
        guess = away * score / max(lost, 1e-3)
        if outside == math.inf:
            away = min(guess, _FURTHER * away)
        else:
            away = guess if inside < guess < outside else 0.5 * (inside + outside)
    return float(best[0] + side * outside)


@njit(cache=True)
def _along(table: Table, search: Search, k: int, origin: int, unit: float) -> float:
    """Where threshold k lies, along the prior, from `origin`."""
    threshold = table.threshold[k]
    if threshold >= origin:
        return prior_mass(origin, threshold, search) / unit if threshold > origin else 0.0
    return -prior_mass(threshold, origin, search) / unit


@njit(cache=True)
def index_at(search: Search, origin: int, along: float) -> int:
    """The least index that lies at least `along` (prior mass) from `origin`."""
    if along >= 0.0:
        whole = prior_mass(origin, search.last, search) if search.last > origin else 0.0
        if along >= whole:
            return search.last
        found = point_in_cell(origin, search.last, along / whole, search)
        reached = prior_mass(origin, found, search) if found > origin else 0.0
    else:
        whole = prior_mass(-1, origin, search)
        if -along >= whole:
            return 0
        found = max(point_in_cell(-1, origin, 1.0 + along / whole, search), 0)
        reached = -prior_mass(found, origin, search) if found < origin else 0.0
    # half of the time the nearest index is the one before
    return min(found + 1, search.last) if reached < along else found


@njit(cache=True)
def weighed_reports(
    table: Table, search: Search, quantile: float, origin: int, low: int, high: int
) -> tuple[Seen, float, float]:
    """What a curve is fitted to: thresholds outside the window low .. high count for less. And how many reports
    there are inside of it, and in all.
    """
    count = table.held[0]
    unit = prior_mass(low, high, search)
    n, s, total = counts_at(table, search, quantile)
    x = np.empty(count)
    inside = 0.0
    outside = 0.0
    for k in range(count):
        x[k] = _along(table, search, k, origin, unit)
        if low <= table.threshold[k] <= high:
            inside += n[k]
        else:
            outside += n[k]
    less = min(1.0, OUTSIDE * inside / outside) if outside > 0.0 else 1.0
    reports = np.empty(count)
    ones = np.empty(count)
    for k in range(count):
        weight = 1.0 if low <= table.threshold[k] <= high else less
        reports[k] = weight * n[k]
        ones[k] = weight * s[k]
    seen = Seen(x, reports, ones, float(search.kappas[0]), least_rate(search), normal_score(quantile))
    return seen, inside, total


@njit(cache=True)
def curve_crossing(table: Table, search: Search, quantile: float, origin: int, low: int, high: int) -> int:
    """The index at which the curve through the rates reaches the quantile; -1 if there are too few thresholds, the
    rates follow no curve, or there are too few reports to tell the quantile from the smallest or largest value: a
    curve would then only extrapolate.

    low, high: the window, with threshold `low` just left of it; origin: an index inside.
    """
    count = table.held[0]
    unit = prior_mass(low, high, search)
    if count < 3 or not unit > 0.0:
        return -1
    seen, inside, total = weighed_reports(table, search, quantile, origin, low, high)
    if inside == 0.0:
        return -1
    rate = target_rate(search, quantile)
    if math.sqrt(rate * (1.0 - rate) / total) > seen.kappa * min(quantile, 1.0 - quantile):
        return -1
    curve = fit_curve(seen)
    profile(table, seen.n, seen.s, rate, 0.0, seen.least, 1.0 - seen.least)
    ahead = best_fit(table) - log_likelihood(seen, curve)
    if ahead > DOUBT * math.log(math.e + seen.kappa * seen.kappa * total):
        return -1
    return index_at(search, origin, curve[0] * unit)

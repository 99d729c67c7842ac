"""Exact draws by count, up to 10^15, the same numbers interpreted and compiled: binomial, hypergeometric, and users
taken from those not yet asked.

numpy's binomial does that as it is. Its hypergeometric stops at 10^9 and cannot be called from compiled code, so
it is drawn here, in three ways by size: one after the other where few are drawn; inversion outward from the mode
at small variance; else the ratio of uniforms (Stadlober's HRUA), accepted by logarithms of the mass in
saddle-point form (Loader), which keep their digits at any count where log-gamma loses them.

The users not yet asked are kept in a binary tree of cells between the thresholds met so far. A batch goes down to
its own threshold, and at each cut on its way falls to the two sides hypergeometrically, by the users of each side
of whom no batch has told yet that they were asked. Who was asked before a cell was cut, or went by on the way to
another threshold, is left open and needs no place: a cell's users come in random order, and what is not known of
the earlier ones does not move the law of the next.

The cost of a batch is that of the path to its threshold, whatever the number of users. Where batches are of a few
users, taking them one by one from a shuffled list is cheaper: a list of ranks, of which any below the number of
users at or below the threshold is a one.
"""

import math
from typing import NamedTuple

import numpy as np

from privquant._numba import njit
from privquant.arrays import Ints
from privquant.protocols.isotonic.table import place_of

# ln(n!) minus Stirling's formula, n = 0 .. 15; beyond that the series in 1/n has all digits.
_STIRLING = np.array(
    [0.0]
    + [math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2.0 * math.pi) for n in range(1, 16)]
)
_LOG_2PI = math.log(2.0 * math.pi)
# Up to this many draws are made one by one; up to this variance the mode is inverted.
_FEW = 12
_SMALL_VARIANCE = 400.0
# The width of the ratio-of-uniforms hat: 2 sqrt(2/e), and 3 - 2 sqrt(3/e).
_HAT_SLOPE = 2.0 * math.sqrt(2.0 / math.e)
_HAT_SHIFT = 3.0 - 2.0 * math.sqrt(3.0 / math.e)


@njit(cache=True)
def _stirling_error(n: float) -> float:
    if n < 16.0:
        return float(_STIRLING[int(n)])
    square = n * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680) / square) / square) / square) / n


@njit(cache=True)
def _deviance(x: float, mean: float) -> float:
    """x ln(x/mean) + mean - x, by its series where x is near the mean."""
    difference = x - mean
    if abs(difference) >= 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    v = difference / (x + mean)
    total = difference * v
    term = 2.0 * x * v
    square = v * v
    j = 1
    while True:
        term *= square
        longer = total + term / (2 * j + 1)
        if longer == total:
            return total
        total = longer
        j += 1


@njit(cache=True)
def log_binomial(x: float, n: float, p: float) -> float:
    """ln of the probability of x successes out of n."""
    if n == 0.0:
        return 0.0
    if x == 0.0:
        return n * math.log1p(-p)
    if x == n:
        return n * math.log(p)
    errors = _stirling_error(n) - _stirling_error(x) - _stirling_error(n - x)
    deviances = _deviance(x, n * p) + _deviance(n - x, n * (1.0 - p))
    return errors - deviances - 0.5 * (_LOG_2PI + math.log(x) + math.log1p(-x / n))


@njit(cache=True)
def _log_split(x: float, good: float, bad: float, drawn: float) -> float:
    """ln of the hypergeometric probability of x good ones, up to a constant."""
    p = drawn / (good + bad)
    return log_binomial(x, good, p) + log_binomial(drawn - x, bad, p)


@njit(cache=True)
def binomial(n: int, p: float, rng: np.random.Generator) -> int:
    """How many of n independent trials succeed: numpy's draw, which numba follows number by number."""
    return rng.binomial(n, p)


@njit(cache=True)
def hypergeometric(good: int, bad: int, drawn: int, rng: np.random.Generator) -> int:
    """How many of `drawn` taken without replacement out of good + bad are good."""
    total = good + bad
    # Three symmetries bring it to: at most half are good, at most half are drawn, no more drawn than good.
    rest = drawn > total - drawn
    taken = total - drawn if rest else drawn
    swapped = good > bad
    marked = bad if swapped else good
    if taken > marked:
        found = _hypergeometric_core(taken, total - taken, marked, rng)
    else:
        found = _hypergeometric_core(marked, total - marked, taken, rng)
    if swapped:
        found = taken - found
    return good - found if rest else found


@njit(cache=True)
def _hypergeometric_core(good: int, bad: int, drawn: int, rng: np.random.Generator) -> int:
    if drawn <= _FEW:
        found = 0
        for i in range(drawn):
            if rng.random() * (good + bad - i) < good - found:
                found += 1
        return found
    g, b, m = float(good), float(bad), float(drawn)
    total = g + b
    p = g / total
    variance = m * p * (1.0 - p) * (total - m) / (total - 1.0)
    mode = float(math.floor((m + 1.0) * (g + 1.0) / (total + 2.0)))
    if variance < _SMALL_VARIANCE:
        return _hypergeometric_from_mode(g, b, m, mode, rng)
    at_mode = _log_split(mode, g, b, m)
    centre = m * p + 0.5
    deviation = math.sqrt(variance + 0.5)
    width = _HAT_SLOPE * deviation + _HAT_SHIFT
    end = min(min(m, g) + 1.0, math.floor(centre + 16.0 * deviation))
    while True:
        x = 1.0 - rng.random()
        candidate = centre + width * (rng.random() - 0.5) / x
        if candidate < 0.0 or candidate >= end:
            continue
        z = float(math.floor(candidate))
        if m - z > b:
            continue
        height = _log_split(z, g, b, m) - at_mode
        if x * (4.0 - x) - 3.0 <= height:
            return int(z)
        if x * (x - height) < 1.0 and 2.0 * math.log(x) <= height:
            return int(z)


@njit(cache=True)
def _hypergeometric_from_mode(g: float, b: float, m: float, mode: float, rng: np.random.Generator) -> int:
    at_mode = math.exp(_log_split(mode, g, b, m) - log_binomial(m, g + b, m / (g + b)))
    most = min(m, g)
    least = max(0.0, m - b)
    while True:
        left = rng.random() - at_mode
        if left < 0.0:
            return int(mode)
        up = mode
        down = mode
        f_up = at_mode
        f_down = at_mode
        while (up < most or down > least) and (f_up > 1e-18 or f_down > 1e-18):
            if up < most:
                f_up *= (g - up) * (m - up) / ((up + 1.0) * (b - m + up + 1.0))
                up += 1.0
                left -= f_up
                if left < 0.0:
                    return int(up)
            if down > least:
                f_down *= down * (b - m + down) / ((g - down + 1.0) * (m - down + 1.0))
                down -= 1.0
                left -= f_down
                if left < 0.0:
                    return int(down)


class Unasked(NamedTuple):
    """The tree: node 0 is the root. left == 0 marks a leaf. `asked` are the users known to be asked; `before` is
    the number of users below the cell; `held` has the number of nodes.

    With a list (`listed` is not empty) there is no tree: the users asked come first, and held[1] is their number.
    """

    held: Ints
    listed: Ints
    cut: Ints
    total: Ints
    asked: Ints
    left: Ints
    before: Ints


def new_tree(thresholds: int) -> Unasked:
    """A tree with room for `thresholds` distinct thresholds. A node's right child follows its left one."""
    columns = (np.zeros(2 * thresholds + 3, np.int64) for _ in range(5))
    return Unasked(np.zeros(2, np.int64), np.zeros(0, np.int64), *columns)


def new_list(users: int) -> Unasked:
    """A list of so many users."""
    columns = (np.zeros(1, np.int64) for _ in range(5))
    return Unasked(np.zeros(2, np.int64), np.arange(users, dtype=np.int64), *columns)


@njit(cache=True)
def fill(unasked: Unasked, users: int) -> None:
    """One cell with all users, nobody asked. A list keeps its order: the next draws shuffle it all the same."""
    unasked.held[0] = 1
    unasked.held[1] = 0
    unasked.total[0] = users
    unasked.left[0] = 0
    unasked.before[0] = 0


@njit(cache=True)
def at_most(values: Ints, cumulative: Ints, threshold: int) -> int:
    """How many users have a value of at most the threshold."""
    place = place_of(values, 0, values.size, threshold + 1)
    return cumulative[place - 1] if place > 0 else 0


@njit(cache=True)
def _cut(unasked: Unasked, node: int, threshold: int, below: int) -> None:
    """Make a leaf two leaves; `below` of its users are at or below the threshold."""
    a = unasked.held[0]
    b = a + 1
    if b >= unasked.cut.size:  # compiled code would write beyond the end without a word
        raise IndexError("the tree of cells is full")
    unasked.held[0] = a + 2
    unasked.cut[node] = threshold
    unasked.left[node] = a
    unasked.total[a] = below
    unasked.before[a] = unasked.before[node]
    unasked.total[b] = unasked.total[node] - below
    unasked.before[b] = unasked.before[node] + below
    for child in (a, b):
        unasked.asked[child] = 0
        unasked.left[child] = 0


@njit(cache=True)
def _draw_listed(listed: Ints, held: Ints, below: int, count: int, rng: np.random.Generator) -> int:
    """Ask the next `count` users of the list; how many of them have a rank under `below`."""
    found = 0
    for i in range(held[1], held[1] + count):
        other = i + int(rng.random() * (listed.size - i))
        user = listed[other]
        listed[other] = listed[i]
        listed[i] = user
        if user < below:
            found += 1
    held[1] += count
    return found


@njit(cache=True)
def draw(
    unasked: Unasked, values: Ints, cumulative: Ints, threshold: int, count: int, rng: np.random.Generator
) -> int:
    """Ask `count` fresh users at random; how many of them are at or below the threshold."""
    if unasked.listed.size > 0:
        return _draw_listed(unasked.listed, unasked.held, at_most(values, cumulative, threshold), count, rng)
    node = 0
    below = 0
    while count > 0:
        if unasked.left[node] == 0:
            _cut(unasked, node, threshold, at_most(values, cumulative, threshold) - unasked.before[node])
        a = unasked.left[node]
        b = a + 1
        to_left = hypergeometric(
            unasked.total[a] - unasked.asked[a], unasked.total[b] - unasked.asked[b], count, rng
        )
        unasked.asked[a] += to_left
        unasked.asked[b] += count - to_left
        if threshold < unasked.cut[node]:
            node = a
            count = to_left
        else:
            below += to_left
            if threshold == unasked.cut[node]:
                break
            node = b
            count -= to_left
    return below

"""Which part of a run contradicts the rest, and by how much.

If nobody picks the moment to answer, all epochs of a run ask one and the same population, so one monotone F fits
them all. For a window W of neighbouring epochs

    D(W) = l(W) + l(rest) - l(all),     l the largest log-likelihood of any monotone rates,

says how much better two populations fit than one; neighbouring thresholds are taken together, so that there are at
most 64 rates. While a D passes the cut of its window, the window furthest beyond is dropped, never more than `MOST`
of all reports. From a third of the run on the cut of a window that reaches the present is lower the later it
begins: a search that has settled asks at few ranks, so that honest parts of it contradict each other less; and what
the last users say nobody is asked about again. All other windows have one cut.

The decision is made from all counts each time, so a window dropped early comes back when later reports agree.
"""

import math
from typing import NamedTuple

import numpy as np

from privquant._numba import compiled_form, njit
from privquant.arrays import Flags, Floats, Ints
from privquant.protocols.isotonic.epochs import KINDS, Arrivals

# Windows have at most this many epochs, so that the rest is always more than twice as much.
_WIDEST = 5
# Thresholds are taken together until they have this part of all reports.
_BINS = 64
# Evidence (in nats) beyond which a window is dropped, and beyond which an alarm is raised, for one quantile and
# runs up to _SMALL. Honest evidence grows by about _GROWTH for e times as many reports; and for twice as many
# quantiles, which ask at more ranks, by about _MORE and 1 more for e times as many reports. All levels do so too.
CUT = 18.0
ALARM = 36.0
# The cut for a window that is the last epoch alone, and how much more it is for one that begins with the run and
# reaches its end: in between in proportion, and never more than CUT, which is the cut of windows that end earlier.
# Evidence is told as if every cut were CUT, so that an alarm too is raised on less for windows that begin late.
LAST_CUT = 11.0
_EARLIER = 10.0
# Honest runs that were simulated without one alarm (benchmarks/false_alarms.py).
HONEST_RUNS = 100_000
_SMALL = 2500.0
_GROWTH = 1.2
_MORE = 2.0
# The largest part of all reports that may be dropped.
MOST = 0.34
# Nothing is dropped before this many epochs are closed.
FIRST = 3


@njit(cache=True)
def beyond(level: float, reports: float, quantiles: int) -> float:
    """CUT or ALARM for a run of so many reports that searches so many quantiles."""
    larger = math.log(max(reports / _SMALL, 1.0))
    return level + _GROWTH * larger + (_MORE + larger) * math.log2(quantiles)


@njit(cache=True)
def _block(reports: float, ones: float) -> float:
    """Log-likelihood of a block at its own rate."""
    found = 0.0
    if ones > 0.0:
        found += ones * math.log(ones / reports)
    if ones < reports:
        found += (reports - ones) * math.log1p(-ones / reports)
    return found


@njit(cache=True)
def _likelihood(reports: Floats, ones: Floats, block_n: Floats, block_s: Floats) -> float:
    """The largest log-likelihood of monotone rates for these bins, rising."""
    top = -1
    for k in range(reports.size):
        n = reports[k]
        s = ones[k]
        if n == 0.0:
            continue
        while top >= 0 and block_s[top] * n >= s * block_n[top]:
            n += block_n[top]
            s += block_s[top]
            top -= 1
        top += 1
        block_n[top] = n
        block_s[top] = s
    found = 0.0
    for block in range(top + 1):
        found += _block(block_n[block], block_s[block])
    return found


def rising(values: Ints) -> Ints:
    """The order in which the values rise."""
    return np.argsort(values)


@compiled_form(rising)
def rising_by_merging(values: Ints) -> Ints:
    # by hand: numba's own sort takes as long to compile as all the rest of a judgement
    order = np.empty(values.size, np.int64)
    spare = np.empty(values.size, np.int64)
    for k in range(values.size):
        order[k] = k
    width = 1
    while width < values.size:
        for start in range(0, values.size, 2 * width):
            left = start
            middle = min(start + width, values.size)
            right = middle
            end = min(start + 2 * width, values.size)
            for k in range(start, end):
                if left < middle and (right == end or values[order[left]] <= values[order[right]]):
                    spare[k] = order[left]
                    left += 1
                else:
                    spare[k] = order[right]
                    right += 1
        order, spare = spare, order
        width *= 2
    return order


def add_to(total: Floats, row: Floats, times: float) -> None:
    """total += times * row"""
    total += times * row


@compiled_form(add_to)
def add_to_by_loop(total: Floats, row: Floats, times: float) -> None:
    # by hand: numba compiles a sum of arrays with everything that could be wrong with their shapes
    for k in range(total.size):
        total[k] += times * row[k]


@njit(cache=True)
def binned(arrivals: Arrivals, closed: int) -> tuple[Floats, Floats]:
    """(reports, ones) of the closed epochs, one row an epoch, one column a bin of neighbouring thresholds."""
    held = arrivals.held[0]
    order = rising(arrivals.threshold[:held])
    total = 0
    for k in range(held):
        if arrivals.phase[k] // KINDS < closed:
            total += arrivals.reports[k]
    reports = np.zeros((closed, _BINS + 1))
    ones = np.zeros((closed, _BINS + 1))
    column = 0
    inside = 0
    last = np.int64(-1)
    for i in range(held):
        k = order[i]
        epoch = arrivals.phase[k] // KINDS
        if epoch >= closed:
            continue
        if arrivals.threshold[k] != last and inside * _BINS >= total:
            column += 1
            inside = 0
        last = arrivals.threshold[k]
        inside += arrivals.reports[k]
        reports[epoch, column] += arrivals.reports[k]
        ones[epoch, column] += arrivals.ones[k]
    return reports, ones


@njit(cache=True)
def worst_window(reports: Floats, ones: Floats, kept: Flags, cuts: Floats) -> tuple[float, int, int]:
    """(D less its cut, first epoch, last epoch) of the window among the kept epochs whose D against the other kept
    ones is furthest beyond its cut, or nearest to it; -inf if there is none.

    cuts: for a window that ends with the last epoch kept, by the epoch it begins with; the first is for the others.

    Epochs dropped before are bridged: a window is of neighbours among those kept. Windows of more than a third of
    the epochs kept are not looked at.
    """
    bins = reports.shape[1]
    block_n = np.empty(bins)
    block_s = np.empty(bins)
    all_n = np.zeros(bins)
    all_s = np.zeros(bins)
    at = np.empty(kept.size, np.int64)
    judged = 0
    for epoch in range(kept.size):
        if kept[epoch]:
            at[judged] = epoch
            judged += 1
            add_to(all_n, reports[epoch], 1.0)
            add_to(all_s, ones[epoch], 1.0)
    together = _likelihood(all_n, all_s, block_n, block_s)
    furthest = -math.inf
    first = -1
    last = -1
    widest = min(_WIDEST, judged // 3)
    for start in range(judged):
        n = np.zeros(bins)
        s = np.zeros(bins)
        rest_n = all_n.copy()
        rest_s = all_s.copy()
        for end in range(start, min(start + widest, judged)):
            add_to(n, reports[at[end]], 1.0)
            add_to(s, ones[at[end]], 1.0)
            add_to(rest_n, reports[at[end]], -1.0)
            add_to(rest_s, ones[at[end]], -1.0)
            apart = _likelihood(n, s, block_n, block_s) + _likelihood(rest_n, rest_s, block_n, block_s)
            cut = cuts[at[start]] if end == judged - 1 else cuts[0]
            if apart - together - cut > furthest:
                furthest = apart - together - cut
                first = at[start]
                last = at[end]
    return furthest, first, last


@njit(cache=True)
def cuts_of(epochs: int, reports: float, quantiles: int) -> Floats:
    """Beyond which evidence a window that reaches the present is dropped, by the epoch it begins with; the first is
    the cut of all windows that end earlier.
    """
    cuts = np.empty(epochs)
    for epoch in range(epochs):
        level = LAST_CUT + _EARLIER * (epochs - 1 - epoch) / max(epochs - 1, 1)
        cuts[epoch] = beyond(min(CUT, level), reports, quantiles)
    return cuts


@njit(cache=True)
def choose_kept(arrivals: Arrivals, closed: int, kept: Flags) -> float:
    """Which epochs to believe, from all counts so far; the largest contradiction met, as if
    every cut were CUT. kept: one flag an epoch.

    closed: how many epochs are complete; only these are judged, and a run with fewer than FIRST keeps all.
    """
    kept[:] = True
    if closed < FIRST:
        return 0.0
    reports, ones = binned(arrivals, closed)
    in_epoch = np.zeros(closed)
    judged = np.zeros(closed, np.bool_)
    heard = 0.0
    for epoch in range(closed):
        for column in range(reports.shape[1]):
            in_epoch[epoch] += reports[epoch, column]
        judged[epoch] = in_epoch[epoch] > 0.0
        heard += in_epoch[epoch]
    allowed = MOST * heard
    cuts = cuts_of(kept.size, heard, arrivals.quantiles)
    largest = 0.0
    while True:
        excess, first, last = worst_window(reports, ones, judged, cuts)
        largest = max(largest, beyond(CUT, heard, arrivals.quantiles) + excess)
        if excess <= 0.0:
            return largest
        for epoch in range(first, last + 1):
            if judged[epoch]:
                allowed -= in_epoch[epoch]
        if allowed < 0.0:
            return largest
        for epoch in range(first, last + 1):
            judged[epoch] = False
            kept[epoch] = False


class Judgement(NamedTuple):
    """The epochs that contradict the others, and by how much; alarm: more than any of HONEST_RUNS was seen to."""

    dropped: tuple[int, ...]
    evidence: float
    alarm: bool


def judgement(rows: Arrivals) -> Judgement:
    """What all the reports of a run say about its epochs, the open one among them."""
    kept = np.ones(rows.kept.size, np.bool_)
    evidence = float(choose_kept(rows, kept.size, kept))
    heard = float(rows.reports[: rows.held[0]].sum())
    dropped = tuple(int(epoch) for epoch in np.flatnonzero(~kept))
    return Judgement(dropped, evidence, evidence > float(beyond(ALARM, heard, rows.quantiles)))

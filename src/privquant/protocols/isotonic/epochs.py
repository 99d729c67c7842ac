"""Liars who choose their moment: reports by epoch of arrival, epochs that contradict the others, anchors.

Liars spread over a run at random move the answer by a known amount. Liars who all come at the end, or at the start,
move it much further: they decide alone where the search goes. Two rules against that.

Epochs. Counts are kept by the sixteenth of the run in which they arrived. If nobody picks the moment, all epochs
ask one and the same population, so one monotone F fits them all. For a window W of neighbouring epochs

    D(W) = l(W) + l(rest) - l(all),     l the largest log-likelihood of any monotone rates,

says how much better two populations fit than one. While the largest D passes a cut its window is dropped, never
more than `MOST` of all reports; the decision is made anew from all counts each time an epoch closes, so a window
dropped early comes back when later reports agree with it.

Anchors. One report in twenty asks again at a threshold asked before, outside of where the search now looks, each
side alike: what early liars decided would otherwise never be asked again.

What this cannot do: half a run of liars is a population of its own; few liars among many users of a window hide in
its noise; an honest change of the users in the course of a run looks like liars.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant._numba import njit
from privquant.protocols.isotonic.posterior import cell_at
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.table import Floats, Table, add_counts, clear

Ints = NDArray[np.int64]

EPOCHS = 16
# An epoch shorter than this tells nothing: small runs have fewer of them.
_SHORTEST = 60
# Windows have at most this many epochs, so that the rest is always more than twice as much.
_WIDEST = 5
# Evidence (in nats) beyond which a window is dropped, and beyond which an alarm is raised, for runs up to _SMALL;
# honest evidence grows by about _GROWTH for e times as many reports, and both with it.
CUT = 18.0
ALARM = 36.0
_SMALL = 2500.0
_GROWTH = 1.2
# The largest part of all reports that may be dropped.
MOST = 0.34
# Nothing is dropped before this many epochs are closed.
FIRST = 3
# Of all users, those who are asked at an anchor.
ANCHORS = 0.05
# Fractional part of the golden ratio: its multiples fill (0, 1) evenly in any stretch.
_GOLDEN = 0.6180339887498949


class Arrivals(NamedTuple):
    """Counts for each (threshold, epoch, phase), in this order; held[0] of the rows are in use."""

    held: Ints
    threshold: Ints
    epoch: Ints
    bulk: Ints
    reports: Floats
    ones: Floats


def new_arrivals(capacity: int) -> Arrivals:
    """Nothing heard, with room for `capacity` rows."""
    rows = [np.zeros(capacity, np.int64) for _ in range(3)]
    return Arrivals(np.zeros(1, np.int64), rows[0], rows[1], rows[2], np.zeros(capacity), np.zeros(capacity))


@njit(cache=True)
def epochs_of(users: int) -> int:
    """How many epochs a run of so many users has."""
    return max(1, min(EPOCHS, users // _SHORTEST))


@njit(cache=True)
def epoch_at(heard: int, users: int) -> int:
    """The epoch of a report that arrives after `heard` others."""
    return min(heard * epochs_of(users) // max(users, 1), epochs_of(users) - 1)


@njit(cache=True)
def beyond(level: float, reports: float) -> float:
    """CUT or ALARM for a run of so many reports."""
    return level + _GROWTH * math.log(max(reports / _SMALL, 1.0))


@njit(cache=True)
def add_arrival(arrivals: Arrivals, threshold: int, epoch: int, bulk: bool, reports: int, ones: int) -> None:
    count = arrivals.held[0]
    phase = 1 if bulk else 0
    left = 0
    right = count
    while left < right:
        k = (left + right) // 2
        before = arrivals.threshold[k] < threshold
        if arrivals.threshold[k] == threshold:
            before = arrivals.epoch[k] < epoch or (arrivals.epoch[k] == epoch and arrivals.bulk[k] < phase)
        if before:
            left = k + 1
        else:
            right = k
    same = left < count and arrivals.threshold[left] == threshold
    if not (same and arrivals.epoch[left] == epoch and arrivals.bulk[left] == phase):
        if count + 1 > arrivals.threshold.size:  # compiled code would write beyond the end without a word
            raise IndexError("the table of arrivals is full")
        for k in range(count, left, -1):
            arrivals.threshold[k] = arrivals.threshold[k - 1]
            arrivals.epoch[k] = arrivals.epoch[k - 1]
            arrivals.bulk[k] = arrivals.bulk[k - 1]
            arrivals.reports[k] = arrivals.reports[k - 1]
            arrivals.ones[k] = arrivals.ones[k - 1]
        arrivals.threshold[left] = threshold
        arrivals.epoch[left] = epoch
        arrivals.bulk[left] = phase
        arrivals.reports[left] = 0.0
        arrivals.ones[left] = 0.0
        arrivals.held[0] = count + 1
    arrivals.reports[left] += reports
    arrivals.ones[left] += ones


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
def _likelihood(arrivals: Arrivals, used: NDArray[np.bool_], block_n: Floats, block_s: Floats) -> float:
    """The largest log-likelihood of monotone rates for the epochs `used`."""
    count = arrivals.held[0]
    top = -1
    k = 0
    while k < count:
        threshold = arrivals.threshold[k]
        reports = 0.0
        ones = 0.0
        while k < count and arrivals.threshold[k] == threshold:
            if used[arrivals.epoch[k]]:
                reports += arrivals.reports[k]
                ones += arrivals.ones[k]
            k += 1
        if reports == 0.0:
            continue
        while top >= 0 and block_s[top] * reports >= ones * block_n[top]:
            reports += block_n[top]
            ones += block_s[top]
            top -= 1
        top += 1
        block_n[top] = reports
        block_s[top] = ones
    found = 0.0
    for block in range(top + 1):
        found += _block(block_n[block], block_s[block])
    return found


@njit(cache=True)
def worst_window(arrivals: Arrivals, kept: NDArray[np.bool_]) -> tuple[float, int, int]:
    """(D, first epoch, last epoch) of the window among the kept epochs that contradicts the other kept ones most.

    Epochs dropped before are bridged: a window is of neighbours among those kept. Windows of more than a third of
    the epochs kept are not looked at.
    """
    block_n = np.empty(arrivals.held[0])
    block_s = np.empty(arrivals.held[0])
    at = np.flatnonzero(kept)
    together = _likelihood(arrivals, kept, block_n, block_s)
    inside = np.zeros(kept.size, np.bool_)
    rest = np.zeros(kept.size, np.bool_)
    worst = 0.0
    first = -1
    last = -1
    widest = min(_WIDEST, at.size // 3)
    for start in range(at.size):
        inside[:] = False
        rest[:] = kept
        for end in range(start, min(start + widest, at.size)):
            inside[at[end]] = True
            rest[at[end]] = False
            apart = _likelihood(arrivals, inside, block_n, block_s) + _likelihood(arrivals, rest, block_n, block_s)
            if apart - together > worst:
                worst = apart - together
                first = at[start]
                last = at[end]
    return worst, first, last


@njit(cache=True)
def choose_kept(arrivals: Arrivals, closed: int, kept: NDArray[np.bool_]) -> float:
    """Which epochs to believe, from all counts so far; the largest contradiction met. kept: one flag an epoch.

    closed: how many epochs are complete; only these are judged, and a run with fewer than FIRST keeps all.
    """
    kept[:] = True
    if closed < FIRST:
        return 0.0
    in_epoch = np.zeros(kept.size)
    for k in range(arrivals.held[0]):
        in_epoch[arrivals.epoch[k]] += arrivals.reports[k]
    judged = np.zeros(kept.size, np.bool_)
    judged[:closed] = in_epoch[:closed] > 0.0
    allowed = MOST * in_epoch[:closed].sum()
    cut = beyond(CUT, in_epoch[:closed].sum())
    largest = 0.0
    while True:
        evidence, first, last = worst_window(arrivals, judged)
        largest = max(largest, evidence)
        if evidence <= cut:
            return largest
        for epoch in range(first, last + 1):
            if judged[epoch]:
                allowed -= in_epoch[epoch]
        if allowed < 0.0:
            return largest
        for epoch in range(first, last + 1):
            judged[epoch] = False
            kept[epoch] = False


@njit(cache=True)
def rebuild(table: Table, search: Search, arrivals: Arrivals, kept: NDArray[np.bool_]) -> int:
    """Fill the table from the epochs kept; how many reports of the bulk phase are in it."""
    clear(table)
    bulk = 0.0
    for k in range(arrivals.held[0]):
        if kept[arrivals.epoch[k]]:
            reports = int(arrivals.reports[k])
            add_counts(
                table, search, 0, -1, arrivals.bulk[k] == 1, arrivals.threshold[k], reports, int(arrivals.ones[k])
            )
            bulk += arrivals.reports[k] * arrivals.bulk[k]
    return int(bulk)


@njit(cache=True)
def anchors_due(asked: int, count: int) -> int:
    """How many of the next `count` users are asked at anchors."""
    return math.floor(ANCHORS * (asked + count)) - math.floor(ANCHORS * asked)


@njit(cache=True)
def anchor(table: Table, step: int) -> int:
    """The threshold of anchor number `step`: of a report asked outside the posterior's central 80 %, below it and
    above it in turn; -1 if there is none on that side. The table must hold the posterior that asks.
    """
    count = table.held[0]
    left, _ = cell_at(table, 0.1)
    right, _ = cell_at(table, 0.9)
    low = 0 if step % 2 == 0 else right
    high = left if step % 2 == 0 else count
    total = 0.0
    for k in range(low, high):
        total += table.reports[0, k]
    if total == 0.0:
        return -1
    turn = step * _GOLDEN
    wanted = (turn - math.floor(turn)) * total
    for k in range(low, high):
        wanted -= table.reports[0, k]
        if wanted < 0.0:
            return int(table.threshold[k])
    return int(table.threshold[high - 1])

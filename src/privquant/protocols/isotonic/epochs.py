"""Liars who choose their moment: which part of a run contradicts the rest, and may be left out.

Liars spread over a run at random move the answer by a known amount. Liars who all come at the end, or at the start,
move it much further: they decide alone where the search goes. Two rules against that.

Epochs. Every query says in which sixteenth of the run it was handed out. If nobody picks the moment, all epochs ask
one and the same population, so one monotone F fits them all. For a window W of neighbouring epochs

    D(W) = l(W) + l(rest) - l(all),     l the largest log-likelihood of any monotone rates,

says how much better two populations fit than one; neighbouring thresholds are taken together, so that there are at
most 64 rates. While a D passes the cut of its window, the window furthest beyond is dropped, never more than `MOST`
of all reports. From a third of the run on the cut is lower the later a window begins: a search that has settled
asks at few ranks, so that honest parts of it contradict each other less; and what the last users say nobody is
asked about again. The decision is made anew from all counts each time an epoch closes, so a window dropped early
comes back when later reports agree with it.

Anchors. One report in twenty asks again at a threshold asked before, outside of where the search now looks, each
side alike: what early liars decided would otherwise never be asked again.

The epoch is that of asking, not of answering: who is given a question early and answers late has its answer counted
with those it was asked beside, and gains nothing by waiting.

What this cannot do: half a run of liars is a population of its own; few liars among many users of a window hide in
its noise; an honest change of the users in the course of a run looks like liars.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant._numba import BORROWED, compiled_form, njit
from privquant.protocols.isotonic.posterior import cell_at
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.table import Floats, Table, add_sorted, clear

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

EPOCHS = 16
# An epoch shorter than this tells nothing: small runs have fewer of them.
_SHORTEST = 60
# Windows have at most this many epochs, so that the rest is always more than twice as much.
_WIDEST = 5
# Thresholds are taken together until they have this part of all reports.
_BINS = 64
# Evidence (in nats) beyond which a window is dropped, and beyond which an alarm is raised, for one quantile and
# runs up to _SMALL. Honest evidence grows by about _GROWTH for e times as many reports; and for twice as many
# quantiles, which ask at more ranks, by about _MORE and 1 more for e times as many reports. All levels do so too.
CUT = 17.5
ALARM = 36.0
# The cut for a window that begins with the last epoch, and how much more it is for one that begins with the run:
# in between in proportion, and never more than CUT. Evidence is told as if every cut were CUT, so that an alarm too
# is raised on less for windows that begin late.
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
# How often in an epoch late reports to closed epochs may change which of them are believed.
_LOOKS = 4
# Of all users, those who are asked at an anchor, and how many different anchors a batch has for one quantile.
ANCHORS = 0.05
ANCHOR_PLACES = 4
# Fractional part of the golden ratio: its multiples fill (0, 1) evenly in any stretch.
_GOLDEN = 0.6180339887498949

BULK, SEARCH, ANCHOR = 0, 1, 2
KINDS = 3
"""A query's phase is its kind + KINDS times its epoch; runs without epochs have the phases BULK and SEARCH."""

_CLOSED, _LATE, _LOOK, _IN_BULK = range(4)


class Arrivals(NamedTuple):
    """A run's reports with their phases, in any order, and which epochs are believed.

    held:      rows in use.
    kept:      one flag an epoch.
    marks:     epochs closed when `kept` was decided; whether one of those heard something since; when that was
               looked at; reports of the bulk phase in the table of what is believed.
    evidence:  the largest contradiction at any decision.
    quantiles: how many the run searches.
    """

    held: Ints
    threshold: Ints
    phase: Ints
    reports: Ints
    ones: Ints
    kept: Flags
    marks: Ints
    evidence: Floats
    quantiles: int


def new_arrivals(capacity: int, epochs: int, quantiles: int) -> Arrivals:
    """Nothing heard, with room for `capacity` rows."""
    rows = [np.zeros(capacity, np.int64) for _ in range(4)]
    held, marks = np.zeros(1, np.int64), np.zeros(4, np.int64)
    kept = np.ones(epochs, np.bool_)
    return Arrivals(held, rows[0], rows[1], rows[2], rows[3], kept, marks, np.zeros(1), quantiles)


def with_rows(arrivals: Arrivals, rows: NDArray[np.int64]) -> Arrivals:
    """The same decisions beside other reports: threshold, phase, reports, ones, a column each."""
    columns = [np.ascontiguousarray(column) for column in rows.T]
    return arrivals._replace(
        held=np.array([len(rows)], np.int64),
        threshold=columns[0],
        phase=columns[1],
        reports=columns[2],
        ones=columns[3],
    )


@njit(cache=True)
def forget(arrivals: Arrivals) -> None:
    """Nothing heard."""
    arrivals.held[0] = 0
    arrivals.kept[:] = True
    arrivals.marks[:] = 0
    arrivals.evidence[0] = 0.0


@njit(cache=True)
def epochs_of(users: int) -> int:
    """How many epochs a run of so many users has."""
    return max(1, min(EPOCHS, users // _SHORTEST))


@njit(cache=True)
def epoch_at(heard: int, users: int, epochs: int) -> int:
    """The epoch of a question asked when `heard` users were heard."""
    return min(heard * epochs // max(users, 1), epochs - 1)


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


@compiled_form(add_to, **BORROWED)
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
    ones is furthest beyond the cut of the epoch it begins with, or nearest to it; -inf if there is none.

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
            if apart - together - cuts[at[start]] > furthest:
                furthest = apart - together - cuts[at[start]]
                first = at[start]
                last = at[end]
    return furthest, first, last


@njit(cache=True)
def cuts_of(epochs: int, reports: float, quantiles: int) -> Floats:
    """Beyond which evidence a window is dropped, by the epoch it begins with."""
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


@njit(cache=True)
def rebuild(table: Table, search: Search, arrivals: Arrivals, kept: Flags) -> int:
    """Fill the table from the epochs kept; how many reports of the bulk phase are in it."""
    clear(table)
    held = arrivals.held[0]
    order = rising(arrivals.threshold[:held])
    rows = np.empty((3, held), np.int64)
    found = 0
    for bulk in (True, False):
        used = 0
        for i in range(held):
            k = order[i]
            if kept[arrivals.phase[k] // KINDS] and (arrivals.phase[k] % KINDS == BULK) == bulk:
                rows[0, used] = arrivals.threshold[k]
                rows[1, used] = arrivals.reports[k]
                rows[2, used] = arrivals.ones[k]
                used += 1
                if bulk:
                    found += arrivals.reports[k]
        if used > 0:
            add_sorted(table, search, 0, -1, bulk, rows[0, :used], rows[1, :used], rows[2, :used])
    return found


@njit(cache=True)
def note(arrivals: Arrivals, threshold: int, phase: int, reports: int, ones: int) -> bool:
    """Write reports down; whether their epoch is believed, so that they belong into the table."""
    row = arrivals.held[0]
    if row >= arrivals.threshold.size:  # compiled code would write beyond the end without a word
        raise IndexError("the list of arrivals is full")
    arrivals.threshold[row] = threshold
    arrivals.phase[row] = phase
    arrivals.reports[row] = reports
    arrivals.ones[row] = ones
    arrivals.held[0] = row + 1
    return mark(arrivals, phase, reports)


@njit(cache=True)
def mark(arrivals: Arrivals, phase: int, reports: int) -> bool:
    """Take notice of reports that are written down elsewhere; whether their epoch is believed."""
    epoch = phase // KINDS
    if epoch < arrivals.marks[_CLOSED]:
        arrivals.marks[_LATE] = 1
    if phase % KINDS == BULK and arrivals.kept[epoch]:
        arrivals.marks[_IN_BULK] += reports
    return bool(arrivals.kept[epoch])


@njit(cache=True)
def in_bulk(arrivals: Arrivals) -> int:
    """Reports of the bulk phase that are believed."""
    return int(arrivals.marks[_IN_BULK])


@njit(cache=True)
def is_due(arrivals: Arrivals, heard: int, users: int) -> bool:
    """Whether the closed epochs are to be judged anew: one more has closed, or late reports came to one."""
    epochs = arrivals.kept.size
    if epoch_at(heard, users, epochs) != arrivals.marks[_CLOSED]:
        return True
    return bool(arrivals.marks[_LATE] == 1 and heard * epochs * _LOOKS // max(users, 1) != arrivals.marks[_LOOK])


@njit(cache=True)
def decide(arrivals: Arrivals, table: Table, search: Search, closed: int) -> None:
    """Which of so many closed epochs are believed, from now on; the table is filled from them if that changes."""
    kept = np.empty(arrivals.kept.size, np.bool_)
    arrivals.evidence[0] = max(arrivals.evidence[0], choose_kept(arrivals, closed, kept))
    changed = False
    for epoch in range(kept.size):
        changed = changed or kept[epoch] != arrivals.kept[epoch]
        arrivals.kept[epoch] = kept[epoch]
    if changed:
        arrivals.marks[_IN_BULK] = rebuild(table, search, arrivals, kept)


@njit(cache=True)
def judge(arrivals: Arrivals, table: Table, search: Search, heard: int, users: int) -> None:
    """Decide anew when so many of the users were heard."""
    epochs = arrivals.kept.size
    arrivals.marks[_CLOSED] = epoch_at(heard, users, epochs)
    arrivals.marks[_LATE] = 0
    arrivals.marks[_LOOK] = heard * epochs * _LOOKS // max(users, 1)
    decide(arrivals, table, search, arrivals.marks[_CLOSED])


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

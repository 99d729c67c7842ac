"""The guard against liars who choose their moment: what a search does with the epochs of its run.

Liars spread over a run at random move the answer by a known amount. Liars who all come at the end, or at the start,
move it much further: they decide alone where the search goes. Two rules against that.

Epochs. Every query says in which sixteenth of the run it was handed out (`epochs`). Each time one closes, those
that contradict the rest (`contradiction`) are left out, and the search goes on from what is believed.

Anchors. One report in twenty asks again at a threshold asked before, outside of where the search now looks, each
side alike: what early liars decided would otherwise never be asked again.

What this cannot do: half a run of liars is a population of its own; few liars among many users of a window hide in
its noise; an honest change of the users in the course of a run looks like liars.
"""

import math

import numpy as np

from privquant._numba import njit
from privquant.arrays import Flags
from privquant.protocols.isotonic.contradiction import choose_kept, rising
from privquant.protocols.isotonic.epochs import BULK, CLOSED, IN_BULK, KINDS, LATE, LOOK, Arrivals, epoch_at
from privquant.protocols.isotonic.posterior import cell_at
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.rules import even_part
from privquant.protocols.isotonic.table import Table, add_sorted, clear

# How often in an epoch late reports to closed epochs may change which of them are believed.
_LOOKS = 4
# Of all users, those who are asked at an anchor, and how many different anchors a batch has for one quantile.
ANCHORS = 0.05
ANCHOR_PLACES = 4


@njit(cache=True)
def is_due(arrivals: Arrivals, heard: int, users: int) -> bool:
    """Whether the closed epochs are to be judged anew: one more has closed, or late reports came to one."""
    epochs = arrivals.kept.size
    if epoch_at(heard, users, epochs) != arrivals.marks[CLOSED]:
        return True
    return bool(arrivals.marks[LATE] == 1 and heard * epochs * _LOOKS // max(users, 1) != arrivals.marks[LOOK])


@njit(cache=True)
def judge(arrivals: Arrivals, table: Table, search: Search, heard: int, users: int) -> None:
    """Decide anew when so many of the users were heard."""
    epochs = arrivals.kept.size
    arrivals.marks[CLOSED] = epoch_at(heard, users, epochs)
    arrivals.marks[LATE] = 0
    arrivals.marks[LOOK] = heard * epochs * _LOOKS // max(users, 1)
    decide(arrivals, table, search, arrivals.marks[CLOSED])


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
        arrivals.marks[IN_BULK] = rebuild(table, search, arrivals, kept)


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
    wanted = even_part(step) * total
    for k in range(low, high):
        wanted -= table.reports[0, k]
        if wanted < 0.0:
            return int(table.threshold[k])
    return int(table.threshold[high - 1])

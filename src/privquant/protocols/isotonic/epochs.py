"""The epochs of a run: in which part of it a question was handed out, and the list of what was heard to it.

The epoch is that of asking, not of answering: who is given a question early and answers late has its answer counted
with those it was asked beside, and gains nothing by waiting.
"""

from typing import NamedTuple

import numpy as np

from privquant._numba import njit
from privquant.arrays import Flags, Floats, Ints

EPOCHS = 16
# An epoch shorter than this tells nothing: small runs have fewer of them.
_SHORTEST = 60

BULK, SEARCH, ANCHOR = 0, 1, 2
KINDS = 3
"""A query's phase is its kind + KINDS times its epoch; runs without epochs have the phases BULK and SEARCH."""

CLOSED, LATE, LOOK, IN_BULK = range(4)
"""What the marks of a list of arrivals are."""


@njit(cache=True)
def epochs_of(users: int) -> int:
    """How many epochs a run of so many users has."""
    return max(1, min(EPOCHS, users // _SHORTEST))


@njit(cache=True)
def epoch_at(heard: int, users: int, epochs: int) -> int:
    """The epoch of a question asked when `heard` users were heard."""
    return min(heard * epochs // max(users, 1), epochs - 1)


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


def with_rows(arrivals: Arrivals, rows: Ints) -> Arrivals:
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
    if epoch < arrivals.marks[CLOSED]:
        arrivals.marks[LATE] = 1
    if phase % KINDS == BULK and arrivals.kept[epoch]:
        arrivals.marks[IN_BULK] += reports
    return bool(arrivals.kept[epoch])


@njit(cache=True)
def in_bulk(arrivals: Arrivals) -> int:
    """Reports of the bulk phase that are believed."""
    return int(arrivals.marks[IN_BULK])

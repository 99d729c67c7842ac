"""ReductionToGamma: the few cells that survive a run of BayesLearn, and the smaller problem they make.

A cell is written by its two ends, thresholds (low, high): the values low+1 .. high. A single value v is (v-1,
v); the ends -1 and B-1 stand for probabilities 0 and 1, which nobody need be asked about.
"""

import math

import numpy as np

from privquant.arrays import Ints

Cell = tuple[int, int]

FEW = 13  # the second reduction runs when more than so many cells survive the first, and leaves at most so many


def first_gamma(size: int) -> float:
    """1/ln^2 B; for the domains of up to 36 values where that is above 1/13, 1/13, so that something survives."""
    return min(1.0 / math.log(size) ** 2, 1.0 / FEW) if size > 1 else 1.0 / FEW


def split_users(users: int, size: int) -> tuple[int, int]:
    """M_B1 and M_B2 of the experiments: n ln B and n ln ln B over ln B + ln ln B + 1, rounded down.

    ln ln B is negative for B = 2 and taken as 0 there.
    """
    log = math.log(max(size, 1))
    loglog = max(math.log(log), 0.0) if log > 0 else 0.0
    whole = log + loglog + 1.0
    return int(users * log / whole), int(users * loglog / whole)


def survivors(cells: Ints, counts: Ints, gamma: float) -> Ints:
    """Every ceil(gamma |L|)-th of the visited list L, in order and without repeats.

    `cells` are the visited cells in rising order and `counts` how often each was.
    """
    upto = np.cumsum(counts)
    total = int(upto[-1])
    every = max(math.ceil(gamma * total), 1)
    ranks = np.arange(every, total + 1, every)
    return np.unique(cells[np.searchsorted(upto, ranks)])


def survivors_interpolated(cells: Ints, counts: Ints, gamma: float) -> Ints:
    """As the authors' program has it: the gamma-quantiles of L by linear interpolation, rounded to a cell.

    The rounded cell lies between two visited ones and need not have been visited itself.
    """
    upto = np.cumsum(counts)
    shares = np.minimum(gamma * np.arange(1, int(1.0 / gamma) + 1), 1.0)
    ranks = shares * (int(upto[-1]) - 1)
    below = np.floor(ranks).astype(np.int64)
    low = cells[np.searchsorted(upto, below, side="right")]
    high = cells[np.searchsorted(upto, np.minimum(below + 1, upto[-1] - 1), side="right")]
    return np.unique(low + np.rint((high - low) * (ranks - below)).astype(np.int64))


def padded(values: Ints, size: int, *, published: bool = False) -> list[Cell]:
    """The surviving values as cells, and what lies below and above them as one cell each.

    The program's pads start and end at its own first and last coin, 0 and B-1, and stand there even when empty.
    """
    found = [(v - 1, v) for v in values.tolist()]
    first, last = found[0][0], found[-1][1]
    if published:
        return [(0, first), *found, (last, size - 1)]
    return [*([(-1, first)] if first >= 0 else []), *found, *([(last, size - 1)] if last < size - 1 else [])]


def ends(cells: list[Cell], size: int) -> list[int]:
    """The thresholds that bound the cells and can be asked, in rising order."""
    return sorted({end for cell in cells for end in cell if 0 <= end <= size - 2})


def representative(cell: Cell, size: int) -> int:
    """The value a cell answers with. A pad answers with its value nearest to the survivors."""
    low, high = cell
    return high if high < size - 1 else low + 1

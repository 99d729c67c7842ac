"""A population as cells of users, for exact draws by count.

Users are kept in a binary tree of cells between the thresholds met so far, each with (total, asked). Which users
of a cell were asked is uniform among its users, so cutting a cell splits its asked users hypergeometrically, and
a batch of fresh users falls to the two sides of a cut hypergeometrically by the users not yet asked. A batch goes
down to its own threshold only: what falls into a side branch stays pending there and is divided when the branch
is next visited, which is exact because pending users too are uniform among those not asked.

The cost of a batch is that of the path to its threshold, whatever the number of users.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant._numba import njit
from privquant.lab.engine.samplers import hypergeometric

Ints = NDArray[np.int64]


class Cells(NamedTuple):
    """The tree: node 0 is the root. left == 0 marks a leaf. `asked` includes `pending`; `before` is the number of
    users below the cell; `held` has the number of nodes.
    """

    held: Ints
    cut: Ints
    total: Ints
    asked: Ints
    pending: Ints
    left: Ints
    before: Ints


def new_cells(thresholds: int) -> Cells:
    """Room for `thresholds` distinct thresholds. A node's right child follows its left one."""
    return Cells(np.zeros(1, np.int64), *(np.zeros(2 * thresholds + 3, np.int64) for _ in range(6)))


@njit(cache=True)
def fill(cells: Cells, users: int) -> None:
    """One cell with all users, nobody asked."""
    cells.held[0] = 1
    cells.total[0] = users
    cells.asked[0] = 0
    cells.pending[0] = 0
    cells.left[0] = 0
    cells.before[0] = 0


@njit(cache=True)
def at_most(values: Ints, cumulative: Ints, threshold: int) -> int:
    """How many users have a value of at most the threshold."""
    low = 0
    high = values.size
    while low < high:
        middle = (low + high) // 2
        if values[middle] <= threshold:
            low = middle + 1
        else:
            high = middle
    return cumulative[low - 1] if low > 0 else 0


@njit(cache=True)
def _cut(cells: Cells, node: int, threshold: int, below: int, rng: np.random.Generator) -> None:
    """Make a leaf two leaves; `below` of its users are at or below the threshold."""
    asked = cells.asked[node]
    asked_below = hypergeometric(below, cells.total[node] - below, asked, rng)
    a = cells.held[0]
    b = a + 1
    if b >= cells.cut.size:  # compiled code would write beyond the end without a word
        raise IndexError("the tree of cells is full")
    cells.held[0] = a + 2
    cells.cut[node] = threshold
    cells.left[node] = a
    cells.pending[node] = 0
    cells.total[a] = below
    cells.asked[a] = asked_below
    cells.before[a] = cells.before[node]
    cells.total[b] = cells.total[node] - below
    cells.asked[b] = asked - asked_below
    cells.before[b] = cells.before[node] + below
    for child in (a, b):
        cells.pending[child] = 0
        cells.left[child] = 0


@njit(cache=True)
def _push(cells: Cells, node: int, count: int, rng: np.random.Generator) -> int:
    """Divide `count` fresh users of a node among its children; how many fall to the left one.

    The children's books are not touched.
    """
    a = cells.left[node]
    b = a + 1
    return hypergeometric(cells.total[a] - cells.asked[a], cells.total[b] - cells.asked[b], count, rng)


@njit(cache=True)
def draw(cells: Cells, values: Ints, cumulative: Ints, threshold: int, count: int, rng: np.random.Generator) -> int:
    """Ask `count` fresh users at random; how many of them are at or below the threshold."""
    node = 0
    below = 0
    while True:
        if cells.left[node] == 0:
            inside = at_most(values, cumulative, threshold) - cells.before[node]
            _cut(cells, node, threshold, inside, rng)
        a = cells.left[node]
        b = a + 1
        waiting = cells.pending[node]
        if waiting > 0:
            to_left = _push(cells, node, waiting, rng)
            cells.asked[a] += to_left
            cells.pending[a] += to_left
            cells.asked[b] += waiting - to_left
            cells.pending[b] += waiting - to_left
            cells.pending[node] = 0
        cells.asked[node] += count
        to_left = _push(cells, node, count, rng)
        if threshold <= cells.cut[node]:
            cells.asked[b] += count - to_left
            cells.pending[b] += count - to_left
            if threshold == cells.cut[node]:
                cells.asked[a] += to_left
                cells.pending[a] += to_left
                return below + to_left
            node = a
            count = to_left
        else:
            cells.asked[a] += to_left
            cells.pending[a] += to_left
            below += to_left
            node = b
            count = count - to_left
        if count == 0:
            return below

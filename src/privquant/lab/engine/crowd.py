"""A population as cells of users, for exact draws by count.

Users are kept in a binary tree of cells between the thresholds met so far. A batch goes down to its own threshold,
and at each cut on its way falls to the two sides hypergeometrically, by the users of each side of whom no batch has
told yet that they were asked. Who was asked before a cell was cut, or went by on the way to another threshold, is
left open and needs no place: a cell's users come in random order, and what is not known of the earlier ones does
not move the law of the next.

The cost of a batch is that of the path to its threshold, whatever the number of users.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant._numba import njit
from privquant.lab.engine.samplers import hypergeometric

Ints = NDArray[np.int64]


class Crowd(NamedTuple):
    """The tree: node 0 is the root. left == 0 marks a leaf. `asked` are the users known to be asked; `before` is
    the number of users below the cell; `held` has the number of nodes.
    """

    held: Ints
    cut: Ints
    total: Ints
    asked: Ints
    left: Ints
    before: Ints


def new_crowd(thresholds: int) -> Crowd:
    """Room for `thresholds` distinct thresholds. A node's right child follows its left one."""
    return Crowd(np.zeros(1, np.int64), *(np.zeros(2 * thresholds + 3, np.int64) for _ in range(5)))


@njit(cache=True)
def fill(crowd: Crowd, users: int) -> None:
    """One cell with all users, nobody asked."""
    crowd.held[0] = 1
    crowd.total[0] = users
    crowd.left[0] = 0
    crowd.before[0] = 0


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
def _cut(crowd: Crowd, node: int, threshold: int, below: int) -> None:
    """Make a leaf two leaves; `below` of its users are at or below the threshold."""
    a = crowd.held[0]
    b = a + 1
    if b >= crowd.cut.size:  # compiled code would write beyond the end without a word
        raise IndexError("the tree of cells is full")
    crowd.held[0] = a + 2
    crowd.cut[node] = threshold
    crowd.left[node] = a
    crowd.total[a] = below
    crowd.before[a] = crowd.before[node]
    crowd.total[b] = crowd.total[node] - below
    crowd.before[b] = crowd.before[node] + below
    for child in (a, b):
        crowd.asked[child] = 0
        crowd.left[child] = 0


@njit(cache=True)
def draw(crowd: Crowd, values: Ints, cumulative: Ints, threshold: int, count: int, rng: np.random.Generator) -> int:
    """Ask `count` fresh users at random; how many of them are at or below the threshold."""
    node = 0
    below = 0
    while count > 0:
        if crowd.left[node] == 0:
            _cut(crowd, node, threshold, at_most(values, cumulative, threshold) - crowd.before[node])
        a = crowd.left[node]
        b = a + 1
        to_left = hypergeometric(crowd.total[a] - crowd.asked[a], crowd.total[b] - crowd.asked[b], count, rng)
        crowd.asked[a] += to_left
        crowd.asked[b] += count - to_left
        if threshold < crowd.cut[node]:
            node = a
            count = to_left
        else:
            below += to_left
            if threshold == crowd.cut[node]:
                break
            node = b
            count -= to_left
    return below

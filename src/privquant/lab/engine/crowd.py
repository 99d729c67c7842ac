"""A population for exact draws by count: cells of users, or a list of them where the queries are small.

Users are kept in a binary tree of cells between the thresholds met so far, each with (total, asked). Which users
of a cell were asked is uniform among its users, so cutting a cell splits its asked users hypergeometrically, and
a batch of fresh users falls to the two sides of a cut hypergeometrically by the users not yet asked. A batch goes
down to its own threshold only: what falls into a side branch stays pending there and is divided when the branch
is next visited, which is exact because pending users too are uniform among those not asked.

The cost of a batch is that of the path to its threshold, whatever the number of users. Where batches are of a few
users, taking them one by one from a shuffled list is cheaper: a list of ranks, of which any below the number of
users at or below the threshold is a one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant._numba import njit
from privquant.lab.engine.samplers import hypergeometric

Ints = NDArray[np.int64]


class Crowd(NamedTuple):
    """The tree: node 0 is the root. left == 0 marks a leaf. `asked` includes `pending`; `before` is the number of
    users below the cell; `held` has the number of nodes.

    With a list (`listed` is not empty) there is no tree: the users asked come first, and held[1] is their number.
    """

    held: Ints
    listed: Ints
    cut: Ints
    total: Ints
    asked: Ints
    pending: Ints
    left: Ints
    before: Ints


def new_crowd(thresholds: int) -> Crowd:
    """A tree with room for `thresholds` distinct thresholds. A node's right child follows its left one."""
    columns = (np.zeros(2 * thresholds + 3, np.int64) for _ in range(6))
    return Crowd(np.zeros(2, np.int64), np.zeros(0, np.int64), *columns)


def new_list(users: int) -> Crowd:
    """A list of so many users."""
    columns = (np.zeros(1, np.int64) for _ in range(6))
    return Crowd(np.zeros(2, np.int64), np.arange(users, dtype=np.int64), *columns)


@njit(cache=True)
def fill(crowd: Crowd, users: int) -> None:
    """One cell with all users, nobody asked. A list keeps its order: the next draws shuffle it all the same."""
    crowd.held[0] = 1
    crowd.held[1] = 0
    crowd.total[0] = users
    crowd.asked[0] = 0
    crowd.pending[0] = 0
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
def _cut(crowd: Crowd, node: int, threshold: int, below: int, rng: np.random.Generator) -> None:
    """Make a leaf two leaves; `below` of its users are at or below the threshold."""
    asked = crowd.asked[node]
    asked_below = hypergeometric(below, crowd.total[node] - below, asked, rng)
    a = crowd.held[0]
    b = a + 1
    if b >= crowd.cut.size:  # compiled code would write beyond the end without a word
        raise IndexError("the tree of cells is full")
    crowd.held[0] = a + 2
    crowd.cut[node] = threshold
    crowd.left[node] = a
    crowd.pending[node] = 0
    crowd.total[a] = below
    crowd.asked[a] = asked_below
    crowd.before[a] = crowd.before[node]
    crowd.total[b] = crowd.total[node] - below
    crowd.asked[b] = asked - asked_below
    crowd.before[b] = crowd.before[node] + below
    for child in (a, b):
        crowd.pending[child] = 0
        crowd.left[child] = 0


@njit(cache=True)
def _push(crowd: Crowd, node: int, count: int, rng: np.random.Generator) -> int:
    """Divide `count` fresh users of a node among its children; how many fall to the left one.

    The children's books are not touched.
    """
    a = crowd.left[node]
    b = a + 1
    return hypergeometric(crowd.total[a] - crowd.asked[a], crowd.total[b] - crowd.asked[b], count, rng)


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
def draw(crowd: Crowd, values: Ints, cumulative: Ints, threshold: int, count: int, rng: np.random.Generator) -> int:
    """Ask `count` fresh users at random; how many of them are at or below the threshold."""
    if crowd.listed.size > 0:
        return _draw_listed(crowd.listed, crowd.held, at_most(values, cumulative, threshold), count, rng)
    node = 0
    below = 0
    while True:
        if crowd.left[node] == 0:
            inside = at_most(values, cumulative, threshold) - crowd.before[node]
            _cut(crowd, node, threshold, inside, rng)
        a = crowd.left[node]
        b = a + 1
        waiting = crowd.pending[node]
        if waiting > 0:
            to_left = _push(crowd, node, waiting, rng)
            crowd.asked[a] += to_left
            crowd.pending[a] += to_left
            crowd.asked[b] += waiting - to_left
            crowd.pending[b] += waiting - to_left
            crowd.pending[node] = 0
        crowd.asked[node] += count
        to_left = _push(crowd, node, count, rng)
        if threshold <= crowd.cut[node]:
            crowd.asked[b] += count - to_left
            crowd.pending[b] += count - to_left
            if threshold == crowd.cut[node]:
                crowd.asked[a] += to_left
                crowd.pending[a] += to_left
                return below + to_left
            node = a
            count = to_left
        else:
            crowd.asked[a] += to_left
            crowd.pending[a] += to_left
            below += to_left
            node = b
            count = count - to_left
        if count == 0:
            return below

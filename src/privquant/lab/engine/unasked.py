"""The users not yet asked, for exact draws by count: cells of them, or a list where the queries are small.

Users are kept in a binary tree of cells between the thresholds met so far. A batch goes down to its own threshold,
and at each cut on its way falls to the two sides hypergeometrically, by the users of each side of whom no batch has
told yet that they were asked. Who was asked before a cell was cut, or went by on the way to another threshold, is
left open and needs no place: a cell's users come in random order, and what is not known of the earlier ones does
not move the law of the next.

The cost of a batch is that of the path to its threshold, whatever the number of users. Where batches are of a few
users, taking them one by one from a shuffled list is cheaper: a list of ranks, of which any below the number of
users at or below the threshold is a one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privquant._numba import njit
from privquant.arrays import Ints
from privquant.lab.engine.samplers import hypergeometric
from privquant.protocols.isotonic.table import place_of


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

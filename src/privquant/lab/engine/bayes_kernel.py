"""BayesLearn on millions of users: the protocol's own posterior (`privquant.protocols.bayes.stacks`), compiled.

Most reports leave the located cell where it is. The loop holds what such a report needs in registers, and hands it
back to the stacks when the cell moves.
"""

from __future__ import annotations

from mmap import mmap
from typing import Any, NamedTuple

import numpy as np

from privquant._numba import njit
from privquant.arrays import Ints
from privquant.lab.engine.random import step
from privquant.protocols.bayes import stacks
from privquant.protocols.bayes.blocks import BLOCK, KERNEL
from privquant.protocols.bayes.stacks import AT, HERE, LARGE, LEFT, OPEN, RIGHT, SMALL, Stacks

_U = np.uint64


class Asking(NamedTuple):
    """What a learner asks.

    q, left0, left1, right0, right1:  of the channel.
    lows, highs:  the thresholds at the cells' ends; where they are empty, those of cell i are i + bottom - 1 and
                  i + bottom, kept within 0 .. top.
    first:        the first cell to visit, or -1 for that at mass q.
    left_only, two_regions:  coin_rule="published", update="counts".
    """

    last: int
    first: int
    q: float
    left0: float
    left1: float
    right0: float
    right1: float
    flip: np.uint64
    lows: Ints
    highs: Ints
    bottom: int
    top: int
    left_only: bool
    two_regions: bool


def arrays(users: int, cells: int, *, visits: bool) -> Stacks:
    """For a kernel: 2t+1 pieces after t reports, and no more than there are cells, in blocks at least half full."""
    blocks = min(2 * users + 1, cells) // (BLOCK // 2 - 2) + 16
    return Stacks(
        np.empty(7),
        np.empty(7, np.int64),
        _rows(blocks, np.int64),
        _rows(blocks, np.float64),
        np.empty((blocks if visits else 0, BLOCK), np.int32),
        np.empty(blocks, np.int64),
        np.empty(blocks),
        np.empty((2, blocks), np.int64),
        np.empty((2, blocks)),
        np.empty((2, blocks + 1)),
    )


def _rows(blocks: int, kind: type) -> Any:
    """A row a block, in pages that are made one by one as blocks are: numpy asks for huge ones, made at a cost that
    a long run on few blocks never earns back."""
    return np.frombuffer(mmap(-1, 8 * blocks * BLOCK), kind).reshape(blocks, BLOCK)


@njit(always=True, cache=True, **KERNEL)
def learn(p: Stacks, asking: Asking, values: Any, state: Any, path: Any) -> int:
    """Ask these users one by one; the posterior's median. `path`, unless empty, takes the cell of every step."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    q, left0, left1, right0, right1 = asking.q, asking.left0, asking.left1, asking.right0, asking.right1
    mapped = asking.lows.shape[0] > 0
    counted = len(p.visits) > 0
    follow = path.shape[0] > 0
    stacks.begin(p, asking.last, q, asking.first)
    left, here, right = p.number[LEFT], p.number[HERE], p.number[RIGHT]
    target = q * (left + here + right)
    cell = stacks.located(p)
    grown_left = 1.0  # the factor of each side since the stacks were last told
    grown_right = 1.0
    users = values.shape[0]
    stays = True
    for i in range(users + 1):
        if not stays or i == users:
            stacks.multiply(p, grown_left, grown_right, here)
            stacks.locate(p, q if i < users else 0.5)
            left, here, right = p.number[LEFT], p.number[HERE], p.number[RIGHT]
            target = q * (left + here + right)
            cell = stacks.located(p)
            grown_left = 1.0
            grown_right = 1.0
            if i == users:
                break
        if counted:
            p.visits[p.count[OPEN], p.count[AT]] += 1
        if follow:
            path[i] = cell
        at_left = asking.left_only or q * right <= (1.0 - q) * left
        if mapped:
            threshold = asking.lows[_U(cell)] if at_left else asking.highs[_U(cell)]
        else:
            threshold = min(max(cell + asking.bottom - (1 if at_left else 0), 0), asking.top)
        drawn, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        bit = (values[_U(i)] <= threshold) != (drawn < asking.flip)
        by_left = left1 if bit else left0
        by_right = right1 if bit else right0
        if asking.two_regions:
            here *= by_right if at_left else by_left
        else:
            part = min(max(target - left, 0.0), here)
            here = by_left * part + by_right * (here - part)
        left *= by_left
        right *= by_right
        grown_left *= by_left
        grown_right *= by_right
        target = q * (left + here + right)
        stays = left < target <= left + here and SMALL < grown_left < LARGE and SMALL < grown_right < LARGE
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return cell

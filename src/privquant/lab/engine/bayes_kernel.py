"""BayesLearn on millions of users, on the posterior in blocks (`bayes_stacks`).

Most reports leave the located cell where it is. The loop holds what such a report needs in registers, and hands it
back to the stacks when the cell moves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from privquant._numba import njit
from privquant.arrays import Ints
from privquant.lab.engine.bayes_stacks import BLOCK, KERNEL, Stacks, begin, update
from privquant.lab.engine.random import step
from privquant.protocols.bayes.posterior import LARGE, SMALL

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


@njit(cache=True, **KERNEL)
def learn(stacks: Stacks, asking: Asking, values: Any, state: Any, path: Any) -> int:
    """Ask these users one by one; the posterior's median. `path`, unless empty, takes the cell of every step."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    q, left0, left1, right0, right1 = asking.q, asking.left0, asking.left1, asking.right0, asking.right1
    mapped = asking.lows.shape[0] > 0
    head, p = stacks.head[0], stacks.blocks
    counts = p[0].visits.size == BLOCK
    follow = path.shape[0] > 0
    begin(head, p, asking.last, q, asking.first)
    left, here, right = head.left, head.here, head.right
    target = q * (left + here + right)
    cell: int = head.cell
    grown_left = 1.0  # the factor of each side since the stacks were last told
    grown_right = 1.0
    users = values.shape[0]
    stays = True
    for i in range(users + 1):
        if not stays or i == users:
            update(head, p, q if i < users else 0.5, grown_left, grown_right, here)
            left, here, right = head.left, head.here, head.right
            target = q * (left + here + right)
            cell = head.cell
            grown_left = 1.0
            grown_right = 1.0
            if i == users:
                break
        if counts:
            p[_U(head.open)].visits[_U(head.at)] += 1
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

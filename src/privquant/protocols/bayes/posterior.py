"""A protocol's posterior: the stacks as lists that grow, run by the interpreter, with the JSON of their state.

One report at a time is microseconds in plain Python; a compiled call would save a few of them after seconds of
compiling. Many users are the lab's engine's, which compiles the same functions (`stacks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privquant.arrays import Ints
from privquant.protocols.bayes import stacks
from privquant.protocols.bayes.blocks import BLOCK
from privquant.protocols.bayes.channel import Channel
from privquant.protocols.bayes.stacks import AT, HELD, HERE, LEFT, MADE, OPEN, RIGHT, Stacks


class Posterior:
    """A distribution over the cells 0 .. cells-1, uniform at first, always located at mass q of the channel.

    first: a cell to be located at until the first update, wherever its mass lies.
    """

    def __init__(self, cells: int, channel: Channel, *, first: int | None = None) -> None:
        self._channel = channel
        self._stacks = _lists(4)
        stacks.begin(self._stacks, cells - 1, channel.q, -1 if first is None else first)

    @property
    def cell(self) -> int:
        """The located cell."""
        return stacks.located(self._stacks)

    @property
    def sides(self) -> tuple[float, float, float]:
        """The masses left of the located cell, of it, and right of it, in a common unit."""
        number = self._stacks.number
        return number[LEFT], number[HERE], number[RIGHT]

    def left_coin(self) -> bool:
        """RoundIntervalToCoin: (q - W(j-1)) / w(j) <= q, written so that tiny sides still count."""
        left, _, right = self.sides
        return self._channel.q * right <= (1.0 - self._channel.q) * left

    def median(self) -> int:
        """The first cell at which half of the mass is reached; looked for on a copy, as looking cuts pieces."""
        if self._channel.q == 0.5:
            return self.cell
        copy = _copied(self._stacks)
        _room(copy)
        stacks.locate(copy, 0.5)
        return stacks.located(copy)

    def visited(self) -> tuple[Ints, Ints]:
        """The visited cells in rising order, and how often each was."""
        return visited(self._stacks)

    def visit(self) -> None:
        """Count a visit to the located cell."""
        p = self._stacks
        p.visits[p.count[OPEN]][p.count[AT]] += 1

    def cut(self, bit: int) -> None:
        """A report on the located cell as the text has it: the cell is cut at mass q."""
        _room(self._stacks)
        stacks.cut(self._stacks, self._channel.q, self._channel.left[bit], self._channel.right[bit])

    def split(self, boundary: int, bit: int) -> None:
        """A report in the two-region form: cells up to `boundary` by one factor, all beyond it by the other."""
        _room(self._stacks)
        stacks.split(self._stacks, self._channel.q, boundary, self._channel.left[bit], self._channel.right[bit])

    # -- state ---------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Everything, every float as it is."""
        return _copied(self._stacks)._asdict()

    @classmethod
    def from_dict(cls, form: Mapping[str, Any], channel: Channel) -> Posterior:
        made = cls.__new__(cls)
        made._channel, made._stacks = channel, _copied(Stacks(**form))
        return made


def visited(p: Stacks) -> tuple[Ints, Ints]:
    """The visited cells of stacks in rising order, and how often each was."""
    left, right = (p.stack[side][: p.count[HELD + side]] for side in range(2))
    order = np.concatenate([left, p.count[OPEN : OPEN + 1], right[::-1]]).astype(np.int64)
    counts = np.asarray(p.visits).take(order, axis=0).ravel()
    found = np.flatnonzero(counts)
    return np.asarray(p.starts).take(order, axis=0).take(found), counts.take(found).astype(np.int64)


def _lists(blocks: int) -> Stacks:
    """Room for so many blocks."""
    p = Stacks([0.0] * 7, [0] * 7, [], [], [], [], [], [[], []], [[], []], [[0.0], [0.0]])
    _add_blocks(p, blocks)
    return p


def _add_blocks(p: Stacks, blocks: int) -> None:
    for rows in (p.starts, p.masses, p.visits):
        rows.extend([0] * BLOCK for _ in range(blocks))
    for column in (p.lengths, p.sums, *p.stack, *p.weight, *p.prefix):
        column.extend([0] * blocks)


def _room(p: Stacks) -> None:
    """Room for one more update, which isolates two cells at most and so makes two blocks at most."""
    if p.count[MADE] + 2 > len(p.lengths):
        _add_blocks(p, len(p.lengths))


def _copied(p: Stacks) -> Stacks:
    return Stacks(*([part[:] if isinstance(part, list) else part for part in parts] for parts in p))

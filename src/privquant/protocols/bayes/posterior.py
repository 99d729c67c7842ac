"""BayesLearn's posterior over up to 2^63 cells, at a cost a report that does not depend on how many cells there
are.

After t reports the posterior has at most 2t+1 pieces of constant density. A report multiplies everything left
of the current cell by one factor and everything right of it by another, and the next cell is near. So the
pieces lie in blocks, one of them open: closed blocks stand in two stacks, left and right of the open one,
each stack with ONE lazy scale and the prefix sums of its blocks from the far end. Finding the point of mass q
hops whole blocks from stack to stack in O(1) each, and looks into one block.

Masses are only ever added and multiplied, never taken from one another, so that a side of mass 1e-200 keeps
all its digits and a wrong phase can be recovered from.

The posterior is always located: after every update the cell at mass q is isolated as a piece of its own. Its
whole state is then a function of the updates alone, not of when somebody looked.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

BLOCK = 32
# A mass this far below the rest cannot matter, but must not become zero: zero never recovers.
FLOOR = 1e-250
_SMALL, _LARGE = 1e-40, 1e40


class _Block:
    """Neighbouring pieces: first cells, masses in the block's own unit, and how often a cell was visited."""

    __slots__ = ("masses", "starts", "visits")

    def __init__(self, starts: list[int], masses: list[float], visits: list[int]) -> None:
        self.starts = starts
        self.masses = masses
        self.visits = visits


class _Side:
    """The closed blocks on one side, the farthest first. Their weights are in units of `scale`."""

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self.weights: list[float] = []
        self.prefix = [0.0]
        self.scale = 1.0

    @property
    def mass(self) -> float:
        return self.prefix[-1] * self.scale

    def push(self, block: _Block, mass: float) -> None:
        weight = mass / self.scale
        self.blocks.append(block)
        self.weights.append(weight)
        self.prefix.append(self.prefix[-1] + weight)

    def pop(self) -> tuple[_Block, float]:
        self.prefix.pop()
        return self.blocks.pop(), self.weights.pop() * self.scale

    def rescale(self, factor: float) -> None:
        self.scale *= factor
        if not _SMALL < self.scale < _LARGE:
            self.weights = [max(w * self.scale, FLOOR) for w in self.weights]
            self.prefix = list(accumulate(self.weights, initial=0.0))
            self.scale = 1.0


class Posterior:
    """A distribution over the cells 0 .. cells-1, uniform at first, always located at its point of mass q.

    cell:        the cell at mass q; `first` puts it elsewhere until the first update.
    left, right: the masses on either side of it.
    """

    def __init__(self, cells: int, q: float, *, first: int | None = None) -> None:
        self.cells = cells
        self.q = q
        self._left, self._right = _Side(), _Side()
        self._open = _Block([0], [1.0], [0])
        self._at = 0
        self.left = self.right = 0.0
        self._locate() if first is None else self._isolate(0, first)

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def cell(self) -> int:
        return self._open.starts[self._at]

    @property
    def mass(self) -> float:
        """Of the located cell."""
        return self._open.masses[self._at]

    def left_coin(self) -> bool:
        """RoundIntervalToCoin: (q - W(j-1)) / w(j) <= q, written so that tiny sides still count."""
        return self.q * self.right <= (1.0 - self.q) * self.left

    def median(self) -> int:
        """The first cell at which half of the mass is reached."""
        if self.q == 0.5:
            return self.cell
        inside = sum(self._open.masses)
        half = 0.5 * (self._left.mass + inside + self._right.mass)
        if self._left.mass >= half and self._left.blocks:
            k = bisect_left(self._left.prefix, half / self._left.scale, 1)
            block = self._left.blocks[k - 1]
            return _inside(
                block,
                (half - self._left.prefix[k - 1] * self._left.scale)
                / (self._left.weights[k - 1] * self._left.scale),
                self._last_of(block, k - 1, self._left),
            )
        if self._left.mass + inside >= half or not self._right.blocks:
            share = (half - self._left.mass) / inside
            return _inside(self._open, share, self._end(len(self._open.starts) - 1))
        # Right blocks are summed from their far end: leave so much mass beyond the point.
        beyond = half / self._right.scale
        k = min(max(bisect_right(self._right.prefix, beyond), 1), len(self._right.blocks))
        block = self._right.blocks[k - 1]
        share = 1.0 - (beyond - self._right.prefix[k - 1]) / self._right.weights[k - 1]
        return _inside(block, share, self._last_of(block, k - 1, self._right))

    def visits(self) -> Iterator[tuple[int, int]]:
        """The visited cells in rising order, each with how often."""
        for block in (*self._left.blocks, self._open, *reversed(self._right.blocks)):
            for start, count in zip(block.starts, block.visits, strict=True):
                if count:
                    yield start, count

    def pieces(self) -> Iterator[tuple[int, float]]:
        """First cell and mass of every piece, in rising order."""
        for side, blocks in (
            (self._left, self._left.blocks),
            (None, [self._open]),
            (self._right, self._right.blocks),
        ):
            order = range(len(blocks)) if side is not self._right else reversed(range(len(blocks)))
            for k in order:
                block = blocks[k]
                unit = 1.0 if side is None else side.weights[k] * side.scale / sum(block.masses)
                yield from ((s, m * unit) for s, m in zip(block.starts, block.masses, strict=True))

    # -- updates -------------------------------------------------------------------------------------------

    def visit(self) -> None:
        """Count a visit to the located cell."""
        self._open.visits[self._at] += 1

    def update_here(self, left: float, right: float) -> None:
        """The text's update: the located cell is cut at mass q, its parts go with their sides."""
        target = self.q * (self.left + self.mass + self.right)
        part = min(max(target - self.left, 0.0), self.mass)
        self._multiply(left, right, left * part + right * (self.mass - part))
        self._locate()

    def update_split(self, boundary: int, left: float, right: float) -> None:
        """The two-region update: cells up to `boundary` by one factor, all beyond it by the other."""
        if boundary < 0 or boundary >= self.cells - 1:
            return  # everything by one factor, which normalising takes out again
        if boundary not in (self.cell, self.cell - 1):
            self._go(boundary)
        self._multiply(left, right, self.mass * (left if self.cell <= boundary else right))
        self._locate()

    def _multiply(self, left: float, right: float, here: float) -> None:
        """New masses: left of the located cell, right of it, and of the cell itself."""
        masses, at = self._open.masses, self._at
        total = self.left * left + here + self.right * right
        left, right = left / total, right / total
        self._open.masses = [
            *(m * left if m > FLOOR else FLOOR for m in masses[:at]),
            max(here / total, FLOOR),
            *(m * right if m > FLOOR else FLOOR for m in masses[at + 1 :]),
        ]
        self._left.rescale(left)
        self._right.rescale(right)

    # -- the finger ----------------------------------------------------------------------------------------

    def _end(self, at: int) -> int:
        """The last cell of a piece of the open block."""
        if at + 1 < len(self._open.starts):
            return self._open.starts[at + 1] - 1
        return self._right.blocks[-1].starts[0] - 1 if self._right.blocks else self.cells - 1

    def _last_of(self, block: _Block, k: int, side: _Side) -> int:
        """The last cell of the k-th closed block of a side."""
        if side is self._left:
            following = side.blocks[k + 1] if k + 1 < len(side.blocks) else self._open
            return following.starts[0] - 1
        return side.blocks[k - 1].starts[0] - 1 if k else self.cells - 1

    def _close(self, side: _Side) -> None:
        side.push(self._open, sum(self._open.masses))

    def _enter(self, block: _Block, mass: float) -> None:
        """Open a block, its masses in the common unit from now on."""
        unit = mass / sum(block.masses)
        block.masses = [max(m * unit, FLOOR) for m in block.masses]
        self._open = block

    def _locate(self) -> None:
        """Isolate the cell at mass q."""
        left, right = self._left, self._right
        inside = sum(self._open.masses)
        total = left.mass + inside + right.mass
        target = self.q * total
        if left.blocks and left.mass >= target:
            self._close(right)
            block, mass = left.pop()
            while left.blocks and left.mass >= target:
                right.push(block, mass)
                block, mass = left.pop()
            self._enter(block, mass)
        elif right.blocks and left.mass + inside < target:
            self._close(left)
            block, mass = right.pop()
            while right.blocks and left.mass + mass < target:
                left.push(block, mass)
                block, mass = right.pop()
            self._enter(block, mass)
        upto = list(accumulate(self._open.masses, initial=left.mass))
        at = min(bisect_left(upto, target, 1), len(upto) - 1) - 1
        units = self._end(at) - self._open.starts[at] + 1
        if units == 1:
            self._settle(at)
            return
        unit = self._open.masses[at] / units
        offset = math.ceil((target - upto[at]) / unit) - 1
        self._isolate(at, self._open.starts[at] + min(max(offset, 0), units - 1))

    def _go(self, boundary: int) -> None:
        """Isolate the cell `boundary`, wherever the mass lies."""
        left, right = self._left, self._right
        if boundary < self._open.starts[0]:
            self._close(right)
            block, mass = left.pop()
            while boundary < block.starts[0]:
                right.push(block, mass)
                block, mass = left.pop()
            self._enter(block, mass)
        elif boundary > self._end(len(self._open.starts) - 1):
            self._close(left)
            block, mass = right.pop()
            while right.blocks and boundary >= right.blocks[-1].starts[0]:
                left.push(block, mass)
                block, mass = right.pop()
            self._enter(block, mass)
        self._isolate(bisect_right(self._open.starts, boundary) - 1, boundary)

    def _isolate(self, at: int, cell: int) -> None:
        """Make `cell`, inside piece `at` of the open block, a piece of its own and locate there."""
        block = self._open
        start, end, mass = block.starts[at], self._end(at), block.masses[at]
        units = end - start + 1
        if units > 1:
            unit = mass / units
            parts = [(start, unit * (cell - start)), (cell, unit), (cell + 1, unit * (end - cell))]
            if cell == end:
                parts.pop()
            if cell == start:
                parts.pop(0)
            block.starts[at : at + 1] = [s for s, _ in parts]
            block.masses[at : at + 1] = [max(m, FLOOR) for _, m in parts]
            block.visits[at : at + 1] = [0] * len(parts)
            at += cell > start
            if len(block.starts) > BLOCK:
                at = self._halve(at)
        self._settle(at)

    def _halve(self, at: int) -> int:
        """Close the half of the open block that does not hold piece `at`; where `at` is now."""
        block, half = self._open, len(self._open.starts) // 2
        low = _Block(block.starts[:half], block.masses[:half], block.visits[:half])
        high = _Block(block.starts[half:], block.masses[half:], block.visits[half:])
        if at < half:
            self._open = high
            self._close(self._right)
            self._open = low
            return at
        self._open = low
        self._close(self._left)
        self._open = high
        return at - half

    def _settle(self, at: int) -> None:
        self._at = at
        self.left = self._left.mass + sum(self._open.masses[:at])
        self.right = self._right.mass + sum(self._open.masses[at + 1 :])

    # -- state ---------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Everything, every float as it is."""
        return {
            "cells": self.cells,
            "q": self.q,
            "at": self._at,
            "open": _block_to_list(self._open),
            **{
                name: {
                    "scale": side.scale,
                    "weights": list(side.weights),
                    "blocks": [_block_to_list(b) for b in side.blocks],
                }
                for name, side in (("left", self._left), ("right", self._right))
            },
        }

    @classmethod
    def from_dict(cls, form: Mapping[str, Any]) -> Posterior:
        made = cls.__new__(cls)
        made.cells, made.q = int(form["cells"]), float(form["q"])
        made._open = _block_from_list(form["open"])
        made._left, made._right = _Side(), _Side()
        for name, side in (("left", made._left), ("right", made._right)):
            side.scale = float(form[name]["scale"])
            side.weights = list(form[name]["weights"])
            side.blocks = [_block_from_list(b) for b in form[name]["blocks"]]
            side.prefix = list(accumulate(side.weights, initial=0.0))
        made._settle(int(form["at"]))
        return made


def _block_to_list(block: _Block) -> list[list[Any]]:
    return [list(block.starts), list(block.masses), list(block.visits)]


def _block_from_list(form: list[list[Any]]) -> _Block:
    starts, masses, visits = form
    return _Block(list(starts), list(masses), list(visits))


def _inside(block: _Block, share: float, last: int) -> int:
    """The cell at which `share` of a block's mass is reached."""
    upto = list(accumulate(block.masses, initial=0.0))
    target = share * upto[-1]
    at = min(max(bisect_left(upto, target, 1), 1), len(block.masses)) - 1
    start = block.starts[at]
    end = block.starts[at + 1] - 1 if at + 1 < len(block.starts) else last
    offset = math.ceil((target - upto[at]) / block.masses[at] * (end - start + 1)) - 1
    return start + min(max(offset, 0), end - start)

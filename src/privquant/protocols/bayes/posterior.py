"""BayesLearn's posterior in pieces: after t reports it has at most 2t+1 of constant density, however many cells.

A report multiplies everything left of the current cell by one factor and everything right of it by another, and
the next cell is near. So the pieces lie in two stacks, left and right of the located cell, each with one lazy scale
and the sums of its masses from the far end. A report multiplies the scales, and pieces move from stack to stack
until the cell at mass q lies between them.

Masses are only ever added and multiplied, never made by taking one from another, so that a side of mass 1e-200
keeps all its digits and a wrong phase can be recovered from.

The posterior is always located: after every update the cell at mass q is isolated as a piece of its own. Its whole
state is then a function of the updates alone, not of when somebody looked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from privquant.arrays import Ints
from privquant.protocols.bayes.channel import Channel

# A mass this far below the rest cannot matter, but must not become zero: zero never recovers.
FLOOR = 1e-280
# A scale outside of these is multiplied in. Two of them, and a mass at the floor, still are no zero that matters.
SMALL, LARGE = 1e-50, 1e50
BELOW_2_63 = float(2**63 - 1024)  # the largest float that an integer of 64 bits can be made from


class _Side:
    """The pieces on one side of the located cell, farthest first: first cell, mass in the scale's unit, visits."""

    def __init__(self, pieces: Iterable[tuple[int, float, int]] = (), scale: float = 1.0) -> None:
        self.pieces = list(pieces)
        self.scale = scale
        self.sums = list(accumulate((mass for _, mass, _ in self.pieces), initial=0.0))

    @property
    def mass(self) -> float:
        return self.sums[-1] * self.scale

    def push(self, start: int, mass: float, visits: int) -> None:
        self.pieces.append((start, mass, visits))
        self.sums.append(self.sums[-1] + mass)

    def pop(self) -> tuple[int, float, int]:
        self.sums.pop()
        return self.pieces.pop()

    def at_scale_one(self, share: float) -> _Side:
        """The same with every mass multiplied by the scale and `share`, with a floor."""
        by = self.scale * share
        return _Side((start, max(mass * by, FLOOR), visits) for start, mass, visits in self.pieces)


class Posterior:
    """A distribution over the cells 0 .. cells-1, uniform at first, always located at mass q of the channel.

    first: a cell to be located at until the first update, wherever its mass lies.
    """

    def __init__(self, cells: int, channel: Channel, *, first: int | None = None) -> None:
        self._channel = channel
        self._last = cells - 1
        self._left, self._right = _Side(), _Side()
        self.cell, self._here, self._visits = 0, 1.0, 0
        self.sides = 0.0, 1.0, 0.0
        self._isolate(self._cell_at(channel.q) if first is None else first)

    def left_coin(self) -> bool:
        """RoundIntervalToCoin: (q - W(j-1)) / w(j) <= q, written so that tiny sides still count."""
        left, _, right = self.sides
        return self._channel.q * right <= (1.0 - self._channel.q) * left

    def median(self) -> int:
        """The first cell at which half of the mass is reached; looked for on a copy, as looking cuts pieces."""
        if self._channel.q == 0.5:
            return self.cell
        copy = Posterior.from_dict(self.to_dict(), self._channel)
        copy._locate(0.5)
        return copy.cell

    def visited(self) -> tuple[Ints, Ints]:
        """The visited cells in rising order, and how often each was."""
        here = (self.cell, self._here, self._visits)
        pieces = [*self._left.pieces, here, *reversed(self._right.pieces)]
        found = [(start, visits) for start, _, visits in pieces if visits]
        cells, counts = np.array(found, np.int64).reshape(-1, 2).T
        return cells, counts

    def visit(self) -> None:
        """Count a visit to the located cell."""
        self._visits += 1

    def cut(self, bit: int) -> None:
        """A report on the located cell as the text has it: the cell is cut at mass q, a part for each side."""
        left, here, right = self.sides
        part = min(max(self._channel.q * (left + here + right) - left, 0.0), here)
        self._multiply(bit, self._channel.left[bit] * part + self._channel.right[bit] * (here - part))

    def split(self, boundary: int, bit: int) -> None:
        """A report in the two-region form: cells up to `boundary` by one factor, all beyond it by the other."""
        if boundary < 0 or boundary >= self._last:
            return  # everything by one factor, which normalising takes out again
        if boundary not in (self.cell, self.cell - 1):
            while boundary < self.cell:
                self._step(self._left, self._right)
            while boundary > self._end():
                self._step(self._right, self._left)
            self._read_sides()
            self._isolate(boundary)
        factors = self._channel.left if self.cell <= boundary else self._channel.right
        self._multiply(bit, self._here * factors[bit])

    # -- the located cell ----------------------------------------------------------------------------------

    def _multiply(self, bit: int, here: float) -> None:
        """Both sides by the factors of a report, and the located cell's own new mass; then locate anew."""
        by_left, by_right = self._channel.left[bit], self._channel.right[bit]
        self._left.scale *= by_left
        self._right.scale *= by_right
        self._here = here
        self.sides = self.sides[0] * by_left, here, self.sides[2] * by_right
        self._locate(self._channel.q)

    def _locate(self, q: float) -> None:
        """Isolate the cell at mass q."""
        if not (SMALL < self._left.scale < LARGE and SMALL < self._right.scale < LARGE):
            share = 1.0 / sum(self.sides)
            self._left, self._right = self._left.at_scale_one(share), self._right.at_scale_one(share)
            self._here = max(self._here * share, FLOOR)
            self._read_sides()
        left, here, right = self.sides
        target = q * (left + here + right)
        if left < target <= left + here:
            return
        if left >= target:
            while self._left.pieces and self._left.mass >= target:
                self._step(self._left, self._right)
        else:
            while self._right.pieces and self._left.mass + self._here < target:
                self._step(self._right, self._left)
        self._read_sides()
        self._isolate(self._cell_at(q))

    def _step(self, source: _Side, target: _Side) -> None:
        """Make the next piece of a side the located one."""
        target.push(self.cell, self._here / target.scale, self._visits)
        self.cell, mass, self._visits = source.pop()
        self._here = mass * source.scale

    def _read_sides(self) -> None:
        """The masses left of the located piece, of it, and right of it, in a common unit."""
        self.sides = self._left.mass, self._here, self._right.mass

    def _end(self) -> int:
        """The last cell of the located piece."""
        return self._right.pieces[-1][0] - 1 if self._right.pieces else self._last

    def _cell_at(self, q: float) -> int:
        """The cell of the located piece at which mass q is reached."""
        spare = self._end() - self.cell
        if spare == 0:
            return self.cell
        left, here, right = self.sides
        part = min(max(q * (left + here + right) - left, 0.0), here)
        units = part / (here / (spare + 1.0))
        place = int(min(units, BELOW_2_63))
        if place > 0 and place >= units:
            place -= 1
        return self.cell + min(place, spare)

    def _isolate(self, cell: int) -> None:
        """Make `cell`, inside the located piece, a piece of its own and locate there."""
        below, above = cell - self.cell, self._end() - cell
        if below == above == 0:
            return
        left, here, right = self.sides
        unit = here / (float(below) + float(above) + 1.0)
        if below > 0:
            self._left.push(self.cell, unit * below / self._left.scale, 0)
        if above > 0:
            self._right.push(cell + 1, unit * above / self._right.scale, 0)
        self.cell, self._here, self._visits = cell, unit, 0
        self.sides = left + unit * below, unit, right + unit * above

    # -- state ---------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Everything, every float as it is."""
        return {
            "last": self._last,
            "located": [self.cell, self._here, self._visits],
            "sides": list(self.sides),
            "scales": [self._left.scale, self._right.scale],
            "left": [list(piece) for piece in self._left.pieces],
            "right": [list(piece) for piece in self._right.pieces],
        }

    @classmethod
    def from_dict(cls, form: Mapping[str, Any], channel: Channel) -> Posterior:
        if "number" in form:
            form = _from_blocks(form)
        made = cls.__new__(cls)
        made._channel, made._last = channel, form["last"]
        made.cell, made._here, made._visits = form["located"]
        left, here, right = form["sides"]
        made.sides = left, here, right
        made._left, made._right = (
            _Side((tuple(piece) for piece in form[side]), scale)
            for side, scale in zip(("left", "right"), form["scales"], strict=True)
        )
        return made


def _from_blocks(form: Mapping[str, Any]) -> dict[str, Any]:
    """The state as version 0.1 wrote it: the pieces of each side in blocks, one block open."""
    *scales, unit_left, unit_right, left, here, right = form["number"]
    held_left, held_right, opened, length, at, _, last = form["count"]
    rows = [list(zip(*(form[name][opened][:length] for name in ("starts", "masses", "visits")), strict=True))]
    cell, _, visits = rows[0][at]

    def side(which: int, held: int, near: list[tuple[int, float, int]], unit: float) -> list[list[float]]:
        found = []
        for block, weight in zip(form["stack"][which][:held], form["weight"][which], strict=False):
            by, count = weight / form["sums"][block], form["lengths"][block]
            columns = (form[name][block][:count] for name in ("starts", "masses", "visits"))
            own = [[start, mass * by, seen] for start, mass, seen in zip(*columns, strict=True)]
            found += own if which == 0 else own[::-1]
        return found + [[start, mass * (unit / scales[which]), seen] for start, mass, seen in near]

    return {
        "last": last,
        "located": [cell, here, visits],
        "sides": [left, here, right],
        "scales": scales,
        "left": side(0, held_left, rows[0][:at], unit_left),
        "right": side(1, held_right, rows[0][:at:-1], unit_right),
    }

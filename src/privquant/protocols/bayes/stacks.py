"""BayesLearn's posterior in pieces, at a cost a report that does not depend on how many cells there are.

After t reports the posterior has at most 2t+1 pieces of constant density. A report multiplies everything left
of the current cell by one factor and everything right of it by another, and the next cell is near. So the
pieces lie in blocks, one of them open: closed blocks stand in two stacks, left and right of the open one, each
stack with ONE lazy scale and the prefix sums of its blocks from the far end. The open block keeps its two
halves in units of their own, so that a report is a handful of multiplications and no pass over the block unless
the cell moves. Finding the point of mass q hops whole blocks from stack to stack in O(1) each, and looks into
one block.

Masses are only ever added and multiplied, never made by taking one from another, so that a side of mass 1e-200
keeps all its digits and a wrong phase can be recovered from.

The posterior is always located: after every update the cell at mass q is isolated as a piece of its own. Its
whole state is then a function of the updates alone, not of when somebody looked.

The protocol object runs these functions as they are, on lists (`posterior`); the lab's engine compiles them, on
arrays.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from privquant._numba import shared
from privquant.protocols.bayes.blocks import (
    BLOCK,
    KERNEL,
    close_slots,
    make_room,
    move_end,
    scale_slots,
    slot_at,
    sums_around,
)

# A mass this far below the rest cannot matter, but must not become zero: zero never recovers.
FLOOR = 1e-280
# A factor outside of these is multiplied in. Two of them, and a mass at the floor, still are no zero that matters.
SMALL, LARGE = 1e-50, 1e50
_BELOW_2_63 = float(2**63 - 1024)  # the largest float that an integer of 64 bits can be made from

SIDE_LEFT, SIDE_RIGHT = 0, 1
# Of `Stacks.number`; SCALE and UNIT plus the side.
SCALE, UNIT, LEFT, HERE, RIGHT = 0, 2, 4, 5, 6
# Of `Stacks.count`; HELD plus the side.
HELD, OPEN, LENGTH, AT, MADE, LAST = 0, 2, 3, 4, 5, 6


class Stacks(NamedTuple):
    """Lists, or arrays of the same shape. Blocks go by their number; a row a block, or a row a side.

    number:  of each side the scale of its stack, then of each the unit of its half of the open block; the masses
             left of the located cell, of it, and right of it, in the common unit.
    count:   of each side the closed blocks; the open block, its length, the place of the located cell in it (whose
             mass stands in `number`, not in its slot); blocks made so far; the last cell.
    starts, masses, visits:  of a block's pieces the first cell, the mass in the block's unit, and how often a piece
             of one cell was visited. No rows of visits: they are not counted.
    lengths, sums:  of a closed block.
    stack, weight, prefix:  of a side its blocks, farthest first, their masses in units of its scale, and the sums
             of these.
    """

    number: Any
    count: Any
    starts: Any
    masses: Any
    visits: Any
    lengths: Any
    sums: Any
    stack: Any
    weight: Any
    prefix: Any


@shared(**KERNEL)
def begin(p: Stacks, last: int, q: float, first: int) -> None:
    """Uniform over the cells 0 .. last, located at mass q, or at `first` unless that is negative."""
    for k in range(7):
        p.number[k] = 0.0 if k in (LEFT, RIGHT) else 1.0
        p.count[k] = 0
    p.count[LENGTH] = 1
    p.count[MADE] = 1
    p.count[LAST] = last
    p.prefix[SIDE_LEFT][0] = 0.0
    p.prefix[SIDE_RIGHT][0] = 0.0
    p.starts[0][0] = 0
    for k in range(BLOCK):
        p.masses[0][k] = 0.0
        if len(p.visits) > 0:
            p.visits[0][k] = 0
    _isolate(p, _cell_at(p, q) if first < 0 else first)


# -- updates -----------------------------------------------------------------------------------------------------


@shared(**KERNEL)
def cut(p: Stacks, q: float, by_left: float, by_right: float) -> None:
    """The text's update: the located cell is cut at mass q, its parts go with their sides."""
    left, here, right = p.number[LEFT], p.number[HERE], p.number[RIGHT]
    part = min(max(q * (left + here + right) - left, 0.0), here)
    multiply(p, by_left, by_right, by_left * part + by_right * (here - part))
    locate(p, q)


@shared(**KERNEL)
def split(p: Stacks, q: float, boundary: int, by_left: float, by_right: float) -> None:
    """The two-region update: cells up to `boundary` by one factor, all beyond it by the other."""
    if boundary < 0 or boundary >= p.count[LAST]:
        return  # everything by one factor, which normalising takes out again
    cell = located(p)
    if boundary != cell and boundary != cell - 1:
        _go(p, boundary)
        cell = boundary
    multiply(p, by_left, by_right, p.number[HERE] * (by_left if cell <= boundary else by_right))
    locate(p, q)


@shared(**KERNEL)
def multiply(p: Stacks, by_left: float, by_right: float, here: float) -> None:
    """What lies left and right of the located cell by a factor, and the cell's own new mass. `locate` after it."""
    p.number[LEFT] *= by_left
    p.number[HERE] = here
    p.number[RIGHT] *= by_right
    p.number[SCALE + SIDE_LEFT] *= by_left
    p.number[UNIT + SIDE_LEFT] *= by_left
    p.number[SCALE + SIDE_RIGHT] *= by_right
    p.number[UNIT + SIDE_RIGHT] *= by_right


# -- the located cell --------------------------------------------------------------------------------------------


@shared(**KERNEL)
def located(p: Stacks) -> int:
    """The located cell."""
    return p.starts[p.count[OPEN]][p.count[AT]]  # type: ignore[no-any-return]


@shared(**KERNEL)
def locate(p: Stacks, q: float) -> None:
    """Isolate the cell at mass q."""
    number = p.number
    if not (
        SMALL < number[SCALE] < LARGE
        and SMALL < number[SCALE + 1] < LARGE
        and SMALL < number[UNIT] < LARGE
        and SMALL < number[UNIT + 1] < LARGE
    ):
        _multiply_in(p)
    upto = number[LEFT] + number[HERE]
    total = upto + number[RIGHT]
    if number[LEFT] >= q * total or upto < q * total:
        _move(p, q * total, (1.0 - q) * total)
        _isolate(p, _cell_at(p, q))


@shared(**KERNEL)
def _end(p: Stacks) -> int:
    """The last cell of the located piece."""
    count = p.count
    after = count[AT] + 1
    if after < count[LENGTH]:
        return p.starts[count[OPEN]][after] - 1  # type: ignore[no-any-return]
    held = count[HELD + SIDE_RIGHT]
    if held > 0:
        return p.starts[p.stack[SIDE_RIGHT][held - 1]][0] - 1  # type: ignore[no-any-return]
    return count[LAST]  # type: ignore[no-any-return]


@shared(**KERNEL)
def _cell_at(p: Stacks, q: float) -> int:
    """The cell of the located piece at which mass q is reached."""
    start = located(p)
    spare = _end(p) - start  # one less than the number of cells: 2^63 does not fit
    if spare == 0:
        return start
    left, here = p.number[LEFT], p.number[HERE]
    part = min(max(q * (left + here + p.number[RIGHT]) - left, 0.0), here)
    units = part / (here / (float(spare) + 1.0))
    place = int(min(units, _BELOW_2_63))
    if place > 0 and place >= units:
        place -= 1
    return start + min(place, spare)


@shared(**KERNEL)
def _isolate(p: Stacks, cell: int) -> None:
    """Make `cell`, inside the located piece, a piece of its own and locate there."""
    number, count = p.number, p.count
    below, above = cell - located(p), _end(p) - cell
    more = (1 if below > 0 else 0) + (1 if above > 0 else 0)
    if more == 0:
        return
    if count[LENGTH] + 2 > BLOCK:
        _halve(p)
    block, at, length = count[OPEN], count[AT], count[LENGTH]
    starts, masses = p.starts[block], p.masses[block]
    make_room(starts, at + 1, length, more)
    make_room(masses, at + 1, length, more)
    if len(p.visits) > 0:
        make_room(p.visits[block], at + 1, length, more)
        for k in range(at, at + more + 1):
            p.visits[block][k] = 0
    unit = number[HERE] / (float(below) + float(above) + 1.0)
    if below > 0:
        masses[at] = unit * float(below) / number[UNIT + SIDE_LEFT]
        number[LEFT] += unit * float(below)
        at += 1
        starts[at] = cell
    masses[at] = 0.0
    if above > 0:
        starts[at + 1] = cell + 1
        masses[at + 1] = unit * float(above) / number[UNIT + SIDE_RIGHT]
        number[RIGHT] += unit * float(above)
    number[HERE] = unit
    count[AT] = at
    count[LENGTH] = length + more


@shared(**KERNEL)
def _halve(p: Stacks) -> None:
    """Close the half of the open block without the located piece. The upper one becomes a block of its own."""
    count = p.count
    block, fresh, length = count[OPEN], count[MADE], count[LENGTH]
    half = length // 2
    move_end(p.starts[block], half, p.starts[fresh])
    move_end(p.masses[block], half, p.masses[fresh])
    if len(p.visits) > 0:
        move_end(p.visits[block], half, p.visits[fresh])
    count[MADE] = fresh + 1
    side, closed = (SIDE_RIGHT, fresh) if count[AT] < half else (SIDE_LEFT, block)
    p.lengths[closed] = length - half if closed == fresh else half
    count[LENGTH] = half if closed == fresh else length - half
    if closed == block:
        count[OPEN] = fresh
        count[AT] -= half
    masses = p.masses[closed]
    _push(p, side, closed, masses[0] + sums_around(masses, 0)[1], p.number[UNIT + side])
    _read_sides(p)


@shared(**KERNEL)
def _read_sides(p: Stacks) -> None:
    """The masses left and right of the located piece, anew."""
    number, count = p.number, p.count
    before, after = sums_around(p.masses[count[OPEN]], count[AT])
    left = p.prefix[SIDE_LEFT][count[HELD + SIDE_LEFT]] * number[SCALE + SIDE_LEFT]
    right = p.prefix[SIDE_RIGHT][count[HELD + SIDE_RIGHT]] * number[SCALE + SIDE_RIGHT]
    number[LEFT] = left + before * number[UNIT + SIDE_LEFT]
    number[RIGHT] = right + after * number[UNIT + SIDE_RIGHT]


@shared(**KERNEL)
def _multiply_in(p: Stacks) -> None:
    """Bring every mass to the common unit of a whole of one, with a floor, and the prefix sums anew."""
    number, count = p.number, p.count
    share = 1.0 / (number[LEFT] + number[HERE] + number[RIGHT])
    masses = p.masses[count[OPEN]]
    for side in range(2):
        total = 0.0
        weight, prefix = p.weight[side], p.prefix[side]
        by = number[SCALE + side] * share
        for k in range(count[HELD + side]):
            weight[k] = max(weight[k] * by, FLOOR)
            total += weight[k]
            prefix[k + 1] = total
        by = number[UNIT + side] * share
        first, end = (0, count[AT]) if side == SIDE_LEFT else (count[AT] + 1, count[LENGTH])
        for k in range(first, end):
            masses[k] = max(masses[k] * by, FLOOR)
        number[SCALE + side] = 1.0
        number[UNIT + side] = 1.0
    number[HERE] = max(number[HERE] * share, FLOOR)
    _read_sides(p)


# -- moving ------------------------------------------------------------------------------------------------------


@shared(**KERNEL)
def _move(p: Stacks, target: float, beyond: float) -> None:
    """Locate the piece at which the mass `target` is reached from the left, or `beyond` from the right."""
    number, count = p.number, p.count
    left, right = count[HELD + SIDE_LEFT], count[HELD + SIDE_RIGHT]
    hops_left = left > 0 and p.prefix[SIDE_LEFT][left] * number[SCALE + SIDE_LEFT] >= target
    hops_right = right > 0 and p.prefix[SIDE_RIGHT][right] * number[SCALE + SIDE_RIGHT] > beyond
    hops = hops_left or hops_right
    if hops:
        _hop(p, SIDE_LEFT if hops_left else SIDE_RIGHT, target if hops_left else beyond)
    masses, to = p.masses[count[OPEN]], count[AT]
    if hops:
        to = slot_at(masses, count[LENGTH] - 1, (target - number[LEFT]) / number[UNIT + SIDE_LEFT])
    elif number[LEFT] >= target:
        passed = 0.0
        excess = (number[LEFT] - target) / number[UNIT + SIDE_LEFT]
        while to > 0 and passed <= excess:
            to -= 1
            passed += masses[to]
    else:
        passed, unit, last = number[LEFT] + number[HERE], number[UNIT + SIDE_RIGHT], count[LENGTH] - 1
        while to < last and passed < target:
            to += 1
            passed += masses[to] * unit
    _walk(p, to)
    _read_sides(p)


@shared(**KERNEL)
def _go(p: Stacks, cell: int) -> None:
    """Isolate a cell, wherever the mass lies."""
    count, stack = p.count, p.stack
    while cell < p.starts[count[OPEN]][0]:
        _hop(p, SIDE_LEFT, math.inf)
    while count[HELD + SIDE_RIGHT] > 0 and cell >= p.starts[stack[SIDE_RIGHT][count[HELD + SIDE_RIGHT] - 1]][0]:
        _hop(p, SIDE_RIGHT, math.inf)
    to = count[LENGTH] - 1
    while p.starts[count[OPEN]][to] > cell:
        to -= 1
    _walk(p, to)
    _read_sides(p)
    _isolate(p, cell)


@shared(**KERNEL)
def _walk(p: Stacks, to: int) -> None:
    """Make another piece of the open block the located one; what is passed changes sides, and so its unit."""
    number, count = p.number, p.count
    masses, at = p.masses[count[OPEN]], count[AT]
    unit_left, unit_right = number[UNIT + SIDE_LEFT], number[UNIT + SIDE_RIGHT]
    if to < at:
        masses[at] = number[HERE] / unit_right
        number[HERE] = masses[to] * unit_left
        scale_slots(masses, to + 1, at, unit_left / unit_right)
    elif to > at:
        masses[at] = number[HERE] / unit_left
        number[HERE] = masses[to] * unit_right
        if unit_left != unit_right:  # they are one in a block opened just now
            scale_slots(masses, at + 1, to, unit_right / unit_left)
    count[AT] = to


@shared(**KERNEL)
def _hop(p: Stacks, side: int, limit: float) -> None:
    """Open the block of a side that reaches a mass, counted from the far end, located at its first piece.

    Between two blocks it is the left one; where no block reaches the mass, the nearest.
    """
    number, count = p.number, p.count
    block, unit = count[OPEN], number[UNIT + SIDE_RIGHT]
    total = close_slots(p.masses[block], count[AT], number[HERE] / unit, number[UNIT + SIDE_LEFT] / unit)
    p.lengths[block] = count[LENGTH]
    _push(p, 1 - side, block, total, unit)
    stack, weight, prefix = p.stack[side], p.weight[side], p.prefix[side]
    other_stack, other_weight, other_prefix = p.stack[1 - side], p.weight[1 - side], p.prefix[1 - side]
    ratio = number[SCALE + side] / number[SCALE + 1 - side]
    limit /= number[SCALE + side]
    top, held = count[HELD + side] - 1, count[HELD + 1 - side]
    total = other_prefix[held]
    while top > 0 and (prefix[top] > limit or (side == SIDE_LEFT and prefix[top] == limit)):
        moved = weight[top] * ratio
        total += moved
        other_stack[held] = stack[top]
        other_weight[held] = moved
        held += 1
        other_prefix[held] = total
        top -= 1
    count[HELD + 1 - side] = held
    block = stack[top]
    unit = weight[top] * number[SCALE + side] / p.sums[block]
    number[UNIT + SIDE_LEFT] = unit
    number[UNIT + SIDE_RIGHT] = unit
    count[HELD + side] = top
    count[OPEN] = block
    count[LENGTH] = p.lengths[block]
    count[AT] = 0
    number[HERE] = p.masses[block][0] * unit
    number[LEFT] = p.prefix[SIDE_LEFT][count[HELD + SIDE_LEFT]] * number[SCALE + SIDE_LEFT]


@shared(**KERNEL)
def _push(p: Stacks, side: int, block: int, total: float, unit: float) -> None:
    """Close a block with masses of one unit, on top of a stack."""
    p.sums[block] = total
    weight = total * unit / p.number[SCALE + side]
    held = p.count[HELD + side]
    p.stack[side][held] = block
    p.weight[side][held] = weight
    p.prefix[side][held + 1] = p.prefix[side][held] + weight
    p.count[HELD + side] = held + 1

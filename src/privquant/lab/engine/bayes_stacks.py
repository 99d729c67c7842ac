"""A posterior of millions of pieces for a kernel: the protocol's own (`protocols.bayes.posterior`) in blocks.

Moving piece by piece costs hundreds of moves a report at 10^7 users. Here the pieces lie in blocks, one of them
open: closed blocks stand in two stacks, left and right of the open one, each stack with one lazy scale and the
prefix sums of its blocks from the far end. The open block keeps its two halves in units of their own, so that a
report is a handful of multiplications and no pass over the block unless the cell moves. Finding the point of mass q
moves whole blocks from stack to stack in O(1) each, and looks into one block.
"""

from __future__ import annotations

from mmap import mmap
from typing import Any, NamedTuple

import numpy as np

from privquant._numba import njit
from privquant.arrays import Ints
from privquant.protocols.bayes.posterior import BELOW_2_63, FLOOR, LARGE, SMALL

BLOCK = 64
# Lanes need sums in any order; no NaN or infinity is assumed away. A call would hand over all arrays of the stacks
# one by one, so everything is inlined.
KERNEL: dict[str, Any] = {"always": True, "fastmath": {"reassoc", "contract", "nsz"}, "forceinline": True}

_U = np.uint64  # an index that cannot be negative needs no check
_LANES, _HALF = _U(BLOCK), _U(BLOCK // 2)

_LEFT, _RIGHT = 0, 1
_HEAD = np.dtype(
    [
        ("scale", np.float64, 2),
        ("unit", np.float64, 2),
        ("left", np.float64),
        ("here", np.float64),
        ("right", np.float64),
        ("held", np.int64, 2),
        ("open", np.int64),
        ("length", np.int64),
        ("at", np.int64),
        ("made", np.int64),
        ("last", np.int64),
        ("cell", np.int64),
    ]
)


class Stacks(NamedTuple):
    """Records, which numba hands on without counting references.

    head, of which there is one:
        scale, unit, held:  of each side the scale of its stack, the unit of its half of the open block, and the
                            number of its closed blocks.
        left, here, right:  the masses left of the located cell, of it, and right of it, in the common unit.
        open, length, at:   the open block, its length, and the place of the located cell in it (whose mass stands
                            in `here`, not in its slot).
        made, last, cell:   blocks made so far; the last cell; the first cell of the located piece.
    blocks, by their number:
        starts, masses, visits:  of its pieces the first cell, the mass in the block's unit, and how often a piece
                                 of one cell was visited. Two slots of visits: they are not counted. Slots beyond
                                 the pieces have no mass.
        length, sum:             of a closed block.
        stack, weight, prefix:   of a side's k-th block from the far end its number and its mass in units of the
                                 side's scale, and the mass of all before it.
    """

    head: Any
    blocks: Any


def new_stacks(users: int, cells: int, *, visits: bool) -> Stacks:
    """Room for 2t+1 pieces after t reports, and no more than there are cells, in blocks at least half full.

    In pages that are made one by one as blocks are: numpy asks for huge ones, made at a cost that a long run on few
    blocks never earns back.
    """
    kind = np.dtype(
        [
            ("starts", np.int64, BLOCK),
            ("masses", np.float64, BLOCK),
            ("visits", np.int32, BLOCK if visits else 2),
            ("length", np.int64),
            ("sum", np.float64),
            ("stack", np.int64, 2),
            ("weight", np.float64, 2),
            ("prefix", np.float64, 2),
        ]
    )
    blocks = min(2 * users + 1, cells) // (BLOCK // 2 - 2) + 17
    return Stacks(np.zeros(1, _HEAD), np.frombuffer(mmap(-1, kind.itemsize * blocks), kind))


def visited(stacks: Stacks) -> tuple[Ints, Ints]:
    """The visited cells in rising order, and how often each was."""
    head, p = stacks.head[0], stacks.blocks
    left, right = (p["stack"][: head["held"][side], side] for side in range(2))
    order = np.concatenate([left, [head["open"]], right[::-1]])
    counts = p["visits"][order].ravel()
    found = np.flatnonzero(counts)
    return p["starts"][order].ravel()[found], counts[found].astype(np.int64)


@njit(**KERNEL)
def begin(head: Any, p: Any, last: int, q: float, first: int) -> None:
    """Uniform over the cells 0 .. last, located at mass q, or at `first` unless that is negative."""
    for side in range(2):
        head.scale[side] = 1.0
        head.unit[side] = 1.0
        head.held[side] = 0
        p[0].prefix[side] = 0.0
    head.left = 0.0
    head.here = 1.0
    head.right = 0.0
    head.open = 0
    head.at = 0
    head.length = 1
    head.made = 1
    head.last = last
    p[0].starts[0] = 0
    for k in range(BLOCK):
        p[0].masses[k] = 0.0
        if p[0].visits.size == BLOCK:
            p[0].visits[k] = 0
    head.cell = 0
    _isolate(head, p, last, _cell_at(head, last, q) if first < 0 else first)


@njit(**KERNEL)
def update(head: Any, p: Any, q: float, by_left: float, by_right: float, here: float) -> None:
    """What lies left and right of the located cell by a factor, and the cell's own new mass; locate at mass q."""
    head.left *= by_left
    head.here = here
    head.right *= by_right
    head.scale[_LEFT] *= by_left
    head.unit[_LEFT] *= by_left
    head.scale[_RIGHT] *= by_right
    head.unit[_RIGHT] *= by_right
    for side in range(2):
        if not (SMALL < head.scale[side] < LARGE and SMALL < head.unit[side] < LARGE):
            _multiply_in(head, p)
    upto = head.left + head.here
    total = upto + head.right
    if head.left >= q * total or upto < q * total:
        _move(head, p, q * total, (1.0 - q) * total)
        end = _end(head, p)
        _isolate(head, p, end, _cell_at(head, end, q))


@njit(**KERNEL)
def _end(head: Any, p: Any) -> int:
    """The last cell of the located piece."""
    after, held = head.at + 1, head.held[_RIGHT]
    if after < head.length:
        return p[head.open].starts[after] - 1  # type: ignore[no-any-return]
    if held > 0:
        return p[p[held - 1].stack[_RIGHT]].starts[0] - 1  # type: ignore[no-any-return]
    return head.last  # type: ignore[no-any-return]


@njit(**KERNEL)
def _cell_at(head: Any, end: int, q: float) -> int:
    """The cell of the located piece, which ends with `end`, at which mass q is reached."""
    start: int = head.cell
    spare = end - start  # one less than the number of cells: 2^63 does not fit
    if spare == 0:
        return start
    left, here = head.left, head.here
    part = min(max(q * (left + here + head.right) - left, 0.0), here)
    units = part / (here / (float(spare) + 1.0))
    place = int(min(units, BELOW_2_63))
    if place > 0 and place >= units:
        place -= 1
    return start + min(place, spare)


@njit(**KERNEL)
def _isolate(head: Any, p: Any, end: int, cell: int) -> None:
    """Make `cell`, inside the located piece, which ends with `end`, a piece of its own and locate there."""
    below, above = cell - head.cell, end - cell
    more = (1 if below > 0 else 0) + (1 if above > 0 else 0)
    if more == 0:
        return
    if head.length + 2 > BLOCK:
        _halve(head, p)
    block, at, length = _U(head.open), head.at, head.length
    for k in range(length - 1, at, -1):
        p[block].starts[_U(k + more)] = p[block].starts[_U(k)]
        p[block].masses[_U(k + more)] = p[block].masses[_U(k)]
    if p[0].visits.size == BLOCK:
        for k in range(length - 1, at, -1):
            p[block].visits[_U(k + more)] = p[block].visits[_U(k)]
        for k in range(at, at + more + 1):
            p[block].visits[_U(k)] = 0
    unit = head.here / (float(below) + float(above) + 1.0)
    if below > 0:
        p[block].masses[_U(at)] = unit * float(below) / head.unit[_LEFT]
        head.left += unit * float(below)
        at += 1
        p[block].starts[_U(at)] = cell
    p[block].masses[_U(at)] = 0.0
    if above > 0:
        p[block].starts[_U(at + 1)] = cell + 1
        p[block].masses[_U(at + 1)] = unit * float(above) / head.unit[_RIGHT]
        head.right += unit * float(above)
    head.here = unit
    head.cell = cell
    head.at = at
    head.length = length + more


@njit(**KERNEL)
def _halve(head: Any, p: Any) -> None:
    """Close the half of the open block without the located piece. The upper one becomes a block of its own."""
    block, fresh, length = head.open, head.made, head.length
    half = length // 2
    for k in range(BLOCK):
        inside = half + k < length
        p[fresh].starts[k] = p[block].starts[half + k] if inside else 0
        p[fresh].masses[k] = p[block].masses[half + k] if inside else 0.0
        if p[0].visits.size == BLOCK:
            p[fresh].visits[k] = p[block].visits[half + k] if inside else 0
    for k in range(half, BLOCK):
        p[block].masses[k] = 0.0
        if p[0].visits.size == BLOCK:
            p[block].visits[k] = 0
    head.made = fresh + 1
    side, closed = (_RIGHT, fresh) if head.at < half else (_LEFT, block)
    p[closed].length = length - half if closed == fresh else half
    head.length = half if closed == fresh else length - half
    if closed == block:
        head.open = fresh
        head.at -= half
    _push(head, p, side, closed, p[closed].masses[0] + _sums_around(p[closed], 0)[1], head.unit[side])
    _read_sides(head, p)


@njit(**KERNEL)
def _sums_around(block: Any, at: int) -> tuple[float, float]:
    """The sums before and after a slot."""
    before, before_high, after, after_high = 0.0, 0.0, 0.0, 0.0
    here = _U(at)
    for k in range(_HALF):  # two chains of additions a sum, or each would wait for the one before it
        mass, high = block.masses[k], block.masses[k + _HALF]
        before += mass if k < here else 0.0
        before_high += high if k + _HALF < here else 0.0
        after += mass if k > here else 0.0
        after_high += high if k + _HALF > here else 0.0
    return before + before_high, after + after_high


@njit(**KERNEL)
def _read_sides(head: Any, p: Any) -> None:
    """The masses left and right of the located piece, anew."""
    before, after = _sums_around(p[_U(head.open)], head.at)
    left = p[head.held[_LEFT]].prefix[_LEFT] * head.scale[_LEFT]
    right = p[head.held[_RIGHT]].prefix[_RIGHT] * head.scale[_RIGHT]
    head.left = left + before * head.unit[_LEFT]
    head.right = right + after * head.unit[_RIGHT]


@njit(**KERNEL)
def _multiply_in(head: Any, p: Any) -> None:
    """Bring every mass to the common unit of a whole of one, with a floor, and the prefix sums anew."""
    share = 1.0 / (head.left + head.here + head.right)
    block = head.open
    for side in range(2):
        total = 0.0
        by = head.scale[side] * share
        for k in range(head.held[side]):
            p[k].weight[side] = max(p[k].weight[side] * by, FLOOR)
            total += p[k].weight[side]
            p[k + 1].prefix[side] = total
        by = head.unit[side] * share
        first, end = (0, head.at) if side == _LEFT else (head.at + 1, head.length)
        for k in range(first, end):
            p[block].masses[k] = max(p[block].masses[k] * by, FLOOR)
        head.scale[side] = 1.0
        head.unit[side] = 1.0
    head.here = max(head.here * share, FLOOR)
    _read_sides(head, p)


@njit(**KERNEL)
def _move(head: Any, p: Any, target: float, beyond: float) -> None:
    """Locate the piece at which the mass `target` is reached from the left, or `beyond` from the right."""
    left, right = head.held[_LEFT], head.held[_RIGHT]
    hops_left = left > 0 and p[left].prefix[_LEFT] * head.scale[_LEFT] >= target
    hops_right = right > 0 and p[right].prefix[_RIGHT] * head.scale[_RIGHT] > beyond
    if hops_left or hops_right:
        _hop(head, p, _LEFT if hops_left else _RIGHT, target if hops_left else beyond)
    block, to, last = _U(head.open), head.at, head.length - 1
    if head.left >= target:
        passed, excess = 0.0, (head.left - target) / head.unit[_LEFT]
        while to > 0 and passed <= excess:
            to -= 1
            passed += p[block].masses[_U(to)]
    else:
        passed, wanted = head.here, target - head.left
        unit = head.unit[_RIGHT]
        passed, wanted = passed / unit, wanted / unit
        while to < last and passed < wanted:
            to += 1
            passed += p[block].masses[_U(to)]
    _walk(head, p[block], to)
    _read_sides(head, p)


@njit(**KERNEL)
def _walk(head: Any, block: Any, to: int) -> None:
    """Make another piece of the open block the located one; what is passed changes sides, and so its unit."""
    at = head.at
    if to == at:
        return
    side = _LEFT if to < at else _RIGHT
    unit, other = head.unit[side], head.unit[1 - side]
    block.masses[_U(at)] = head.here / other
    head.here = block.masses[_U(to)] * unit
    if unit != other:  # they are one in a block opened just now
        for k in range(min(at, to) + 1, max(at, to)):
            block.masses[_U(k)] *= unit / other
    head.at = to
    head.cell = block.starts[_U(to)]


@njit(**KERNEL)
def _hop(head: Any, p: Any, side: int, limit: float) -> None:
    """Open the block of a side that reaches a mass, counted from the far end, located at its first piece.

    Between two blocks it is the left one; where no block reaches the mass, the nearest.
    """
    other, block, unit = 1 - side, head.open, head.unit[_RIGHT]
    p[block].length = head.length
    _push(head, p, other, block, _close(p[block], head.at, head.here / unit, head.unit[_LEFT] / unit), unit)
    ratio = head.scale[side] / head.scale[other]
    limit /= head.scale[side]
    top, held = head.held[side] - 1, head.held[other]
    total = p[held].prefix[other]
    while top > 0 and (p[top].prefix[side] > limit or (side == _LEFT and p[top].prefix[side] == limit)):
        moved = p[top].weight[side] * ratio
        total += moved
        p[held].stack[other] = p[top].stack[side]
        p[held].weight[other] = moved
        held += 1
        p[held].prefix[other] = total
        top -= 1
    head.held[other] = held
    block = p[top].stack[side]
    unit = p[top].weight[side] * head.scale[side] / p[block].sum
    head.unit[_LEFT] = unit
    head.unit[_RIGHT] = unit
    head.held[side] = top
    head.open = block
    head.length = p[block].length
    head.at = 0
    head.cell = p[block].starts[0]
    head.here = p[block].masses[0] * unit
    head.left = p[head.held[_LEFT]].prefix[_LEFT] * head.scale[_LEFT]


@njit(**KERNEL)
def _close(block: Any, at: int, here: float, ratio: float) -> float:
    """Put the located piece's mass into its slot and bring those before it to the unit of the rest; the sum."""
    total = 0.0
    slot = _U(at)
    block.masses[slot] = here
    for k in range(_LANES):
        mass = block.masses[k] * (ratio if k < slot else 1.0)
        block.masses[k] = mass
        total += mass
    return total


@njit(**KERNEL)
def _push(head: Any, p: Any, side: int, block: int, total: float, unit: float) -> None:
    """Close a block with masses of one unit, on top of a stack."""
    p[block].sum = total
    weight = total * unit / head.scale[side]
    held = head.held[side]
    p[held].stack[side] = block
    p[held].weight[side] = weight
    p[held + 1].prefix[side] = p[held].prefix[side] + weight
    head.held[side] = held + 1

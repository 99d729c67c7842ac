"""A posterior of millions of pieces for a kernel: the protocol's own (`protocols.bayes.posterior`) in blocks.

Moving piece by piece costs hundreds of moves a report at 10^7 users. Here the pieces lie in blocks, one of them
open: closed blocks stand in two stacks, left and right of the open one, each stack with one lazy scale and the
prefix sums of its blocks from the far end. Finding the point of mass q moves whole blocks from stack to stack in
O(1) each, and looks into one block.
"""

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
        *((name, np.float64) for name in ("left", "here", "right")),
        ("held", np.int64, 2),
        *((name, np.int64) for name in ("open", "length", "at", "made", "last", "cell")),
    ]
)


class Stacks(NamedTuple):
    """Records, which numba hands on without counting references.

    head, of which there is one:
        scale, held:        of each side the scale of its stack and the number of its closed blocks.
        left, here, right:  the masses left of the located piece, of it, and right of it, in a common unit.
        open, length, at:   the open block, its length, and the place of the located piece in it.
        made, last, cell:   blocks made so far; the last cell; the first cell of the located piece.
    blocks, by their number:
        starts, masses, visits:  of its pieces the first cell, the mass (of a closed block in its own unit), and
                                 how often a piece of one cell was visited. Two slots of visits: they are not
                                 counted. Slots beyond the pieces have no mass.
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
        head.held[side] = 0
        p[0].prefix[side] = 0.0
    for k in range(BLOCK):
        p[0].masses[k] = 0.0
        if p[0].visits.size == BLOCK:
            p[0].visits[k] = 0
    p[0].starts[0] = 0
    p[0].masses[0] = 1.0
    head.left = 0.0
    head.here = 1.0
    head.right = 0.0
    head.open = 0
    head.length = 1
    head.at = 0
    head.made = 1
    head.last = last
    head.cell = 0
    _isolate(head, p, last, _cell_at(head, last, q) if first < 0 else first)


@njit(**KERNEL)
def update(head: Any, p: Any, q: float, by_left: float, by_right: float, here: float) -> None:
    """What lies left and right of the located cell by a factor, and the cell's own new mass; locate at mass q."""
    head.scale[_LEFT] *= by_left
    head.scale[_RIGHT] *= by_right
    _multiply(p[_U(head.open)], head.at, head.length, by_left, here, by_right)
    head.left *= by_left
    head.here = here
    head.right *= by_right
    total = head.left + here + head.right
    if not (SMALL < head.scale[_LEFT] < LARGE and SMALL < head.scale[_RIGHT] < LARGE and SMALL < total < LARGE):
        _normalise(head, p, 1.0 / total)
        total = head.left + head.here + head.right
    if head.left >= q * total or head.left + head.here < q * total:
        _move(head, p, q * total, (1.0 - q) * total)
        end = _end(head, p)
        _isolate(head, p, end, _cell_at(head, end, q))


@njit(**KERNEL)
def _multiply(block: Any, at: int, length: int, by_left: float, here: float, by_right: float) -> None:
    """The pieces before and after one by a factor each, with a floor, and its own new mass."""
    slot, used = _U(at), _U(length)
    for k in range(_LANES):
        mass = max(block.masses[k] * (by_left if k < slot else by_right), FLOOR)
        block.masses[k] = mass if k < used else 0.0
    block.masses[slot] = here


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
        p[block].masses[_U(at)] = unit * float(below)
        head.left += unit * float(below)
        at += 1
        p[block].starts[_U(at)] = cell
    p[block].masses[_U(at)] = unit
    if above > 0:
        p[block].starts[_U(at + 1)] = cell + 1
        p[block].masses[_U(at + 1)] = unit * float(above)
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
    _push(head, p, side, closed)
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
    """The masses left of the located piece, of it, and right of it, anew."""
    before, after = _sums_around(p[_U(head.open)], head.at)
    head.left = p[head.held[_LEFT]].prefix[_LEFT] * head.scale[_LEFT] + before
    head.here = p[_U(head.open)].masses[_U(head.at)]
    head.right = p[head.held[_RIGHT]].prefix[_RIGHT] * head.scale[_RIGHT] + after


@njit(**KERNEL)
def _normalise(head: Any, p: Any, share: float) -> None:
    """Every mass by a factor, with a floor, and the scales one."""
    for side in range(2):
        by, total = head.scale[side] * share, 0.0
        for k in range(head.held[side]):
            p[k].weight[side] = max(p[k].weight[side] * by, FLOOR)
            total += p[k].weight[side]
            p[k + 1].prefix[side] = total
        head.scale[side] = 1.0
    _multiply(p[head.open], head.at, head.length, share, max(head.here * share, FLOOR), share)
    _read_sides(head, p)


@njit(**KERNEL)
def _move(head: Any, p: Any, target: float, beyond: float) -> None:
    """Locate the piece at which the mass `target` is reached from the left, or `beyond` from the right."""
    left, right = head.held[_LEFT], head.held[_RIGHT]
    if left > 0 and p[left].prefix[_LEFT] * head.scale[_LEFT] >= target:
        _hop(head, p, _LEFT, target)
    elif right > 0 and p[right].prefix[_RIGHT] * head.scale[_RIGHT] > beyond:
        _hop(head, p, _RIGHT, beyond)
    block, to = _U(head.open), head.at
    if head.left >= target:
        passed, excess = 0.0, head.left - target
        while to > 0 and passed <= excess:
            to -= 1
            passed += p[block].masses[_U(to)]
    else:
        passed, last = head.left + head.here, head.length - 1
        while to < last and passed < target:
            to += 1
            passed += p[block].masses[_U(to)]
    head.at = to
    head.cell = p[block].starts[_U(to)]
    _read_sides(head, p)


@njit(**KERNEL)
def _hop(head: Any, p: Any, side: int, limit: float) -> None:
    """Open the block of a side that reaches a mass, counted from the far end, located at its first piece.

    Between two blocks it is the left one; where no block reaches the mass, the nearest.
    """
    other = 1 - side
    p[head.open].length = head.length
    _push(head, p, other, head.open)
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
    head.held[side] = top
    head.held[other] = held
    block = p[top].stack[side]
    unit = p[top].weight[side] * head.scale[side] / p[block].sum
    head.open = block
    head.length = p[block].length
    head.at = 0
    _multiply(p[block], 0, head.length, unit, p[block].masses[0] * unit, unit)
    head.here = p[block].masses[0]
    head.left = p[head.held[_LEFT]].prefix[_LEFT] * head.scale[_LEFT]


@njit(**KERNEL)
def _push(head: Any, p: Any, side: int, block: int) -> None:
    """Close a block with masses in the common unit, on top of a stack."""
    total = p[block].masses[0] + _sums_around(p[block], 0)[1]
    weight = total / head.scale[side]
    held = head.held[side]
    p[block].sum = total
    p[held].stack[side] = block
    p[held].weight[side] = weight
    p[held + 1].prefix[side] = p[held].prefix[side] + weight
    head.held[side] = held + 1

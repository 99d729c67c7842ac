"""BayesLearn's posterior for millions of users: `privquant.protocols.bayes.posterior` as one kernel.

The same blocked two stacks, with what a kernel needs on top: blocks of 64 padded with zeros, so that sums
over a block are loops of fixed length; the open block keeps its two halves in units of their own
(`unit_left`, `unit_right`), so that a report costs a handful of multiplications and no pass over the block
unless the finger moves.

Masses are only added and multiplied. A scale that leaves [1e-100, 1e100] is folded in, with a floor under
every mass, and the prefix sums are made anew.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privquant._numba import njit
from privquant.lab.engine.blocks import (
    BLOCK,
    FAST,
    FLOOR,
    around,
    block_sum,
    closed_sum,
    copy,
    eight,
    fold,
    read_out,
    shift,
)
from privquant.lab.engine.random import step

_LARGE, _SMALL = 1e100, 1e-100
_U = np.uint64


def capacity(users: int, cells: int) -> int:
    """Blocks that suffice: 2t+1 pieces after t reports, and no more than there are cells, in blocks half full."""
    return min(2 * users + 1, cells) // (BLOCK // 2 - 2) + 16


@njit(cache=True, fastmath=FAST, error_model="numpy")
def learn(
    values: Any,
    start: int,
    stop: int,
    last: int,
    channel: Any,
    flip: Any,
    state: Any,
    left_only: bool,
    middle: bool,
    two_regions: bool,
    lows: Any,
    highs: Any,
    bottom: int,
    top: int,
    blocks: int,
    count: bool,
    path: Any,
) -> Any:
    """Ask the users values[start:stop] one by one.

    Cells are 0 .. last. channel is (q, d_{0,0}, d_{1,0}, d_{0,1}, d_{1,1}). lows and highs are the thresholds at
    the cells' ends; where they are empty, those of cell i are i + bottom - 1 and i + bottom, kept within
    0 .. top. left_only, middle, two_regions: coin_rule="published", first_step="middle", update="counts".
    count: whether visits are counted, which a quarter of the memory is for. `path`, unless empty, takes the cell of
    every step.

    Returns the visited cells in rising order, how often each was visited, and the posterior's median.
    """
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    q, left0, left1, right0, right1 = channel[0], channel[1], channel[2], channel[3], channel[4]
    starts = np.empty(blocks * BLOCK, np.int64)
    masses = np.empty(blocks * BLOCK, np.float64)
    visits = np.empty(blocks * BLOCK if count else 1, np.int32)
    lengths = np.empty(blocks, np.int64)
    sums = np.empty(blocks, np.float64)  # of a closed block, in its own unit
    l_block, l_weight, l_prefix = np.empty(blocks, np.int64), np.empty(blocks), np.empty(blocks + 1)
    r_block, r_weight, r_prefix = np.empty(blocks, np.int64), np.empty(blocks), np.empty(blocks + 1)
    l_prefix[0] = 0.0
    r_prefix[0] = 0.0
    l_count, r_count, made = 0, 0, 1
    l_scale, r_scale = 1.0, 1.0
    # The open block: its number, first slot, length, and the place of the located piece.
    block, base, length, at = 0, 0, 1, 0
    unit_left, unit_right = 1.0, 1.0
    before, after = 0.0, 0.0  # masses of the open block on either side of the located piece
    here = 1.0  # mass of the located piece, in the common unit
    starts[0] = 0
    visits[0] = 0
    masses[:BLOCK] = 0.0
    masses[0] = 1.0
    cell, end = np.int64(0), np.int64(last)
    mapped = lows.shape[0] > 0
    follow = path.shape[0] > 0
    for i in range(start, stop):
        l_out = l_prefix[_U(l_count)] * l_scale
        r_out = r_prefix[_U(r_count)] * r_scale
        left = l_out + before
        total = left + here + after + r_out
        target = q * total
        if left >= target or left + here < target:
            go_left = l_out >= target and l_count > 0
            go_right = not go_left and left + here + after < target and r_count > 0
            if go_left or go_right:
                # Close the open block and hop whole blocks until the target lies in one.
                masses[_U(base + at)] = here / unit_right
                weight = closed_sum(masses, base, at, unit_left / unit_right)
                sums[_U(block)] = weight
                lengths[_U(block)] = length
                weight *= unit_right
                if go_left:
                    ratio = l_scale / r_scale
                    weight /= r_scale
                    acc = r_prefix[_U(r_count)] + weight
                    r_block[_U(r_count)] = block
                    r_weight[_U(r_count)] = weight
                    r_count += 1
                    r_prefix[_U(r_count)] = acc
                    l_count -= 1
                    limit = target / l_scale
                    while l_count > 0 and l_prefix[_U(l_count)] >= limit:
                        weight = l_weight[_U(l_count)] * ratio
                        acc += weight
                        r_block[_U(r_count)] = l_block[_U(l_count)]
                        r_weight[_U(r_count)] = weight
                        r_count += 1
                        r_prefix[_U(r_count)] = acc
                        l_count -= 1
                    block = l_block[_U(l_count)]
                    unit_left = l_weight[_U(l_count)] * l_scale / sums[_U(block)]
                else:
                    ratio = r_scale / l_scale
                    weight /= l_scale
                    acc = l_prefix[_U(l_count)] + weight
                    l_block[_U(l_count)] = block
                    l_weight[_U(l_count)] = weight
                    l_count += 1
                    l_prefix[_U(l_count)] = acc
                    r_count -= 1
                    limit = (1.0 - q) * total / r_scale
                    while r_count > 0 and r_prefix[_U(r_count)] > limit:
                        weight = r_weight[_U(r_count)] * ratio
                        acc += weight
                        l_block[_U(l_count)] = r_block[_U(r_count)]
                        l_weight[_U(l_count)] = weight
                        l_count += 1
                        l_prefix[_U(l_count)] = acc
                        r_count -= 1
                    block = r_block[_U(r_count)]
                    unit_left = r_weight[_U(r_count)] * r_scale / sums[_U(block)]
                unit_right = unit_left
                base = block * BLOCK
                length = lengths[_U(block)]
                l_out = l_prefix[_U(l_count)] * l_scale
                wanted = (target - l_out) / unit_left
                acc = 0.0
                at = 0
                while at + 8 < length:
                    together = eight(masses, base + at)
                    if acc + together >= wanted:
                        break
                    acc += together
                    at += 8
                while at < length - 1 and acc + masses[_U(base + at)] < wanted:
                    acc += masses[_U(base + at)]
                    at += 1
                before, after = around(masses, base, at)
                before *= unit_left
                after *= unit_left
                here = masses[_U(base + at)] * unit_left
            elif left >= target:
                # Walk left inside the open block; what is passed changes sides, and so its unit.
                ratio = unit_left / unit_right
                masses[_U(base + at)] = here / unit_right
                excess = (left - target) / unit_left
                acc = 0.0
                while at > 0 and acc <= excess:
                    at -= 1
                    acc += masses[_U(base + at)]
                    masses[_U(base + at)] *= ratio
                here = masses[_U(base + at)] * unit_right
                before, after = around(masses, base, at)
                before *= unit_left
                after *= unit_right
            else:
                ratio = unit_right / unit_left
                masses[_U(base + at)] = here / unit_left
                acc = left + here
                while at < length - 1 and acc < target:
                    at += 1
                    masses[_U(base + at)] *= ratio
                    acc += masses[_U(base + at)] * unit_left
                here = masses[_U(base + at)] * unit_left
                before, after = around(masses, base, at)
                before *= unit_left
                after *= unit_right
            left = l_out + before
            cell = starts[_U(base + at)]
            if at + 1 < length:
                end = starts[_U(base + at + 1)] - 1
            elif r_count > 0:
                end = starts[_U(r_block[_U(r_count - 1)] * BLOCK)] - 1
            else:
                end = np.int64(last)
        part = min(max(target - left, 0.0), here)
        if end > cell:
            # Isolate the cell at mass q. One less than the number of cells: 2^63 does not fit.
            spare = end - cell
            unit = here / (float(spare) + 1.0)
            offset = np.int64(min(max(math.ceil(part / unit) - 1.0, 0.0), float(spare)))
            if offset > spare or offset < 0:  # a float close to 2^63 rounds up to it
                offset = spare
            if middle and i == start:
                offset = spare - spare // 2
            low_part = unit * float(offset)
            high_part = unit * float(spare - offset)
            if length + 2 > BLOCK:
                # Full: the half without the located piece becomes a closed block of its side.
                half = length // 2
                fresh = made
                made += 1
                if at < half:
                    copy(starts, masses, visits, fresh * BLOCK, base + half, length - half, count)
                    lengths[_U(fresh)] = length - half
                    weight = block_sum(masses, fresh * BLOCK)
                    sums[_U(fresh)] = weight
                    weight *= unit_right / r_scale
                    r_block[_U(r_count)] = fresh
                    r_weight[_U(r_count)] = weight
                    r_prefix[_U(r_count + 1)] = r_prefix[_U(r_count)] + weight
                    r_count += 1
                    length = half
                else:
                    copy(starts, masses, visits, fresh * BLOCK, base, half, count)
                    lengths[_U(fresh)] = half
                    weight = block_sum(masses, fresh * BLOCK)
                    sums[_U(fresh)] = weight
                    weight *= unit_left / l_scale
                    l_block[_U(l_count)] = fresh
                    l_weight[_U(l_count)] = weight
                    l_prefix[_U(l_count + 1)] = l_prefix[_U(l_count)] + weight
                    l_count += 1
                    length -= half
                    at -= half
                    copy(starts, masses, visits, base, base + half, length, count)
                for k in range(base + length, base + BLOCK):
                    masses[_U(k)] = 0.0
                before, after = around(masses, base, at)
                before *= unit_left
                after *= unit_right
            more = (1 if offset > 0 else 0) + (1 if offset < spare else 0)
            shift(starts, masses, visits, base, at + 1, length, more, count)
            length += more
            if offset > 0:
                masses[_U(base + at)] = low_part / unit_left
                if count:
                    visits[_U(base + at)] = 0
                before += low_part
                at += 1
            cell += offset
            starts[_U(base + at)] = cell
            masses[_U(base + at)] = 0.0  # the located piece is held in `here`
            if count:
                visits[_U(base + at)] = 0
            if offset < spare:
                starts[_U(base + at + 1)] = cell + 1
                masses[_U(base + at + 1)] = high_part / unit_right
                if count:
                    visits[_U(base + at + 1)] = 0
                after += high_part
            end = cell
            here = unit
            part = min(max(part - low_part, 0.0), here)
        if count:
            visits[_U(base + at)] += 1
        if follow:
            path[i - start] = cell
        l_out = l_prefix[_U(l_count)] * l_scale
        r_out = r_prefix[_U(r_count)] * r_scale
        at_left = left_only or q * (r_out + after) <= (1.0 - q) * (l_out + before)
        if mapped:
            threshold = lows[_U(cell)] if at_left else highs[_U(cell)]
        else:
            threshold = min(max(cell + bottom - (1 if at_left else 0), 0), top)
        drawn, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        bit = (values[_U(i)] <= threshold) != (drawn < flip)
        by_left = left1 if bit else left0
        by_right = right1 if bit else right0
        if two_regions:
            here *= by_right if at_left else by_left
        else:
            here = by_left * part + by_right * (here - part)
        l_scale *= by_left
        unit_left *= by_left
        before *= by_left
        r_scale *= by_right
        unit_right *= by_right
        after *= by_right
        if (
            min(min(l_scale, r_scale), min(unit_left, unit_right)) < _SMALL
            or max(max(l_scale, r_scale), max(unit_left, unit_right)) > _LARGE
        ):
            share = 1.0 / (l_prefix[l_count] * l_scale + before + here + after + r_prefix[r_count] * r_scale)
            fold(l_weight, l_prefix, l_count, l_scale * share)
            fold(r_weight, r_prefix, r_count, r_scale * share)
            for k in range(base, base + at):
                masses[k] = max(masses[k] * unit_left * share, FLOOR)
            for k in range(base + at + 1, base + length):
                masses[k] = max(masses[k] * unit_right * share, FLOOR)
            here = max(here * share, FLOOR)
            l_scale, r_scale, unit_left, unit_right = 1.0, 1.0, 1.0, 1.0
            before, after = around(masses, base, at)
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3

    # Close the open block in place.
    masses[base + at] = here / unit_right
    sums[block] = closed_sum(masses, base, at, unit_left / unit_right)
    lengths[block] = length
    sides = (l_block, l_weight, l_count, l_scale, r_block, r_weight, r_count, r_scale)
    return read_out(starts, masses, visits, lengths, sums, sides, block, sums[block] * unit_right, last, count)

"""Trials of BayesLearn and DpBayeSS, user by user.

Every user sees another threshold, so no count-level shortcut exists: users are permuted (or drawn, in the
statistical setting) and asked one by one, in a kernel on the posterior in blocks (`bayes_stacks`). All numbers come
from the template.

The random bits inside a kernel are xoshiro256++. Each trial has its own state of four words, drawn from the
Generator that the trial's block was handed: numpy's Generator cannot be called from a kernel at this speed, while
this one costs about a nanosecond a draw.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant._numba import HAVE_NUMBA, compiled, njit
from privquant.arrays import Ints
from privquant.lab.engine import USUAL, Setting
from privquant.lab.engine.bayes_stacks import BLOCK, KERNEL, Stacks, begin, new_stacks, update, visited
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.protocols.base import Protocol
from privquant.protocols.bayes.bayeslearn import BayesLearn
from privquant.protocols.bayes.bayess import BayeSS
from privquant.protocols.bayes.last_stage import LastStage
from privquant.protocols.bayes.posterior import LARGE, SMALL
from privquant.protocols.bayes.reduction import FEW, Cell, first_gamma, padded

Words = NDArray[np.uint64]  # of a trial's random bits

_U = np.uint64
_LOW32 = _U(0xFFFFFFFF)
_NONE = np.empty(0, np.int64)
_MOST_USERS = 2**32  # the shuffle draws 32 bits


def supports(template: Protocol, schedule: Schedule = SUGGESTED) -> bool:
    """Whether the kernel can run this template; without numba the protocol object itself is faster."""
    return (
        HAVE_NUMBA
        and schedule.kind == "suggested"
        and isinstance(template, BayesLearn | BayeSS)
        and template.domain.size > 1
        and 0 < template.users < _MOST_USERS
    )


@compiled()
def simulate(
    template: Protocol, sample: Sample, trials: int, rng: np.random.Generator, setting: Setting = USUAL
) -> Ints:
    """The answers' indices, one row a trial."""
    assert isinstance(template, BayesLearn | BayeSS)
    answers = np.empty((trials, 1), np.int64)
    room = _room(template)
    # In the empirical setting one copy is permuted again and again: a permutation of a permutation is as uniform.
    values = sample.indices.copy() if setting.draw == "empirical" else _NONE
    for trial, words in enumerate(states(rng, trials)):
        if setting.draw == "empirical":
            shuffle(values, words)
        else:
            values = draw_with_replacement(sample.indices, template.users, words)
        if isinstance(template, BayeSS):
            answers[trial, 0] = _screened(template, room, values, words)
        else:
            answers[trial, 0] = _learned(template, room, values[: template.users], words) + template.bottom
    return answers


def _room(template: BayesLearn | BayeSS) -> Stacks:
    """For any learner of the template; a screening's second is over fewer users, and two pads at most are new."""
    if isinstance(template, BayeSS):
        return new_stacks(template.plan[0], template.domain.size + 2, visits=True)
    return new_stacks(template.users, template.domain.size, visits=False)


def _learned(
    template: BayesLearn | BayeSS,
    room: Stacks,
    values: Ints,
    words: Words,
    *,
    cells: list[Cell] | None = None,
    path: Ints = _NONE,
) -> int:
    """The median of a learner over the whole domain, or over the given cells. Its posterior is left in `room`."""
    channel, top = template.channel, template.domain.size - 2
    count = template.cells if cells is None else len(cells)
    lows, highs = _NONE, _NONE
    if cells is not None:
        lows, highs = np.minimum(np.maximum(np.array(cells, np.int64), 0), top).T.copy()
    asking = Asking(
        count - 1,
        count // 2 if template.first_step == "middle" else -1,
        channel.q,
        *channel.left,
        *channel.right,
        np.uint64(template.coin.threshold),
        lows,
        highs,
        template.bottom,
        top,
        template.coin_rule == "published",
        template.update == "counts",
    )
    return int(learn(room, asking, values, words, path))


def _screened(template: BayeSS, room: Stacks, values: Ints, words: Words) -> int:
    size, (first, second, last) = template.domain.size, template.plan
    theorem = template.split == "theorem"
    found = _survivors(template, room, values[:first], words, 1.0 / FEW if theorem else first_gamma(size))
    if theorem or found.size <= FEW:
        cells = [(v - 1, v) for v in (found + template.bottom).tolist()]
        return _finish(template.last_stage(cells, second + last), template, values, first, words)
    cells = padded(found + template.bottom, size, published=template.coin_rule == "published")
    again = _survivors(template, room, values[first : first + second], words, 1.0 / FEW, cells)
    left = [cells[k] for k in again.tolist()]
    return _finish(template.last_stage(left, last), template, values, first + second, words)


def _survivors(
    template: BayeSS, room: Stacks, values: Ints, words: Words, gamma: float, cells: list[Cell] | None = None
) -> Ints:
    """ReductionToGamma with these users."""
    _learned(template, room, values, words, cells=cells)
    visits = visited(room)
    if values.size == 0:
        # Nobody to ask: what the untouched posterior points at.
        count = template.cells if cells is None else len(cells)
        visits = np.array([template.untouched(count).cell]), np.array([1])
    found: Ints = template.reduce(*visits, gamma)
    return found


def _finish(stage: LastStage, template: BayeSS, values: Ints, start: int, words: Words) -> int:
    """The last stage, a batch at a time, on the users from `start` on."""
    flip = np.uint64(template.coin.threshold)
    while batches := stage.ask(stage.users):
        for number, threshold, count in batches:
            ones = reported_ones(values, start, start + count, threshold, flip, words)
            start += count
            stage.tell_counts(number, threshold, count, ones)
    return stage.answer()


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
    """Ask these users one by one; the posterior's median. `path`, unless empty, takes the cell of every step.

    Most reports leave the located cell where it is. The loop holds what such a report needs in registers, and
    hands it back to the stacks when the cell moves.
    """
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


def states(rng: np.random.Generator, trials: int) -> NDArray[np.uint64]:
    """One state a trial. All zeros, which xoshiro could not leave, has probability 2^-256."""
    return rng.integers(0, 2**64, size=(trials, 4), dtype=np.uint64)


@njit(always=True, cache=True)
def _rotated(word: Any, by: Any) -> Any:
    return (word << by) | (word >> (_U(64) - by))


@njit(always=True, cache=True)
def step(s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """One draw of xoshiro256++ (Blackman and Vigna): 64 bits, and the next state."""
    drawn = _rotated(s0 + s3, _U(23)) + s0
    shifted = s1 << _U(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = _rotated(s3, _U(45))
    return drawn, s0, s1, s2, s3


@njit(always=True, cache=True)
def below(bound: Any, s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """A uniform integer in 0 .. bound-1, bound at most 2^32 (Lemire, with rejection), and the next state."""
    while True:
        drawn, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        product = (drawn >> _U(32)) * bound
        low = product & _LOW32
        # Only the lowest 2^32 mod bound products are one too many; the division is needed once in 2^32/bound draws.
        if low >= bound or low >= (_U(1) << _U(32)) % bound:
            return product >> _U(32), s0, s1, s2, s3


@njit(always=True, cache=True)
def shuffle(values: Any, state: Any) -> None:
    """A uniform permutation in place (Fisher and Yates); at most 2^32 values."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    for i in range(values.shape[0] - 1, 0, -1):
        drawn, s0, s1, s2, s3 = below(_U(i + 1), s0, s1, s2, s3)
        j = np.int64(drawn)
        kept = values[i]
        values[i] = values[j]
        values[j] = kept
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3


@njit(always=True, cache=True)
def draw_with_replacement(values: Any, count: int, state: Any) -> Any:
    """`count` independent uniform draws from values; at most 2^32 values."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    found = np.empty(count, values.dtype)
    bound = _U(values.shape[0])
    for i in range(count):
        drawn, s0, s1, s2, s3 = below(bound, s0, s1, s2, s3)
        found[i] = values[np.int64(drawn)]
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return found


@njit(always=True, cache=True)
def reported_ones(values: Any, start: int, stop: int, threshold: int, flip: Any, state: Any) -> int:
    """How many of the users values[start:stop] report a one to "is your value at most the threshold?"."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    ones = 0
    for i in range(start, stop):
        drawn, s0, s1, s2, s3 = step(s0, s1, s2, s3)
        ones += (values[i] <= threshold) != (drawn < flip)
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return ones

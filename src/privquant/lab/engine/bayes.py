"""Trials of BayesLearn and DpBayeSS, user by user.

Every user sees another threshold, so no count-level shortcut exists: users are permuted (or drawn, in the
statistical setting) and asked one by one, in a kernel. All numbers come from the template.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privquant._numba import HAVE_NUMBA
from privquant.lab.engine.bayes_kernel import capacity, learn
from privquant.lab.engine.random import draw_with_replacement, reported_ones, shuffle, states
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.protocols.base import Protocol
from privquant.protocols.bayes.bayeslearn import BayesLearn
from privquant.protocols.bayes.bayess import BayeSS
from privquant.protocols.bayes.channel import Channel
from privquant.protocols.bayes.last_stage import Final
from privquant.protocols.bayes.reduction import FEW, Cell, first_gamma, padded

_NONE = np.empty(0, np.int64)
_MOST_USERS = 2**32  # the shuffle draws 32 bits

Visited = tuple[NDArray[np.int64], NDArray[np.int64], int]


def supports(template: Protocol, draw: str, schedule: Schedule = SUGGESTED) -> bool:
    """Whether the kernel can run this template; without numba the protocol object itself is faster."""
    return (
        HAVE_NUMBA
        and schedule.kind == "suggested"
        and isinstance(template, BayesLearn | BayeSS)
        and template.domain.size > 1
        and 0 < template.users < _MOST_USERS
    )


def simulate(
    template: Protocol,
    sample: Sample,
    trials: int,
    rng: np.random.Generator,
    *,
    draw: str = "empirical",
    schedule: Schedule = SUGGESTED,
) -> NDArray[np.int64]:
    """The answers' indices, one row a trial."""
    assert isinstance(template, BayesLearn | BayeSS)
    answers = np.empty((trials, 1), np.int64)
    run = _learn_alone if isinstance(template, BayesLearn) else _screening
    # In the empirical setting one copy is permuted again and again: a permutation of a permutation is as uniform.
    crowd = sample.indices.copy() if draw == "empirical" else _NONE
    for trial, state in enumerate(states(rng, trials)):
        if draw == "empirical":
            shuffle(crowd, state)
        else:
            crowd = draw_with_replacement(sample.indices, template.users, state)
        answers[trial, 0] = run(template, crowd, state)  # type: ignore[arg-type]
    return answers


def channel_array(channel: Channel) -> NDArray[np.float64]:
    """As the kernel takes it."""
    return np.array([channel.q, *channel.left, *channel.right])


def visited_path(template: BayesLearn, crowd: NDArray[np.int64], state: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The cell of every step, for a crowd in the order it is asked; what the tests compare with the dense twin."""
    path = np.empty(template.users, np.int64)
    _learned(template, crowd, 0, template.users, state, path=path)
    return path


def _learned(
    template: BayesLearn | BayeSS,
    crowd: NDArray[np.int64],
    start: int,
    stop: int,
    state: NDArray[np.uint64],
    *,
    cells: list[Cell] | None = None,
    path: NDArray[np.int64] = _NONE,
) -> Visited:
    """One run of the learner over the whole domain, or over the given cells."""
    top = template.domain.size - 2
    count = template.domain.size - template.bottom if cells is None else len(cells)
    lows, highs = _NONE, _NONE
    if cells is not None:
        lows, highs = (np.clip(np.array(side, np.int64), 0, top) for side in zip(*cells, strict=True))
    return learn(  # type: ignore[no-any-return]
        crowd,
        start,
        stop,
        count - 1,
        channel_array(template.channel),
        np.uint64(template.coin.threshold),
        state,
        template.coin_rule == "published",
        isinstance(template, BayeSS) and template.first_step == "middle",
        isinstance(template, BayesLearn) and template.update == "counts",
        lows,
        highs,
        template.bottom,
        top,
        capacity(stop - start, count),
        isinstance(template, BayeSS),
        path,
    )


def _learn_alone(template: BayesLearn, crowd: NDArray[np.int64], state: NDArray[np.uint64]) -> int:
    _, _, median = _learned(template, crowd, 0, template.users, state)
    return int(median) + template.bottom


def _screening(template: BayeSS, crowd: NDArray[np.int64], state: NDArray[np.uint64]) -> int:
    size, (first, second, last) = template.domain.size, template.plan
    theorem = template.split == "theorem"
    found = _survivors(template, crowd, 0, first, state, 1.0 / FEW if theorem else first_gamma(size))
    if theorem or found.size <= FEW:
        cells = [(v - 1, v) for v in (found + template.bottom).tolist()]
        return _finish(template.make_final(cells, second + last), template, crowd, first, state)
    cells = padded(found + template.bottom, size, published=template.coin_rule == "published")
    again = _survivors(template, crowd, first, first + second, state, 1.0 / FEW, cells)
    left = [cells[k] for k in again.tolist()]
    return _finish(template.make_final(left, last), template, crowd, first + second, state)


def _survivors(
    template: BayeSS,
    crowd: NDArray[np.int64],
    start: int,
    stop: int,
    state: NDArray[np.uint64],
    gamma: float,
    cells: list[Cell] | None = None,
) -> NDArray[np.int64]:
    """ReductionToGamma with the users start .. stop-1."""
    visited, counts, _ = _learned(template, crowd, start, stop, state, cells=cells)
    if visited.size == 0:
        # Nobody to ask: what the untouched posterior points at.
        count = template.domain.size - template.bottom if cells is None else len(cells)
        visited, counts = np.array([template.first_cell(count)]), np.array([1])
    found: NDArray[np.int64] = template.reduce(visited, counts, gamma)
    return found


def _finish(final: Final, template: BayeSS, crowd: NDArray[np.int64], start: int, state: NDArray[np.uint64]) -> int:
    """The last stage, a batch at a time, on the users from `start` on."""
    flip = np.uint64(template.coin.threshold)
    while batches := final.ask(final.users):
        for number, threshold, count in batches:
            ones = reported_ones(crowd, start, start + count, threshold, flip, state)
            start += count
            final.tell_counts(number, threshold, count, ones)
    return final.answer()

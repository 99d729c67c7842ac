"""Trials of isotonic search by counts: exact in distribution, milliseconds whatever the number of users.

A batch shares its threshold, so its ones are a draw by count from the users not yet asked (`crowd`) and two
binomials for the coin (`samplers`). What is asked and answered is decided by the very kernels the protocol object
calls (`protocols.isotonic.allocation`), in the same order, so the two cannot differ.

The schedule is the run's: a list of rounds, or a number of users in flight; a template with fixed rounds (the
shuffle model) brings its own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant._numba import ONCE, njit, runs_compiled
from privquant.lab.engine.crowd import Crowd, at_most, draw, fill, new_crowd, new_list
from privquant.lab.engine.samplers import binomial
from privquant.lab.populations import OutOfUsers
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.privacy.coin import Coin
from privquant.protocols.base import Protocol
from privquant.protocols.isotonic.allocation import (
    BULK,
    SEARCH,
    Course,
    allocate,
    answers,
    certified,
    lone_quantile,
    side_row,
    thresholds_for,
)
from privquant.protocols.isotonic.posterior import least_rate, profile, target_rate
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.rules import SPREAD_POINTS, batch_size
from privquant.protocols.isotonic.table import Table, add_counts, add_sorted, clear, counts_at, new_table

Ints = NDArray[np.int64]

# Users are drawn from a list if that many or fewer share a query, and if the list fits into a processor's cache.
_LISTED = 16
_LONGEST_LIST = 2**17


class Outcomes(NamedTuple):
    """One row a trial: the answers' indices (a column a quantile), the ends of the certified intervals (quantile,
    lower or upper; -1 where there is no bound; empty without an interval), and the ends of likelihood-ratio sets
    (empty unless asked for).
    """

    answers: Ints
    ends: Ints
    likely: Ints


class _Run(NamedTuple):
    """One trial's world: the people by count, how many of them are asked, and when.

    flight:  users in flight; 0 where they are asked in batches, of these sizes.
    coins:   the row of each batch's coin, where the template brings its own rounds.
    """

    values: Ints
    cumulative: Ints
    users: int
    statistical: bool
    flips: NDArray[np.float64]
    flight: int
    sizes: Ints
    coins: Ints


def supports(template: Protocol, draw: str, schedule: Schedule = SUGGESTED) -> bool:
    return isinstance(template, Isotonic) and template.users > 0 and template.domain.size > 1


def simulate(
    template: Protocol,
    sample: Sample,
    trials: int,
    rng: np.random.Generator,
    *,
    draw: str = "empirical",
    schedule: Schedule = SUGGESTED,
) -> Ints:
    return outcomes(template, sample, trials, rng, draw=draw, schedule=schedule).answers


@runs_compiled
def outcomes(
    template: Protocol,
    sample: Sample,
    trials: int,
    rng: np.random.Generator,
    *,
    draw: str = "empirical",
    schedule: Schedule = SUGGESTED,
    likelihood_ratio: float | None = None,
) -> Outcomes:
    """Answers and intervals of independent runs.

    likelihood_ratio: the cut of likelihood-ratio sets, which do NOT cover: they are a negative control.
    """
    assert isinstance(template, Isotonic)
    schedule.check(template)
    statistical = draw == "statistical"
    if not statistical and template.users > sample.n:
        raise OutOfUsers(f"asked {template.users} users, but there are {sample.n}")
    flight = int(schedule.number) if schedule.kind == "in-flight" else 0
    order = sorted(template.coins())
    sizes = _sizes(template, schedule)
    run = _Run(
        sample.values,
        sample.cumulative,
        template.users,
        statistical,
        np.array([Coin(coin).flip for coin in order]),
        flight,
        np.array(sizes, np.int64),
        np.array([order.index(coin) for _, coin in template.rounds or ()], np.int64),
    )
    quantiles, roles = len(template.quantiles), template.course.roles
    points = roles * quantiles * (SPREAD_POINTS if template.spread > 0.0 else 1)
    room = template.users if flight else min(template.users, len(sizes) * points)
    table = new_table(room, coins=len(order), sides=2 * quantiles if roles == 3 else 0)
    crowd = _crowd(0 if statistical else template.users, room, sample.n)
    found = np.empty((trials, quantiles), np.int64)
    ends = np.full((trials, quantiles if roles == 3 else 0, 2), -1, np.int64)
    likely = np.empty((trials, 0 if likelihood_ratio is None else quantiles, 2), np.int64)
    for trial in range(trials):
        _trial(table, crowd, template.search, template.course, run, rng, found[trial], ends[trial])
        if likelihood_ratio is not None:
            _likely(table, template.search, template.course, likelihood_ratio, likely[trial])
    return Outcomes(found, ends, likely)


def _crowd(users: int, queries: int, population: int) -> Crowd:
    """The cheaper way to draw `users` of a population in so many queries."""
    if users <= _LISTED * queries and population <= _LONGEST_LIST:
        return new_list(population)
    return new_crowd(queries)


def _sizes(template: Isotonic, schedule: Schedule) -> list[int]:
    """The users of each round, or of each batch as the protocol suggests it."""
    if template.rounds is not None:
        return [size for size, _ in template.rounds]
    given = schedule.sizes(template.users)
    if given is not None or schedule.kind == "in-flight":
        return given or []
    sizes: list[int] = []
    heard = 0
    while heard < template.users:
        sizes.append(min(int(batch_size(heard)), template.users - heard))
        heard += sizes[-1]
    return sizes


@njit(cache=True)
def _ones(crowd: Crowd, run: _Run, threshold: int, count: int, coin: int, rng: np.random.Generator) -> int:
    """How many of `count` fresh users report a one."""
    if run.statistical:
        users = run.cumulative[run.cumulative.size - 1]
        below = binomial(count, at_most(run.values, run.cumulative, threshold) / users, rng)
    else:
        below = draw(crowd, run.values, run.cumulative, threshold, count, rng)
    flip = run.flips[coin]
    return below - binomial(below, flip, rng) + binomial(count - below, flip, rng)


@njit(cache=True)
def _trial(
    table: Table,
    crowd: Crowd,
    search: Search,
    course: Course,
    run: _Run,
    rng: np.random.Generator,
    found: Ints,
    ends: Ints,
) -> None:
    """One trial whole, in one kernel: taking a table and a crowd apart for it is half a second of compiling."""
    clear(table)
    fill(crowd, run.cumulative[run.cumulative.size - 1])
    if run.coins.size > 0:
        _fixed_rounds(table, crowd, search, course, run, rng)
    elif run.flight > 0:
        _in_flight(table, crowd, search, course, run, rng)
    else:
        _in_batches(table, crowd, search, course, run, rng)
    answers(table, search, course, found)
    if course.roles == 3:
        certified(table, search, course, ends)


@njit(cache=True)
def _likely(table: Table, search: Search, course: Course, cut: float, out: Ints) -> None:
    """Ends of the cells whose log-likelihood is within cut/2 of the best."""
    count = table.held[0]
    least = least_rate(search)
    for j in range(course.quantiles.size):
        n, s, _ = counts_at(table, search, course.quantiles[j])
        profile(table, n, s, target_rate(search, course.quantiles[j]), 0.0, least, 1.0 - least)
        best = table.fit[0]
        for k in range(1, count + 1):
            best = max(best, table.fit[k])
        first = 0
        while 2.0 * (best - table.fit[first]) > cut:
            first += 1
        last = count
        while 2.0 * (best - table.fit[last]) > cut:
            last -= 1
        out[j, 0] = table.threshold[first - 1] + 1 if first > 0 else 0
        out[j, 1] = table.threshold[last] if last < count else search.last


@njit(cache=True, **ONCE)
def _in_batches(
    table: Table, crowd: Crowd, search: Search, course: Course, run: _Run, rng: np.random.Generator
) -> None:
    arms = np.empty(course.roles * course.quantiles.size, np.int64)
    ends = np.zeros(arms.size + 1, np.int64)
    out = np.empty((2, SPREAD_POINTS), np.int64)
    at = np.empty(arms.size * SPREAD_POINTS, np.int64)
    of = np.empty(arms.size * SPREAD_POINTS, np.int64)
    ones = np.empty(arms.size * SPREAD_POINTS, np.int64)
    asked = 0
    for count in run.sizes:
        phase = allocate(course, asked, asked, count, arms)
        for arm in range(arms.size):
            rows = 0
            if arms[arm] > 0:
                rows = thresholds_for(table, search, course, phase, arm, arms[arm], 0.5, out)
            for row in range(rows):
                at[ends[arm] + row] = out[0, row]
                of[ends[arm] + row] = out[1, row]
            ends[arm + 1] = ends[arm] + rows
        for i in range(ends[arms.size]):
            ones[i] = _ones(crowd, run, at[i], of[i], 0, rng)
        for arm in range(arms.size):
            a, b = ends[arm], ends[arm + 1]
            if b > a:
                side = side_row(course.roles, arm)
                add_sorted(table, search, 0, side, phase == BULK, at[a:b], of[a:b], ones[a:b])
        asked += count


@njit(cache=True, **ONCE)
def _in_flight(
    table: Table, crowd: Crowd, search: Search, course: Course, run: _Run, rng: np.random.Generator
) -> None:
    """So many users asked at first, then one for each that answers, in the order of asking."""
    arms = np.empty(course.roles * course.quantiles.size, np.int64)
    out = np.empty((2, SPREAD_POINTS), np.int64)
    queue = np.empty((3, run.users), np.int64)  # phase, arm, threshold of every user asked
    asked = 0
    heard = 0
    while heard < run.users:
        count = min(run.flight - (asked - heard), run.users - asked)
        if count > 0:
            phase = allocate(course, asked, heard, count, arms)
            lone = lone_quantile(course, asked, asked - heard, count)
            for arm in range(arms.size):
                if arms[arm] > 0:
                    rows = thresholds_for(table, search, course, phase, arm, arms[arm], lone, out)
                    for row in range(rows):
                        for _ in range(out[1, row]):
                            queue[0, asked] = phase
                            queue[1, asked] = arm
                            queue[2, asked] = out[0, row]
                            asked += 1
        threshold = queue[2, heard]
        ones = _ones(crowd, run, threshold, 1, 0, rng)
        side = side_row(course.roles, queue[1, heard])
        add_counts(table, search, 0, side, queue[0, heard] == BULK, threshold, 1, ones)
        heard += 1


@njit(cache=True, **ONCE)
def _fixed_rounds(
    table: Table, crowd: Crowd, search: Search, course: Course, run: _Run, rng: np.random.Generator
) -> None:
    out = np.empty((2, SPREAD_POINTS), np.int64)
    asked = 0
    for current in range(run.sizes.size):
        bulk = asked < course.bulk
        arm = current % course.quantiles.size
        thresholds_for(table, search, course, BULK if bulk else SEARCH, arm, 1, 0.5, out)
        count = run.sizes[current]
        ones = _ones(crowd, run, out[0, 0], count, run.coins[current], rng)
        add_counts(table, search, run.coins[current], -1, bulk, out[0, 0], count, ones)
        asked += count

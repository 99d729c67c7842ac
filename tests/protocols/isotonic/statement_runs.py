"""Runs of isotonic search that keep a log of what was asked, for tests of what is said about their answers.

The loops are those of the lab's engine, with the protocol's own kernels deciding; here every batch is written down
with the number of users asked before it, so that the reports for one quantile, after the opening, can be told from
the others.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from statement_shapes import SMOOTH_SHAPES, STATEMENT_SHAPES

from privquant._numba import njit
from privquant.domain import Integers
from privquant.lab.engine.crowd import at_most, draw, fill, new_crowd
from privquant.lab.engine.samplers import binomial
from privquant.lab.sample import Sample
from privquant.lab.shapes import SHAPES, distribution
from privquant.privacy.coin import Coin
from privquant.protocols.isotonic.allocation import BULK, SEARCH, allocate, answers, thresholds_for
from privquant.protocols.isotonic.certain import OPENING, slack
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.rules import SPREAD_POINTS, batch_size, lone_share
from privquant.protocols.isotonic.shuffled import shuffled_isotonic
from privquant.protocols.isotonic.table import add_counts, clear, new_table

SCHEDULES = ("sequential", "rounds", "in flight", "three", "shuffled")
ALL_SHAPES = (*SHAPES, *STATEMENT_SHAPES)
# columns of a log: users asked before, phase, arm, coin, threshold, reports, ones
_COLUMNS = 7


class World(NamedTuple):
    """Who is asked: the people by count, or (statistical) the population they stand for; fixed rounds and coins."""

    values: np.ndarray
    cumulative: np.ndarray
    users: int
    statistical: bool
    flips: np.ndarray
    sizes: np.ndarray
    coins: np.ndarray


def world_of(template, sample, draw="empirical"):
    order = sorted(template.coins())
    return World(
        sample.values,
        sample.cumulative,
        template.users,
        draw == "statistical",
        np.array([Coin(coin).flip for coin in order]),
        np.array([users for users, _ in template.rounds or ()], np.int64),
        np.array([order.index(coin) for _, coin in template.rounds or ()], np.int64),
    )


@njit(cache=True)
def reported(cells, run, threshold, count, coin, rng):
    """How many of `count` fresh users report a one."""
    if run.statistical:
        users = run.cumulative[run.cumulative.size - 1]
        below = binomial(count, at_most(run.values, run.cumulative, threshold) / users, rng)
    else:
        below = draw(cells, run.values, run.cumulative, threshold, count, rng)
    return below - binomial(below, run.flips[coin], rng) + binomial(count - below, run.flips[coin], rng)


@njit(cache=True)
def _batches(table, cells, search, course, run, growing, rng, log):
    arms = np.empty(course.roles * course.quantiles.size, np.int64)
    out = np.empty((2, SPREAD_POINTS), np.int64)
    asked = 0
    rows = 0
    while asked < run.users:
        count = max(8, asked // 10) if growing else batch_size(asked)
        count = min(count, run.users - asked)
        phase = allocate(course, asked, asked, count, arms)
        first = rows
        for arm in range(arms.size):
            if arms[arm] > 0:
                points = thresholds_for(table, search, course, phase, arm, arms[arm], 0.5, out)
                for point in range(points):
                    log[rows, 0] = asked
                    log[rows, 1] = phase
                    log[rows, 2] = arm
                    log[rows, 3] = 0
                    log[rows, 4] = out[0, point]
                    log[rows, 5] = out[1, point]
                    rows += 1
        for row in range(first, rows):
            log[row, 6] = reported(cells, run, log[row, 4], log[row, 5], 0, rng)
            add_counts(table, search, 0, -1, phase == BULK, log[row, 4], log[row, 5], log[row, 6])
        asked += count
    return rows


@njit(cache=True)
def _flight(table, cells, search, course, run, flight, rng, log):
    arms = np.empty(course.roles * course.quantiles.size, np.int64)
    out = np.empty((2, SPREAD_POINTS), np.int64)
    asked = 0
    heard = 0
    while heard < run.users:
        count = min(flight - (asked - heard), run.users - asked)
        if count > 0:
            phase = allocate(course, asked, heard, count, arms)
            lone = lone_share(course.spread, asked) if count == 1 and asked > heard else 0.5
            for arm in range(arms.size):
                if arms[arm] > 0:
                    points = thresholds_for(table, search, course, phase, arm, arms[arm], lone, out)
                    for point in range(points):
                        for _ in range(out[1, point]):
                            log[asked, 0] = asked
                            log[asked, 1] = phase
                            log[asked, 2] = arm
                            log[asked, 3] = 0
                            log[asked, 4] = out[0, point]
                            log[asked, 5] = 1
                            asked += 1
        log[heard, 6] = reported(cells, run, log[heard, 4], 1, 0, rng)
        add_counts(table, search, 0, -1, log[heard, 1] == BULK, log[heard, 4], 1, log[heard, 6])
        heard += 1
    return heard


@njit(cache=True)
def _fixed(table, cells, search, course, run, rng, log):
    out = np.empty((2, SPREAD_POINTS), np.int64)
    asked = 0
    for current in range(run.sizes.size):
        bulk = asked < course.bulk
        arm = current % course.quantiles.size
        thresholds_for(table, search, course, BULK if bulk else SEARCH, arm, 1, 0.5, out)
        log[current, 0] = asked
        log[current, 1] = BULK if bulk else SEARCH
        log[current, 2] = arm
        log[current, 3] = run.coins[current]
        log[current, 4] = out[0, 0]
        log[current, 5] = run.sizes[current]
        log[current, 6] = reported(cells, run, out[0, 0], run.sizes[current], run.coins[current], rng)
        add_counts(table, search, run.coins[current], -1, bulk, out[0, 0], run.sizes[current], log[current, 6])
        asked += run.sizes[current]
    return run.sizes.size


@njit(cache=True)
def _own(table, search, log, rows, arm, opening):
    """The reports asked for one quantile after the opening and outside the bulk phase."""
    clear(table)
    for row in range(rows):
        if log[row, 0] >= opening and log[row, 1] == SEARCH and log[row, 2] == arm:
            add_counts(table, search, log[row, 3], -1, False, log[row, 4], log[row, 5], log[row, 6])


@dataclass
class Finished:
    """One run: its users, where they came from, and its tables; `own` is overwritten by the next run."""

    template: Isotonic
    sample: Sample
    source: object
    quantile: float
    answer: int
    table: object
    own: object

    def people_share(self, index):
        """F(index) among the people asked."""
        return float(self.sample.at_most(index)) / self.sample.n

    def below_in_population(self, index, rank):
        """Whether F(index) < rank in the population the people were drawn from."""
        if hasattr(self.source, "share"):
            return self.source.share(index) < rank - 1e-9
        return rank >= 1.0 or (rank > 0.0 and index < self.source.quantile(rank))

    def above_in_population(self, index, rank):
        """Whether F(index) > rank in the population."""
        if hasattr(self.source, "share"):
            return self.source.share(index) > rank + 1e-9
        return rank < 1.0 - 1e-9 and (rank < 0.0 or index >= self.source.quantile(min(rank + 1e-9, 1.0)))


def planned(schedule, size, users, epsilon, quantile):
    """The protocol and the quantiles searched."""
    domain = Integers(0, size - 1)
    if schedule == "shuffled":
        return shuffled_isotonic(domain, users=users, epsilon=epsilon, delta=1e-6, quantile=quantile)
    several = sorted({0.25, 0.75, quantile}) if schedule == "three" else quantile
    spread = 0.25 if schedule in ("rounds", "in flight") else 0.0
    return Isotonic(domain, users=users, epsilon=epsilon, quantile=several, spread=spread)


def runs(shape, schedule, *, size, users, epsilon, quantile, trials, seed, flight=200, draw="empirical"):
    """Finished runs on new users each, all n of n people asked; draw="statistical" asks a population instead."""
    rng = np.random.default_rng(seed)
    template = planned(schedule, size, users, epsilon, quantile)
    search, course = template.search, template.course
    order = sorted(template.coins())
    which = template.quantiles.index(quantile)
    room = users + 64 if schedule in ("in flight", "rounds") else 4096
    room = min(room, users + 64)
    table, own = new_table(room, coins=len(order)), new_table(room, coins=len(order))
    cells = new_crowd(room)
    log = np.zeros((users + 64, _COLUMNS), np.int64)
    found = np.empty(len(template.quantiles), np.int64)
    within = _slack_of(template, which)
    made = STATEMENT_SHAPES | SMOOTH_SHAPES
    for _ in range(trials):
        if shape in made:
            source = made[shape](size, rng, quantile, within)
        else:
            source = distribution(shape, size, rng)
        sample = Sample(source.draw(users, rng), size)
        run = world_of(template, sample, draw)
        clear(table)
        fill(cells, sample.n)
        if schedule == "shuffled":
            rows = _fixed(table, cells, search, course, run, rng, log)
        elif schedule == "in flight":
            rows = _flight(table, cells, search, course, run, min(flight, users // 5), rng, log)
        else:
            rows = _batches(table, cells, search, course, run, schedule == "rounds", rng, log)
        answers(table, search, course, found)
        _own(own, search, log, rows, which, math.ceil(OPENING * users))
        yield Finished(template, sample, source, quantile, int(found[which]), table, own)


def _slack_of(template, which):
    """About the slack of a run, for shapes that put their jumps there."""
    order = sorted(template.coins())
    heard = np.zeros(len(order))
    asked = 0
    if template.rounds is None:
        own = template.users - max(math.ceil(OPENING * template.users), template.course.bulk)
        heard[0] = own / len(template.quantiles)
    for round_size, coin in template.rounds or ():
        if asked >= max(math.ceil(OPENING * template.users), template.course.bulk):
            heard[order.index(coin)] += round_size
        asked += round_size
    return slack(heard, template.search.kappas, template.quantiles[which], spread=template.spread > 0.0)

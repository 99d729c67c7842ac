"""Runs of isotonic search that keep a log of what was asked, for tests of what is said about their answers.

The loops are those of the lab's engine, guarded like it, with the protocol's own kernels deciding; here every row
is written down with its phase and its arm, so that the reports which a statement counts can be told from others.
`test_statement_runs.py` has the slow twin: the protocol object, asked and told the same.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from statement_shapes import SMOOTH_SHAPES, STATEMENT_SHAPES

from privquant._numba import njit
from privquant.domain import Integers
from privquant.lab.engine.draws import at_most, binomial, draw, fill
from privquant.lab.engine.isotonic import _sizes, _unasked
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.lab.shapes import SHAPES, distribution
from privquant.planning.statement import counted_phases
from privquant.privacy.coin import Coin
from privquant.protocols.isotonic.allocation import (
    MOST_ROWS,
    allocate,
    answers,
    lone_quantile,
    phase_at,
    queries_for,
    thresholds_for,
)
from privquant.protocols.isotonic.certain import OPENING, slack
from privquant.protocols.isotonic.contradiction import choose_kept
from privquant.protocols.isotonic.epochs import BULK, KINDS, SEARCH, forget, in_bulk, new_arrivals, note
from privquant.protocols.isotonic.guard import ANCHOR_PLACES, is_due, judge, rebuild
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.rules import SPREAD_POINTS
from privquant.protocols.isotonic.shuffled import shuffled_isotonic
from privquant.protocols.isotonic.table import add_counts, clear, new_table

SCHEDULES = ("sequential", "rounds", "in flight", "three", "shuffled")
ALL_SHAPES = (*SHAPES, *STATEMENT_SHAPES)
SHAPES_HERE = STATEMENT_SHAPES | SMOOTH_SHAPES
# columns of a log: phase, arm, row of the coin, threshold, reports, ones
_COLUMNS = 6


class World(NamedTuple):
    """Who is asked: the people by count, or (statistical) the population they stand for; fixed rounds and coins."""

    values: np.ndarray
    cumulative: np.ndarray
    users: int
    statistical: bool
    flips: np.ndarray
    sizes: np.ndarray
    coins: np.ndarray


def world_of(template, sample, schedule=SUGGESTED, draw="empirical"):
    order = sorted(template.coins())
    return World(
        sample.values,
        sample.cumulative,
        template.users,
        draw == "statistical",
        np.array([Coin(coin).flip for coin in order]),
        np.array(_sizes(template, schedule), np.int64),
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
def _hear(table, arrivals, search, plan, row):
    """Take in one row of a log, as the protocol does: what its epoch is believed to be worth."""
    phase = row[0]
    if plan.epochs == 0 or note(arrivals, row[3], phase, row[4], row[5]):
        kind = phase % KINDS if plan.epochs > 0 else phase
        add_counts(table, search, row[2], -1, kind == BULK, row[3], row[4], row[5])


@njit(cache=True)
def _believe(table, arrivals, search):
    """At the end: a table of the epochs that the answer follows; whether all are."""
    before = arrivals.kept.copy()
    choose_kept(arrivals, arrivals.kept.size, arrivals.kept)
    if (before != arrivals.kept).any():
        rebuild(table, search, arrivals, arrivals.kept)
    return arrivals.kept.all()


@njit(cache=True)
def _batches(table, arrivals, cells, search, plan, run, rng, log):
    arms = np.empty(plan.roles * plan.quantiles.size, np.int64)
    out = np.empty((3, MOST_ROWS), np.int64)
    asked = 0
    rows = 0
    for count in run.sizes:
        if plan.epochs > 0 and is_due(arrivals, asked, run.users):
            judge(arrivals, table, search, asked, run.users)
        kind = allocate(plan, asked, in_bulk(arrivals) if plan.epochs > 0 else asked, count, arms)
        phase = phase_at(plan, kind, asked)
        first = rows
        for arm in range(arms.size):
            if arms[arm] > 0:
                found = queries_for(table, search, plan, phase, arm, asked, arms[arm], 0.5, out)
                for k in range(found):
                    log[rows, 0] = out[2, k]
                    log[rows, 1] = arm
                    log[rows, 2] = 0
                    log[rows, 3] = out[0, k]
                    log[rows, 4] = out[1, k]
                    rows += 1
        for row in range(first, rows):
            log[row, 5] = reported(cells, run, log[row, 3], log[row, 4], 0, rng)
        for row in range(first, rows):
            _hear(table, arrivals, search, plan, log[row])
        asked += count
    return rows


@njit(cache=True)
def _flight(table, arrivals, cells, search, plan, run, flight, together, rng, log):
    """So many are in flight, and so many are heard together before others are asked in their place."""
    arms = np.empty(plan.roles * plan.quantiles.size, np.int64)
    out = np.empty((3, MOST_ROWS), np.int64)
    asked = 0
    heard = 0
    while heard < run.users:
        count = min(flight - (asked - heard), run.users - asked)
        if count > 0:
            if plan.epochs > 0 and is_due(arrivals, heard, run.users):
                judge(arrivals, table, search, heard, run.users)
            kind = allocate(plan, asked, in_bulk(arrivals) if plan.epochs > 0 else heard, count, arms)
            phase = phase_at(plan, kind, heard)
            lone = lone_quantile(plan, asked, asked - heard, count)
            before = asked
            for arm in range(arms.size):
                if arms[arm] > 0:
                    found = queries_for(table, search, plan, phase, arm, before, arms[arm], lone, out)
                    for k in range(found):
                        for _ in range(out[1, k]):
                            log[asked, 0] = out[2, k]
                            log[asked, 1] = arm
                            log[asked, 2] = 0
                            log[asked, 3] = out[0, k]
                            log[asked, 4] = 1
                            asked += 1
        for _ in range(min(together, asked - heard)):
            log[heard, 5] = reported(cells, run, log[heard, 3], 1, 0, rng)
            _hear(table, arrivals, search, plan, log[heard])
            heard += 1
    return heard


@njit(cache=True)
def _fixed(table, cells, search, plan, run, rng, log):
    out = np.empty((2, SPREAD_POINTS), np.int64)
    asked = 0
    for current in range(run.sizes.size):
        bulk = asked < plan.bulk
        arm = current % plan.quantiles.size
        thresholds_for(table, search, plan, BULK if bulk else SEARCH, arm, 1, 0.5, out)
        log[current, 0] = current + 1
        log[current, 1] = arm
        log[current, 2] = run.coins[current]
        log[current, 3] = out[0, 0]
        log[current, 4] = run.sizes[current]
        log[current, 5] = reported(cells, run, out[0, 0], run.sizes[current], run.coins[current], rng)
        add_counts(table, search, run.coins[current], -1, bulk, out[0, 0], run.sizes[current], log[current, 5])
        asked += run.sizes[current]
    return run.sizes.size


@njit(cache=True)
def _own(table, search, log, rows, arm, counted):
    """The reports that what is certain counts: by their phase and their quantile."""
    clear(table)
    for row in range(rows):
        if counted[log[row, 0]] and log[row, 1] == arm:
            add_counts(table, search, log[row, 2], -1, False, log[row, 3], log[row, 4], log[row, 5])


@dataclass
class Finished:
    """One run: its users, where they came from, and its tables, which the next run overwrites.

    table: all that is believed. own: what is counted for what is certain, and most: how many that could have been.
    whole: whether no epoch was left out.
    """

    template: Isotonic
    sample: Sample
    source: object
    quantile: float
    answer: int
    table: object
    own: object
    most: np.ndarray | None
    whole: bool
    log: np.ndarray

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


def planned(schedule, size, users, epsilon, quantile, guard=True):
    """The protocol, as it is run."""
    domain = Integers(0, size - 1)
    if schedule == "shuffled":
        return shuffled_isotonic(domain, users=users, epsilon=epsilon, delta=1e-6, quantile=quantile)
    several = sorted({0.25, 0.75, quantile}) if schedule == "three" else quantile
    spread = 0.25 if schedule in ("rounds", "in flight") else 0.0
    return Isotonic(domain, users=users, epsilon=epsilon, quantile=several, spread=spread, guard=guard)


def paced(schedule, users):
    """How its users are asked."""
    if schedule == "rounds":
        return Schedule.growing(0.1)
    return Schedule.in_flight(min(200, users // 5)) if schedule == "in flight" else SUGGESTED


def heard_together(users):
    """How many of those in flight are heard before others are asked: one in 250 of all users."""
    return max(1, users // 250)


def runs(
    shape,
    schedule,
    *,
    size,
    users,
    epsilon,
    quantile,
    trials,
    seed,
    draw="empirical",
    guard=True,
    made=SHAPES_HERE,
    together=None,
):
    """Finished runs on new users each, all n of n people asked; draw="statistical" asks a population instead."""
    rng = np.random.default_rng(seed)
    template, pace = planned(schedule, size, users, epsilon, quantile, guard), paced(schedule, users)
    search, plan = template.search, template.run_plan
    coins = len(template.coins())
    which = template.quantiles.index(quantile)
    counted = np.zeros(KINDS * max(plan.epochs, 1) + len(template.rounds or ()) + 1, np.bool_)
    counted[sorted(counted_phases(template))] = True
    anchors = ANCHOR_PLACES if plan.epochs > 0 else 0
    points = len(template.quantiles) * ((SPREAD_POINTS if template.spread > 0.0 else 1) + anchors)
    room = users if pace.kind == "in-flight" else min(users, len(_sizes(template, pace)) * points)
    table, own = new_table(room, coins=coins), new_table(room, coins=coins)
    arrivals = new_arrivals(room if plan.epochs > 0 else 0, plan.epochs, len(template.quantiles))
    cells = _unasked(0 if draw == "statistical" else users, room, users)
    log = np.zeros((room, _COLUMNS), np.int64)
    found = np.empty(len(template.quantiles), np.int64)
    within = _slack_of(template, which)
    for _ in range(trials):
        source = made[shape](size, rng, quantile, within) if shape in made else distribution(shape, size, rng)
        sample = Sample(source.draw(users, rng), size)
        run = world_of(template, sample, pace, draw)
        clear(table)
        forget(arrivals)
        fill(cells, sample.n)
        if template.rounds is not None:
            rows = _fixed(table, cells, search, plan, run, rng, log)
        elif pace.kind == "in-flight":
            at_once = together or heard_together(users)
            rows = _flight(table, arrivals, cells, search, plan, run, int(pace.number), at_once, rng, log)
        else:
            rows = _batches(table, arrivals, cells, search, plan, run, rng, log)
        whole = bool(_believe(table, arrivals, search)) if plan.epochs > 0 else True
        answers(table, search, plan, found)
        _own(own, search, log, rows, which, counted)
        most = _most(log[:rows], counted, which, plan)
        yield Finished(template, sample, source, quantile, int(found[which]), table, own, most, whole, log[:rows])


def _most(log, counted, arm, plan):
    """How many reports could have been counted: anchors too, and a bulk phase asked again."""
    if plan.epochs == 0:
        return None
    kind = log[:, 0] % KINDS
    mine = counted[log[:, 0] - kind + SEARCH] & (kind != BULK) & (log[:, 1] == arm)
    again = max(log[kind == BULK, 4].sum() - plan.bulk, 0)
    return np.array([float(log[mine, 4].sum() + again)])


def _slack_of(template, which):
    """About the slack of a run, for shapes that put their jumps there."""
    order = sorted(template.coins())
    heard = np.zeros(len(order))
    asked = 0
    opening = max(OPENING * template.users, template.run_plan.bulk)
    if template.rounds is None:
        heard[0] = (template.users - opening) / len(template.quantiles)
    for round_size, coin in template.rounds or ():
        if asked >= opening:
            heard[order.index(coin)] += round_size
        asked += round_size
    return slack(heard, template.search.kappas, template.quantiles[which], spread=template.spread > 0.0)

"""Trials of isotonic search by counts: exact in distribution, milliseconds whatever the number of users.

A batch shares its threshold, so its ones are a draw by count from the users not yet asked and two binomials for the
coin (`draws`). What is asked and answered is decided by the very kernels the protocol object calls
(`protocols.isotonic.allocation`), in the same order, so the two cannot differ.

The schedule is the run's: a list of rounds, or a number of users in flight; a template with fixed rounds (the
shuffle model) brings its own. Some of the users may be liars.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant._numba import compiled, njit
from privquant.arrays import Ints
from privquant.lab.engine import USUAL, Setting
from privquant.lab.engine.draws import Unasked, at_most, binomial, draw, fill, new_list, new_tree
from privquant.lab.populations import OutOfUsers
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.privacy.coin import Coin
from privquant.protocols.base import Protocol
from privquant.protocols.isotonic.allocation import (
    MOST_ROWS,
    RunPlan,
    allocate,
    answers,
    certified,
    lone_quantile,
    phase_at,
    queries_for,
    side_row,
)
from privquant.protocols.isotonic.epochs import BULK, KINDS, Arrivals, forget, in_bulk, new_arrivals, note
from privquant.protocols.isotonic.guard import ANCHOR_PLACES, decide, is_due, judge
from privquant.protocols.isotonic.posterior import least_rate, profile, target_rate
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.rules import SPREAD_POINTS, batch_size
from privquant.protocols.isotonic.table import Table, add_counts, add_sorted, clear, counts_at, new_table

# Users are drawn from a list if that many or fewer share a query, and if the list fits into a processor's cache.
_LISTED = 16
_LONGEST_LIST = 2**17


class Outcomes(NamedTuple):
    """One row a trial: the answers' indices (a column a quantile), the ends of the certified intervals (quantile,
    lower or upper; -1 where there is no bound; empty without an interval); of guarded runs the largest
    contradiction between epochs at any decision, and the share of the epochs that the answer leaves out.
    """

    answers: Ints
    ends: Ints
    evidence: NDArray[np.float64]
    dropped: NDArray[np.float64]


class _Run(NamedTuple):
    """One trial's world: the users by count, and the rounds they are asked in, each with the row of its coin.

    liars:     how many of the first 0, 1, .. users asked are liars; a single 0 if none is.
    lie:       the bit they send, or -1: the answer to a fake value, through the coin.
    fake:      the index of that value.
    withheld:  whether what liars send comes after all others; a fixed round waits for all its reports.
    flight:    users asked before the first is heard; 0 in rounds.
    """

    values: Ints
    cumulative: Ints
    users: int
    statistical: bool
    flips: NDArray[np.float64]
    sizes: Ints
    coins: Ints
    liars: Ints
    lie: int
    fake: int
    withheld: bool
    flight: int


class _Job(NamedTuple):
    """What a trial is handed. Kernels called for every row get the parts they need: each array costs them time."""

    search: Search
    plan: RunPlan
    run: _Run


def supports(template: Protocol, schedule: Schedule = SUGGESTED) -> bool:
    return isinstance(template, Isotonic) and template.users > 0 and template.domain.size > 1


def simulate(
    template: Protocol, sample: Sample, trials: int, rng: np.random.Generator, setting: Setting = USUAL
) -> Ints:
    return outcomes(template, sample, trials, rng, setting).answers


@compiled()
def outcomes(
    template: Protocol,
    sample: Sample,
    trials: int,
    rng: np.random.Generator,
    setting: Setting = USUAL,
    *,
    likelihood_ratio: float | None = None,
) -> Outcomes:
    """Answers and intervals of independent runs.

    likelihood_ratio: the cut of likelihood-ratio sets, which do NOT cover: they are a negative control. Their ends
    take the place of those of certified intervals.
    """
    assert isinstance(template, Isotonic)
    schedule, attack, statistical = setting.schedule, setting.attack, setting.draw == "statistical"
    schedule.check(template)
    if not statistical and template.users > sample.n:
        raise OutOfUsers(f"asked {template.users} users, but there are {sample.n}")
    flight = int(schedule.number) if schedule.kind == "in-flight" else 0
    order = sorted(template.coins())
    sizes = _sizes(template, schedule)
    fake = None if attack is None else attack.value(sample)
    search, plan = template.search, template.run_plan
    run = _Run(
        sample.values,
        sample.cumulative,
        template.users,
        statistical,
        np.array([Coin(coin).flip for coin in order]),
        np.array(sizes, np.int64),
        np.array([order.index(coin) for _, coin in template.rounds or ()], np.int64),
        np.zeros(1, np.int64),
        -1 if attack is None or fake is not None else attack.bit,
        0 if fake is None else fake,
        attack is not None and attack.withheld and template.rounds is None,
        flight,
    )
    quantiles, roles = len(template.quantiles), plan.roles
    anchors = ANCHOR_PLACES if plan.epochs > 0 else 0
    points = roles * quantiles * ((SPREAD_POINTS if template.spread > 0.0 else 1) + anchors)
    room = template.users if flight else min(template.users, len(sizes) * points)
    # a row may be in two parts, one of them withheld
    arrivals = new_arrivals(2 * room if plan.epochs > 0 else 0, plan.epochs, quantiles)
    table = new_table(room, coins=len(order), sides=2 * quantiles if roles == 3 else 0)
    unasked = _unasked(0 if statistical else template.users, room, sample.n)
    found = np.empty((trials, quantiles), np.int64)
    ends = np.full((trials, quantiles if roles == 3 or likelihood_ratio is not None else 0, 2), -1, np.int64)
    evidence, dropped = np.zeros(trials), np.zeros(trials)
    for trial in range(trials):
        if attack is not None:
            liars = attack.liars(template.users, rng)
            run = run._replace(liars=np.concatenate(([0], np.cumsum(liars))))
        _trial(table, arrivals, unasked, _Job(search, plan, run), rng, found[trial], ends[trial])
        if plan.epochs > 0:
            evidence[trial] = arrivals.evidence[0]
            dropped[trial] = 1.0 - arrivals.kept.mean()
        if likelihood_ratio is not None:
            _likely(table, search, plan, likelihood_ratio, ends[trial])
    return Outcomes(found, ends, evidence, dropped)


def _unasked(users: int, queries: int, population: int) -> Unasked:
    """The cheaper way to draw `users` of a population in so many queries."""
    if users <= _LISTED * queries and population <= _LONGEST_LIST:
        return new_list(population)
    return new_tree(queries)


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
def _ones(unasked: Unasked, run: _Run, threshold: int, count: int, coin: int, rng: np.random.Generator) -> int:
    """How many of `count` fresh users report a one."""
    if run.statistical:
        users = run.cumulative[run.cumulative.size - 1]
        below = binomial(count, at_most(run.values, run.cumulative, threshold) / users, rng)
    else:
        below = draw(unasked, run.values, run.cumulative, threshold, count, rng)
    flip = run.flips[coin]
    return below - binomial(below, flip, rng) + binomial(count - below, flip, rng)


@njit(cache=True)
def _told(
    unasked: Unasked, run: _Run, asked: int, threshold: int, count: int, coin: int, rng: np.random.Generator
) -> tuple[int, int, int, int]:
    """What `count` users say, asked after `asked` others: reports and ones at once, and those at the end."""
    liars = run.liars[asked + count] - run.liars[asked] if run.liars.size > 1 else 0
    ones = _ones(unasked, run, threshold, count - liars, coin, rng) if count > liars else 0
    if liars == 0:
        return count, ones, 0, 0
    false = run.lie * liars
    if run.lie < 0:
        flipped = binomial(liars, run.flips[coin], rng)
        false = liars - flipped if run.fake <= threshold else flipped
    if run.withheld:
        return count - liars, ones, liars, false
    return count, ones + false, 0, 0


@njit(cache=True)
def _hear(
    table: Table,
    arrivals: Arrivals,
    search: Search,
    plan: RunPlan,
    phase: int,
    side: int,
    threshold: int,
    reports: int,
    ones: int,
) -> None:
    """Take in what is reported of one threshold."""
    if reports > 0 and (plan.epochs == 0 or note(arrivals, threshold, phase, reports, ones)):
        kind = phase % KINDS if plan.epochs > 0 else phase
        add_counts(table, search, 0, side, kind == BULK, threshold, reports, ones)


@njit(cache=True)
def _likely(table: Table, search: Search, plan: RunPlan, cut: float, out: Ints) -> None:
    """Ends of the cells whose log-likelihood is within cut/2 of the best."""
    count = table.held[0]
    least = least_rate(search)
    for j in range(plan.quantiles.size):
        n, s, _ = counts_at(table, search, plan.quantiles[j])
        profile(table, n, s, target_rate(search, plan.quantiles[j]), 0.0, least, 1.0 - least)
        best = table.fit[: count + 1].max()
        first = 0
        while 2.0 * (best - table.fit[first]) > cut:
            first += 1
        last = count
        while 2.0 * (best - table.fit[last]) > cut:
            last -= 1
        out[j, 0] = table.threshold[first - 1] + 1 if first > 0 else 0
        out[j, 1] = table.threshold[last] if last < count else search.last


@njit(cache=True)
def _trial(
    table: Table, arrivals: Arrivals, unasked: Unasked, job: _Job, rng: np.random.Generator, found: Ints, ends: Ints
) -> None:
    """One run from its first user to its answers, and to the ends of its intervals if it has them.

    The one kernel that Python calls: each that it calls is compiled with all that is behind it.
    """
    search, plan, run = job
    clear(table)
    forget(arrivals)
    fill(unasked, run.cumulative[run.cumulative.size - 1])
    if run.flight > 0:
        _in_flight(table, arrivals, unasked, job, rng)
    else:
        _in_batches(table, arrivals, unasked, job, rng)
    if plan.epochs > 0:
        decide(arrivals, table, search, arrivals.kept.size)
    answers(table, search, plan, found)
    if plan.roles == 3:
        certified(table, search, plan, ends)


@njit(cache=True)
def _in_batches(table: Table, arrivals: Arrivals, unasked: Unasked, job: _Job, rng: np.random.Generator) -> None:
    search, plan, run = job
    arms = np.empty(plan.roles * plan.quantiles.size, np.int64)
    ends = np.zeros(arms.size + 1, np.int64)
    out = np.empty((3, MOST_ROWS), np.int64)
    # threshold, users, phase, and what is heard of them: reports and ones at once, and at the end
    rows = np.empty((7, arms.size * MOST_ROWS), np.int64)
    late = np.empty((run.sizes.size * rows.shape[1] if run.withheld else 0, 5), np.int64)
    held_back = 0
    asked = 0
    heard = 0
    coin = 0
    for turn in range(run.sizes.size):
        count = run.sizes[turn]
        if plan.epochs > 0 and is_due(arrivals, heard, run.users):
            judge(arrivals, table, search, heard, run.users)
        kind = allocate(plan, asked, in_bulk(arrivals) if plan.epochs > 0 else heard, count, arms)
        if run.coins.size > 0:  # a fixed round is one quantile's
            coin = run.coins[turn]
            arms[:] = 0
            arms[turn % arms.size] = count
        phase = phase_at(plan, kind, heard)
        for arm in range(arms.size):
            start = ends[arm]
            fresh = 0
            if arms[arm] > 0:
                fresh = queries_for(table, search, plan, phase, arm, asked, arms[arm], 0.5, out)
            for k in range(fresh):
                for column in range(3):
                    rows[column, start + k] = out[column, k]
            ends[arm + 1] = start + fresh
        for i in range(ends[arms.size]):
            rows[3, i], rows[4, i], rows[5, i], rows[6, i] = _told(
                unasked, run, asked, rows[0, i], rows[1, i], coin, rng
            )
            asked += rows[1, i]
            heard += rows[3, i]
        for arm in range(arms.size):
            side = side_row(plan.roles, arm)
            a, b = ends[arm], ends[arm + 1]
            if plan.epochs == 0 and not run.withheld and b > a:
                add_sorted(table, search, coin, side, kind == BULK, rows[0, a:b], rows[3, a:b], rows[4, a:b])
                continue
            for i in range(a, b):
                _hear(table, arrivals, search, plan, rows[2, i], side, rows[0, i], rows[3, i], rows[4, i])
                if rows[5, i] > 0:
                    late[held_back] = (rows[2, i], side, rows[0, i], rows[5, i], rows[6, i])
                    held_back += 1
    _hear_late(table, arrivals, search, plan, late[:held_back])


@njit(cache=True)
def _in_flight(table: Table, arrivals: Arrivals, unasked: Unasked, job: _Job, rng: np.random.Generator) -> None:
    """`run.flight` users asked at first, then one for each that answers, in the order of asking."""
    search, plan, run = job
    arms = np.empty(plan.roles * plan.quantiles.size, np.int64)
    out = np.empty((3, MOST_ROWS), np.int64)
    queue = np.empty((run.users, 3), np.int64)  # phase, arm, threshold of every user asked
    late = np.empty((run.users if run.withheld else 0, 5), np.int64)
    held_back = 0
    asked = 0
    answered = 0
    heard = 0
    while answered < run.users:
        count = min(run.flight - (asked - answered), run.users - asked)
        if count > 0:
            if plan.epochs > 0 and is_due(arrivals, heard, run.users):
                judge(arrivals, table, search, heard, run.users)
            kind = allocate(plan, asked, in_bulk(arrivals) if plan.epochs > 0 else heard, count, arms)
            phase = phase_at(plan, kind, heard)
            lone = lone_quantile(plan, asked, asked - answered, count)
            before = asked
            for arm in range(arms.size):
                if arms[arm] > 0:
                    rows = queries_for(table, search, plan, phase, arm, before, arms[arm], lone, out)
                    for k in range(rows):
                        for _ in range(out[1, k]):
                            queue[asked] = (out[2, k], arm, out[0, k])
                            asked += 1
        phase, arm, threshold = queue[answered, 0], queue[answered, 1], queue[answered, 2]
        side = side_row(plan.roles, arm)
        reports, ones, back, back_ones = _told(unasked, run, answered, threshold, 1, 0, rng)
        _hear(table, arrivals, search, plan, phase, side, threshold, reports, ones)
        if back > 0:
            late[held_back] = (phase, side, threshold, back, back_ones)
            held_back += 1
        heard += reports
        answered += 1
    _hear_late(table, arrivals, search, plan, late[:held_back])


@njit(cache=True)
def _hear_late(table: Table, arrivals: Arrivals, search: Search, plan: RunPlan, late: Ints) -> None:
    """Take in what was withheld: rows of phase, side, threshold, reports and ones."""
    for k in range(late.shape[0]):
        _hear(table, arrivals, search, plan, late[k, 0], late[k, 1], late[k, 2], late[k, 3], late[k, 4])

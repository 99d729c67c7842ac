"""Who is asked what: the division of a run's users among quantiles, arms and phases.

User number i of a run belongs to quantile i mod Q. With a certified interval each quantile has three arms: the
search itself, the lower and the upper arm. If any quantile is extreme, the first reports are a bulk phase that
searches the median. In a guarded run one user in twenty is asked at an anchor (`epochs`). All of it follows from
how many users were asked and heard, so nothing has to be remembered.
"""

import math
from typing import NamedTuple

from privquant._numba import njit
from privquant.arrays import Floats, Ints
from privquant.protocols.isotonic.epochs import ANCHOR, BULK, KINDS, SEARCH, epoch_at
from privquant.protocols.isotonic.guard import ANCHOR_PLACES, ANCHORS, anchor, anchors_due
from privquant.protocols.isotonic.interval import interval_ends, side_asked, side_threshold
from privquant.protocols.isotonic.posterior import target_rate
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.rules import (
    REUSE,
    SPREAD_POINTS,
    answer,
    is_extreme,
    lone_share,
    spread_thresholds,
    threshold_at,
    weigh_for_query,
)
from privquant.protocols.isotonic.table import Table

MOST_ROWS = SPREAD_POINTS + ANCHOR_PLACES
"""Different questions of one arm in one batch, at most."""


class RunPlan(NamedTuple):
    """The plan of a run.

    users:   users planned for each quantile.
    bulk:    reports before which the bulk phase asks; 0 without one.
    spread:  half-width of the posterior quantiles over which a batch is spread; 0 asks one threshold.
    roles:   arms for each quantile: 1, or 3 with an interval (search, lower, upper).
    start, quota:  of the side arms of each quantile.
    bounds:  of the walk, one for each side arm.
    smooth:  whether answers follow a curve through the rates.
    epochs:  parts of the run that are judged against each other; 0 where none is.
    """

    quantiles: Floats
    users: Ints
    bulk: int
    spread: float
    roles: int
    start: Ints
    quota: Ints
    bounds: Floats
    smooth: bool
    epochs: int


@njit(cache=True)
def of_quantile(users: int, which: int, quantiles: int) -> int:
    """How many of the first `users` users belong to one of the quantiles."""
    return (users + quantiles - 1 - which) // quantiles


@njit(cache=True)
def allocate(plan: RunPlan, asked: int, bulk: int, count: int, arms: Ints) -> int:
    """Divide the next `count` users among the arms; what they are asked for, BULK or SEARCH.

    bulk: reports that count for the bulk phase: all that were heard, or in a guarded run those still believed.
    """
    arms[:] = 0
    if bulk < plan.bulk:
        arms[0] = count
        return BULK
    quantiles = plan.quantiles.size
    for j in range(quantiles):
        before = of_quantile(asked, j, quantiles)
        after = of_quantile(asked + count, j, quantiles)
        mine = after - before
        if plan.roles == 3:
            for side in range(2):
                due = side_asked(after, plan.users[j], plan.start[j], plan.quota[j], side == 1)
                due -= side_asked(before, plan.users[j], plan.start[j], plan.quota[j], side == 1)
                due = min(due, mine)
                arms[3 * j + 1 + side] = due
                mine -= due
        arms[plan.roles * j] = mine
    return SEARCH


@njit(cache=True)
def side_row(roles: int, arm: int) -> int:
    """The table's row of a side arm: two a quantile, the lower one first; -1 for an arm that searches."""
    role = arm % roles
    return 2 * (arm // roles) + role - 1 if role > 0 else -1


@njit(cache=True)
def lone_quantile(plan: RunPlan, asked: int, in_flight: int, count: int) -> float:
    """The posterior quantile asked at: 1/2, unless a user is asked alone while others are in flight."""
    if plan.spread > 0.0 and count == 1 and in_flight > 0:
        return lone_share(plan.spread, asked)
    return 0.5


@njit(cache=True)
def thresholds_for(
    table: Table, search: Search, plan: RunPlan, phase: int, arm: int, count: int, lone: float, out: Ints
) -> int:
    """Where `count` users of one arm are asked: thresholds in out[0], users in out[1]; how many there are.

    lone: the posterior quantile for a user asked alone while others are in flight; else 1/2.
    """
    j = arm // plan.roles
    row = side_row(plan.roles, arm)
    out[1, 0] = count
    if row >= 0:
        quantile, bound = plan.quantiles[j], plan.bounds[row]
        out[0, 0] = side_threshold(table, search, quantile, row, plan.quota[j], bound, plan.users[j])
        return 1
    quantile = 0.5 if phase == BULK and plan.bulk > 0 else plan.quantiles[j]
    boosted = phase != BULK and plan.bulk > 0 and is_extreme(quantile)
    weigh_for_query(table, search, quantile, boosted, 1.0 / plan.quantiles.size)
    if plan.spread == 0.0 or count == 1:
        out[0, 0] = threshold_at(table, search, lone, REUSE)
        return 1
    points = min(count, SPREAD_POINTS)
    spread_thresholds(table, search, plan.spread, points, out[0])
    for point in range(points):
        out[1, point] = count // points + (1 if point < count % points else 0)
    return points


@njit(cache=True)
def phase_at(plan: RunPlan, kind: int, heard: int) -> int:
    """The phase of questions of this kind when so many users were heard."""
    if plan.epochs == 0:
        return kind
    users = 0
    for planned in plan.users:
        users += planned
    return kind + KINDS * epoch_at(heard, users, plan.epochs)


@njit(cache=True)
def anchors_in(plan: RunPlan, phase: int, arm: int, asked: int, count: int) -> int:
    """How many of the next `count` users of an arm are asked at anchors: none in the first epoch."""
    if plan.epochs == 0 or phase < KINDS or phase % KINDS != SEARCH:
        return 0
    return anchors_due(of_quantile(asked, arm, plan.quantiles.size), count)


@njit(cache=True)
def queries_for(
    table: Table,
    search: Search,
    plan: RunPlan,
    phase: int,
    arm: int,
    asked: int,
    count: int,
    lone: float,
    out: Ints,
) -> int:
    """Where `count` users of one arm are asked: thresholds, users, phases in the rows of out; how many there are.

    asked: users of the whole run asked before.
    """
    kind = phase % KINDS if plan.epochs > 0 else phase
    due = anchors_in(plan, phase, arm, asked, count)
    rows = thresholds_for(table, search, plan, kind, arm, max(count - due, 1), lone, out)
    out[2, :rows] = phase
    middle = out[0, rows // 2]
    if due == count:
        rows = 0
    places = min(due, ANCHOR_PLACES)
    before = of_quantile(asked, arm // plan.roles, plan.quantiles.size)
    for place in range(places):
        # the weights that the search asks by are still in the table
        threshold = anchor(table, math.floor(ANCHORS * before) + place)
        out[0, rows] = threshold if threshold >= 0 else middle
        out[1, rows] = due // places + (1 if place < due % places else 0)
        out[2, rows] = phase - SEARCH + ANCHOR if threshold >= 0 else phase
        rows += 1
    return rows


@njit(cache=True)
def answers(table: Table, search: Search, plan: RunPlan, out: Ints) -> None:
    """The answers for all quantiles, rising."""
    for j in range(plan.quantiles.size):
        q = plan.quantiles[j]
        out[j] = answer(table, search, q, plan.bulk > 0 and is_extreme(q), plan.smooth)
        if j > 0 and out[j] < out[j - 1]:
            out[j] = out[j - 1]


@njit(cache=True)
def certified(table: Table, search: Search, plan: RunPlan, out: Ints) -> None:
    """The ends of all intervals, one row a quantile; -1 where there is no bound."""
    for j in range(plan.quantiles.size):
        target = target_rate(search, plan.quantiles[j])
        interval_ends(table, 2 * j, target, plan.quota[j], plan.bounds, out[j])

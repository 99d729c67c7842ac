"""Plans hold: goals drawn at random, each run as planned on data the calibration has never seen.

The long form (`make test-full`) is 40 plans of 2,000 runs: nine in ten are kept within .03 of their confidence, and
none misses it by .06. On the hardest data, of the family they were planned for, it is two in three, and none by .1:
docs/planning.md says where that law is crude. The short form is a few of the same plans; both fail on plans with
three quarters of the users.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from plans import UNSEEN, random_plans, successes, users_planned

import privquant as pq
from privquant.lab.studies.settings import FAMILIES

RUNS = 300


def off(planned, runs, seed=41):
    return np.array(successes(planned, runs, seed)) - [one.confidence for one in planned]


def small(kind):
    """The first of the 40 plans that are cheap to run."""
    return [one for one in random_plans(16, 40, kind) if one.users < 8000][:6]


def beyond(planned, found):
    """How many plans are further from their confidence than .03 and three standard errors of the runs."""
    errors = [math.sqrt(one.confidence * (1.0 - one.confidence) / RUNS) for one in planned]
    return int(np.sum(np.abs(found) > 0.03 + 3.0 * np.array(errors)))


def test_the_shapes_are_not_the_calibrations():
    assert not set(UNSEEN) & {name for family in FAMILIES.values() for name in family}


def test_the_users_are_those_of_the_plan():
    goal = {"alpha": 0.03, "epsilon": 1.0, "confidence": 0.9}
    made = pq.plan(domain=(0, 2**20 - 1), quantile=0.7, trust="local", **goal)
    row = next(row for row in made.rows if row.kind == "measured")
    for kind, users in (("typical", row.value), ("hardest", row.hardest)):
        assert users_planned(kind, 0.7, size=2**20, **goal) == math.ceil(users)


@pytest.mark.parametrize("kind", ["typical", "hardest"])
def test_plans_hold_short(kind):
    """Six plans of 300 runs. If all are kept exactly, one in 2,000 has its mean beyond .03 (an error of .0085), and
    one in 10^6 any plan beyond .03 and three errors."""
    planned = small(kind)
    found = off(planned, RUNS)
    assert found.size >= 4
    assert abs(np.mean(found)) < 0.03
    assert beyond(planned, found) == 0


@pytest.mark.parametrize("kind", ["typical", "hardest"])
def test_three_quarters_of_the_users_are_not_enough(kind):
    """The twin."""
    fewer = [replace(one, users=3 * one.users // 4) for one in small(kind)]
    assert np.mean(off(fewer, RUNS)) < -0.03


@pytest.mark.full
@pytest.mark.parametrize(("kind", "below", "near"), [("typical", 0.06, 0.9), ("hardest", 0.1, 0.66)])
def test_plans_hold(kind, below, near):
    found = off(random_plans(40, 40, kind), 2000)
    assert found.min() >= -below
    assert np.mean(np.abs(found) <= 0.03) >= near

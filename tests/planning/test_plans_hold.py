"""Plans hold: goals drawn at random, each run as planned on data the calibration has never seen.

The long form (`make test-full`) is 40 plans of 2,000 runs: nine in ten are kept within .03 of their confidence, and
none misses it by .06; plans near that are run again, 12,000 times, as 2,000 have an error of .01. On the hardest
data, of the family they were planned for, none misses it by .05; they are planned with caution, and most do better
than said. The short form is a few of the same plans; both fail on plans with three quarters of the users, of the
hardest half.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from plans import UNSEEN, random_plans, successes, users_planned

import privquant as pq
from studies.calibration.settings import FAMILIES

RUNS = 300


def off(planned, runs, seed=41):
    return np.array(successes(planned, runs, seed)) - [one.confidence for one in planned]


def small(kind):
    """The first of the 40 plans that are cheap to run."""
    return [one for one in random_plans(16, 40, kind) if one.users < 8000][:6]


def beyond(planned, found, allowed):
    """How many plans are further from their confidence than allowed and three standard errors of the runs."""
    errors = [math.sqrt(one.confidence * (1.0 - one.confidence) / RUNS) for one in planned]
    return int(np.sum(found > allowed + 3.0 * np.array(errors)))


def test_the_shapes_are_not_the_calibrations():
    assert not set(UNSEEN) & {name for family in FAMILIES.values() for name in family}


def test_the_users_are_those_of_the_plan():
    goal = {"alpha": 0.03, "epsilon": 1.0, "confidence": 0.9}
    made = pq.plan(domain=(0, 2**20 - 1), quantile=0.7, trust="local", **goal)
    row = next(row for row in made.rows if row.kind == "measured")
    for kind, users in (("typical", row.value), ("hardest", row.hardest)):
        assert users_planned(kind, 0.7, size=2**20, **goal) == math.ceil(users)


def test_typical_plans_hold_short():
    """Six plans of 300 runs. If all are kept exactly, one in 2,000 has its mean beyond .03 (an error of .0085), and
    one in 10^6 any plan beyond .03 and three errors."""
    planned = small("typical")
    found = off(planned, RUNS)
    assert found.size >= 4
    assert abs(np.mean(found)) < 0.03
    assert beyond(planned, np.abs(found), 0.03) == 0


def test_three_quarters_of_the_users_are_not_enough():
    """The twin."""
    fewer = [replace(one, users=3 * one.users // 4) for one in small("typical")]
    assert np.mean(off(fewer, RUNS)) < -0.03


def test_the_hardest_plans_hold_short():
    """As above; only to miss the confidence is wrong."""
    planned = small("hardest")
    found = off(planned, RUNS)
    assert found.size >= 4
    assert np.mean(found) > -0.03
    assert beyond(planned, -found, 0.05) == 0


def test_half_of_the_users_are_not_enough_for_the_hardest():
    """The twin."""
    fewer = [replace(one, users=one.users // 2) for one in small("hardest")]
    assert np.mean(off(fewer, RUNS)) < -0.03


@pytest.mark.full
def test_typical_plans_hold():
    planned = random_plans(40, 40, "typical")
    found = off(planned, 2000)
    for k in np.flatnonzero(found < -0.05):
        found[k] = off([planned[k]], 12_000, seed=42)[0]
    assert found.min() >= -0.06
    assert np.mean(np.abs(found) <= 0.03) >= 0.9


@pytest.mark.full
def test_the_hardest_plans_hold():
    assert off(random_plans(40, 40, "hardest"), 2000).min() >= -0.05

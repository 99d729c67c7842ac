"""Isotonic search by count, to 10^9 users, against asking users one by one: seconds of processor of a trial.

Above 10^5 users nobody is asked one by one: the baseline is what a user cost there, times the users.
"""

from __future__ import annotations

import numpy as np
from measure import Row, processor_seconds, row

from privquant.domain import Integers
from privquant.lab.engine import simulator
from privquant.lab.populations import Users
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.lab.shapes import shape
from privquant.protocols.isotonic.protocol import Isotonic

USERS = (2500, 10**5, 10**7, 10**9)
LISTED = 10**5
SIZE = 4**9
EPSILON = 0.879
TRIALS = 40


def crowd(users: int) -> Sample:
    """Pareto users; very large crowds repeat a drawn histogram."""
    drawn = shape("pareto", min(users, 10**6), SIZE, np.random.default_rng(1))
    values, counts = np.unique(drawn, return_counts=True)
    return Sample.of_counts(values, counts * max(1, users // 10**6), SIZE)


def template(users: int) -> Isotonic:
    return Isotonic(Integers(0, SIZE - 1), users=users, epsilon=EPSILON)


def by_count(users: int) -> float:
    """Seconds of a trial after start-up."""
    made, sample, rng = template(users), crowd(users), np.random.default_rng(2)
    simulate = simulator(made)
    simulate(made, sample, 1, rng)  # compiled code is loaded here
    return processor_seconds(lambda: simulate(made, sample, TRIALS, rng)) / TRIALS


def one_by_one(users: int) -> float:
    """Seconds of one run after start-up."""

    def work(count: int) -> float:
        asked = Users(crowd(count), np.random.default_rng(3))
        return processor_seconds(lambda: run(template(count), asked, batch=1))

    work(100)  # compiled code is loaded here
    return work(users)


def rows() -> list[Row]:
    slow = {users: one_by_one(users) for users in USERS if users <= LISTED}
    return [
        row(
            "isotonic search by count against one by one",
            f"Pareto data, n = {users:,}, B = 4^9" + ("" if users in slow else ", baseline by the user"),
            slow.get(users, slow[LISTED] / LISTED * users),
            by_count(users),
            "trial",
            users=users,
        )
        for users in USERS
    ]

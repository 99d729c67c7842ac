"""Schedules: how many are asked before feedback, the same for the driver and for the engine."""

from __future__ import annotations

import numpy as np
import pytest

from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.lab.engine import simulate_by_asking, simulator
from privquant.lab.populations import CountUsers
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.lab.schedule import Schedule
from privquant.lab.shapes import shape
from privquant.protocols.isotonic import Isotonic
from privquant.protocols.isotonic.shuffled import shuffled_isotonic
from privquant.protocols.naive.shuffled import shuffled_search
from privquant.protocols.rounds import growing_sizes

LISTS = [Schedule.batches(7), Schedule.equal(13), Schedule.rounds(13), Schedule.growing(0.2)]


@pytest.mark.parametrize("schedule", LISTS, ids=str)
@pytest.mark.parametrize("users", [0, 1, 5, 100, 2_501])
def test_every_user_is_in_one_round(schedule: Schedule, users: int) -> None:
    sizes = schedule.sizes(users)
    assert sizes is not None
    assert sum(sizes) == users
    assert all(size > 0 for size in sizes)


@pytest.mark.parametrize("users", [40, 2_500, 100_000])
@pytest.mark.parametrize("rounds", [1, 2, 8, 32])
def test_rounds_are_as_many_as_asked_for_and_never_shrink(users: int, rounds: int) -> None:
    sizes = Schedule.rounds(rounds).sizes(users)
    assert sizes is not None
    assert len(sizes) == rounds
    assert all(after >= before - 1 for before, after in zip(sizes, sizes[1:], strict=False))
    if rounds > 2:
        assert sizes[0] < users / rounds < sizes[-1]


def test_growing_by_a_fifth_takes_28_rounds_of_2500() -> None:
    sizes = growing_sizes(2500, 8, 0.2)
    assert len(sizes) == 28
    assert sizes[:6] == [8, 8, 8, 8, 8, 8]
    assert len(growing_sizes(2500, 8, 0.1)) == 47


@pytest.mark.parametrize("schedule", LISTS, ids=str)
def test_the_driver_asks_the_rounds_of_the_list(schedule: Schedule) -> None:
    sample = Sample(shape("pareto", 300, 1000, np.random.default_rng(1)), 1000)
    protocol, heard = Isotonic(Integers(0, 999), users=300, epsilon=1.0), [0]
    users = CountUsers(sample, np.random.default_rng(2))
    run(protocol, users, schedule=schedule, progress=lambda n, _: heard.append(n))
    assert np.diff(heard).tolist() == schedule.sizes(300)


def test_a_schedule_says_what_it_is_and_refuses_what_is_none() -> None:
    assert [str(s) for s in (Schedule(), Schedule.rounds(8), Schedule.growing(0.2))] == [
        "suggested",
        "rounds=8",
        "growing=0.2",
    ]
    for wrong in (("rounds", 0), ("rounds", 2.5), ("batches", True), ("growing", 0.0), ("sometimes", 3)):
        with pytest.raises(InvalidInput):
            Schedule(*wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="at most one of batch, rounds and in_flight, got batch and rounds"):
        Schedule.of(batch=1, rounds=2)
    with pytest.raises(InvalidInput, match="not both"):
        run(Isotonic(Integers(0, 9), users=5, epsilon=1.0), None, rounds=2, schedule=Schedule.rounds(3))


@pytest.mark.parametrize("build", [shuffled_isotonic, shuffled_search])
def test_rounds_that_privacy_rests_on_are_not_cut_up(build) -> None:  # type: ignore[no-untyped-def]
    """In the shuffle model a round's number is part of the promise: any other schedule is refused."""
    template = build(Integers(0, 999), users=20_000, epsilon=1.0, delta=1e-6)
    assert template.guarantee.trust == "shuffle"
    for schedule in (Schedule.rounds(8), Schedule.batches(5), Schedule.in_flight(10)):
        with pytest.raises(InvalidInput, match="brings its own rounds"):
            run(template.fresh(), None, schedule=schedule)
        with pytest.raises(InvalidInput, match="brings its own rounds"):
            simulator(template, schedule)
    assert simulator(template) is not simulate_by_asking

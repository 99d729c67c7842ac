"""One person's device behind another carrier: the same ledger, the same limits, never a second bit."""

from __future__ import annotations

from pathlib import Path

import pytest

import privquant as pq
from privquant.device.policy import Policy, Rule
from privquant.device.refusals import PolicyRefused
from privquant.engines import Answered, OneUser, PartitionedPopulation
from privquant.engines.partitions import PartitionRefused
from privquant.errors import InvalidInput
from privquant.lab.schedule import Schedule
from privquant.messages import Query
from privquant.privacy.coin import Coin

COIN = Coin.of(1.0).threshold
ASKED = ((Query(50, COIN), 1),)


def user(folder: Path, value: float = 40, **limits: object) -> OneUser:
    rule = Rule(pq.Integers(0, 99), 1.0, **limits)
    return OneUser(value, Policy({"age": rule}, folder / "ledger"), "age")


def test_one_bit_a_campaign_whatever_is_repeated(tmp_path) -> None:
    first = user(tmp_path)
    assert first.open("c") == 1
    bits = {reply.ones for _ in range(40) for reply in user(tmp_path).answer("c", 3, ASKED)}
    assert len(bits) == 1
    assert user(tmp_path).open("c") == 1
    for number, other in ((3, ((Query(51, COIN), 1),)), (4, ASKED)):
        with pytest.raises(PartitionRefused, match="another question"):
            user(tmp_path).answer("c", number, other)
    assert user(tmp_path).kept() == [{"campaign": "c", "round": 3, "threshold": 50}]


def test_a_second_campaign_meets_the_ledger(tmp_path) -> None:
    user(tmp_path).answer("c", 1, ASKED)
    assert user(tmp_path).open("d") == 0
    with pytest.raises(PolicyRefused, match="answered for 1 campaign"):
        user(tmp_path).answer("d", 1, ASKED)
    generous = user(tmp_path, answers=2, lifetime_epsilon=2.0)
    assert generous.open("d") == 1
    assert generous.answer("d", 1, ASKED)


def test_what_the_policy_does_not_allow_is_refused(tmp_path) -> None:
    with pytest.raises(PolicyRefused, match="epsilon"):
        user(tmp_path).answer("c", 1, ((Query(50, Coin.of(1.1).threshold), 1),))
    with pytest.raises(PartitionRefused, match="threshold"):
        user(tmp_path).answer("c", 1, ((Query(99, COIN), 1),))
    with pytest.raises(PartitionRefused, match="one threshold question"):
        user(tmp_path).answer("c", 1, ((Query(50, COIN), 2),))
    with pytest.raises(InvalidInput, match="no measurement 'pay'"):
        OneUser(4, Policy({"age": Rule(pq.Integers(0, 99), 1.0)}, tmp_path / "ledger"), "pay")


def test_persons_are_a_population(tmp_path) -> None:
    people = []
    for k in range(60):
        (tmp_path / str(k)).mkdir()
        people.append(user(tmp_path / str(k), k))
    population = PartitionedPopulation(people, campaign="c")
    protocol = pq.protocol("isotonic", (0, 99), users=60, epsilon=1.0, spread=0.25)
    found = pq.run(protocol, population, schedule=Schedule.growing(0.5))
    assert (found.users, population.users) == (60, 0)
    assert all(
        isinstance(r, Answered) for r in people[0].answer("c", people[0].kept()[0]["round"], _asked(people[0]))
    )


def _asked(person: OneUser) -> tuple[tuple[Query, int], ...]:
    return ((Query(person.kept()[0]["threshold"], COIN, 1), 1),)

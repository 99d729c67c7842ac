"""The audit: it catches what breaks its promise, passes what keeps it, and is wrong as rarely as it says.

Our own coin takes no seed: where it is thrown the false-alarm rate of the test is 1e-6 or less.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privquant.errors import InvalidInput
from privquant.privacy.audit import audit
from privquant.privacy.coin import Coin
from privquant.privacy.randomizers import (
    CallableRandomizer,
    CoinRandomizer,
    CommandRandomizer,
    coin_randomizer,
    law_epsilon,
)


@dataclass
class Seeded:
    """A randomizer with given output laws and a seed, for the simulator only."""

    laws: Sequence[Sequence[float]]
    rng: np.random.Generator

    @property
    def inputs(self) -> Sequence[int]:
        return range(len(self.laws))

    def draw(self, value: int, n: int) -> Mapping[Hashable, int]:
        return dict(enumerate(self.rng.multinomial(n, self.laws[value]).tolist()))


def _coin_laws(epsilon: float) -> list[list[float]]:
    p = 1 / (1 + math.exp(-epsilon))
    return [[p, 1 - p], [1 - p, p]]


def test_a_coin_of_1_05_sold_as_1_is_caught() -> None:
    """Two million throws; missed only if the estimate is off by 20 standard deviations."""
    found = audit(coin_randomizer(1.05), epsilon=1.0, draws=2_000_000, confidence=1 - 1e-6)
    assert found.caught
    assert 1.0 < found.lower < 1.05


def test_an_honest_coin_passes() -> None:
    """False alarm at most 1e-6, by the confidence asked for."""
    found = audit(coin_randomizer(1.0), epsilon=1.0, draws=2_000_000, confidence=1 - 1e-6)
    assert not found.caught
    assert 0.97 < found.lower <= 1.0


def test_the_device_function_itself_passes() -> None:
    """`Coin.throw`, one call a draw: false alarm at most 1e-6. As many throws catch a coin of 1.3 (twin)."""
    assert not audit(coin_randomizer(1.0, shipped=True), epsilon=1.0, draws=50_000, confidence=1 - 1e-6).caught
    assert audit(coin_randomizer(1.3, shipped=True), epsilon=1.0, draws=50_000, confidence=1 - 1e-6).caught


@pytest.mark.full
def test_ten_million_throws_of_the_device_function() -> None:
    """False alarm at most 1e-6; a coin 1 % too honest is caught by the same audit (miss below 1e-6)."""
    for epsilon in (0.1, 1.0, 4.0):
        assert not audit(coin_randomizer(epsilon), epsilon=epsilon, draws=10**7, confidence=1 - 1e-6).caught
    assert not audit(coin_randomizer(1.0, shipped=True), epsilon=1.0, draws=10**7, confidence=1 - 1e-6).caught
    assert audit(coin_randomizer(1.02), epsilon=1.0, draws=10**7, confidence=1 - 1e-6).caught


def test_the_audit_is_wrong_as_rarely_as_it_says() -> None:
    """500 audits of an honest coin at confidence 0.9: at most 50 false alarms are expected; more than 80 have
    probability below 1e-4. The twin, a coin of 1.1, is caught nearly always."""
    rng = np.random.default_rng(3)
    honest = sum(
        audit(Seeded(_coin_laws(1.0), rng), epsilon=1.0, draws=10_000, confidence=0.9).caught for _ in range(500)
    )
    assert honest <= 80
    caught = sum(
        audit(Seeded(_coin_laws(1.1), rng), epsilon=1.0, draws=100_000, confidence=0.9).caught for _ in range(50)
    )
    assert caught >= 45


def test_choosing_and_judging_on_the_same_throws_would_accuse_the_honest() -> None:
    """Twin of the split: with many outputs the best-looking event of the same throws is too good to be true."""
    rng = np.random.default_rng(5)
    flat = [[1 / 200] * 200, [1 / 200] * 200]
    split = sum(audit(Seeded(flat, rng), epsilon=0.05, draws=4_000, confidence=0.9).caught for _ in range(100))
    same = 0
    for _ in range(100):
        a, b = (rng.multinomial(4_000, flat[0]) for _ in range(2))
        event = a > b
        same += math.log(a[event].sum() / b[event].sum()) > 0.05
    assert split <= 22
    assert same == 100


def test_an_event_of_several_outputs_is_found() -> None:
    """The ratio of every single output is the same; only together do they show it. Fixed seed."""
    rng = np.random.default_rng(9)
    up, down = math.e / (1 + math.e), 1 / (1 + math.e)
    laws = [[up / 50] * 50 + [down / 50] * 50, [down / 50] * 50 + [up / 50] * 50]
    found = audit(Seeded(laws, rng), epsilon=0.8, draws=20_000)
    assert found.caught
    assert found.lower > 0.85
    assert len(found.event) >= 25


def test_the_worst_of_several_inputs_is_found() -> None:
    laws = [[0.5, 0.5], [0.52, 0.48], [0.9, 0.1]]
    found = audit(Seeded(laws, np.random.default_rng(1)), epsilon=1.0, draws=100_000)
    assert found.caught
    assert found.inputs == (0, 2)
    assert found.lower <= math.log(5)


def test_an_output_that_gives_an_input_away_is_caught() -> None:
    laws = [[0.5, 0.5, 0.0], [0.4, 0.4, 0.2]]
    found = audit(Seeded(laws, np.random.default_rng(2)), epsilon=3.0, draws=100_000)
    assert found.caught
    assert found.event == (2,)


def test_exact_laws_give_the_exact_epsilon() -> None:
    for epsilon in (1e-6, 0.1, 1.0, 5.0, 36.0):
        randomizer = coin_randomizer(epsilon)
        assert sum(randomizer.law(1).values()) == 1
        assert randomizer.epsilon == pytest.approx(randomizer.coin.epsilon, rel=1e-9)
        assert randomizer.epsilon <= epsilon * (1 + 1e-9)
    assert law_epsilon([{0: Fraction(1)}, {1: Fraction(1)}]) == math.inf
    assert law_epsilon([{0: Fraction(1)}, {0: Fraction(1)}]) == 0.0


def test_the_fast_draws_follow_the_law() -> None:
    """The bulk twin of the coin, at a flip rate of 1/4: within 5.5 sd (false alarm 4e-8); 0.26 is told apart."""
    n = 1_000_000
    quarter = CoinRandomizer(Coin(2**62))
    ones = quarter.draw(0, n)[1]
    assert abs(ones - n / 4) < 5.5 * math.sqrt(n * 3 / 16)
    assert abs(quarter.draw(1, n)[0] - n / 4) < 5.5 * math.sqrt(n * 3 / 16)
    wrong = CoinRandomizer(Coin(round(0.26 * 2**64)))
    assert abs(wrong.draw(0, n)[1] - n / 4) > 5.5 * math.sqrt(n * 3 / 16)


def test_a_callable_is_audited() -> None:
    """Fixed seed. The honest one is accused with probability 1e-3 over the choice of the seed."""
    rng = random.Random(4)

    def response(bit: int, keep: float) -> str:
        return "yes" if (rng.random() < keep) == bool(bit) else "no"

    honest = audit(CallableRandomizer(lambda bit: response(bit, 0.73)), epsilon=1.0, draws=50_000)
    liar = audit(CallableRandomizer(lambda bit: response(bit, 0.80)), epsilon=1.0, draws=50_000)
    assert not honest.caught
    assert liar.caught
    assert liar.to_dict()["event"] in (["yes"], ["no"])


_PROGRAM = (
    "import random, sys; rng = random.Random(int(sys.argv[1])); b = int(sys.argv[1]); n = int(sys.argv[2])\n"
    "print('\\n'.join(str(b ^ (rng.random() < float(sys.argv[3]))) for _ in range(n)))"
)


def _program(flip: float) -> CommandRandomizer:
    return CommandRandomizer(f'"{sys.executable}" -c "{_PROGRAM}" {{input}} {{draws}} {flip}')


def test_a_command_is_audited() -> None:
    assert not audit(_program(0.28), epsilon=1.0, draws=50_000).caught
    assert audit(_program(0.22), epsilon=1.0, draws=50_000).caught


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo 1", "must contain {input} and {draws}"),
        ("no-such-program-here {input} {draws}", "cannot be audited"),
        (f'"{sys.executable}" -c "print(1)" {{input}} {{draws}}', "printed 1"),
        (f'"{sys.executable}" -c "raise SystemExit(3)" {{input}} {{draws}}', "ended with code 3"),
    ],
)
def test_a_command_that_cannot_be_audited_is_refused(command: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        audit(CommandRandomizer(command), epsilon=1.0, draws=100)


class Forgetful:
    """Loses a throw."""

    inputs = (0, 1)

    def draw(self, value: Any, n: int) -> Mapping[Hashable, int]:
        return Counter({value: n - 1})


def test_a_randomizer_that_loses_throws_is_refused() -> None:
    with pytest.raises(InvalidInput, match="thrown 25 times"):
        audit(Forgetful(), epsilon=1.0, draws=100)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"draws": 3}, "draws must be at least 4"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"epsilon": 0.0}, "epsilon must be"),
    ],
)
def test_bad_settings_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        audit(coin_randomizer(1.0), **{"epsilon": 1.0, "draws": 100, **given})


def test_unhashable_outputs_and_single_inputs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="hashable"):
        audit(CallableRandomizer(lambda bit: [bit]), epsilon=1.0, draws=10)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidInput, match="at least 2 inputs"):
        audit(CallableRandomizer(lambda bit: bit, inputs=(0,)), epsilon=1.0, draws=10)

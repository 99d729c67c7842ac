"""The bit the JavaScript device gives, thrown and counted by the code of `privquant audit`.

The coin cannot be seeded. An honest one fails each test here with probability at most 1e-6: the audit's own
confidence for the accusation, and five standard deviations more for the check that the audit is not blind.
"""

import pytest
from nodejs import HERE, node

from privquant.privacy.audit import audit
from privquant.privacy.randomizers import CommandRandomizer

CONFIDENCE = 1 - 1e-6
DRAWS = 1_000_000


def device_at(epsilon: float, bias: str = "") -> CommandRandomizer:
    """The device's whole way from an index to a bit, for one on each side of the threshold."""
    command = f"'{node()}' '{HERE / 'throw.mjs'}' {epsilon} {{input}} {{draws}} {bias}"
    return CommandRandomizer(command, inputs=("50", "51"))


@pytest.mark.parametrize("epsilon", [pytest.param(0.5, marks=pytest.mark.full), 1.0])
def test_a_million_throws_keep_their_epsilon(epsilon):
    found = audit(device_at(epsilon), epsilon=epsilon, draws=DRAWS, confidence=CONFIDENCE)
    assert not found.caught, str(found)
    assert found.lower > epsilon - 0.04, "the audit sees almost all of the epsilon, so it would see more"


def test_a_coin_that_leaves_out_a_tenth_of_its_flips_is_caught():
    """The twin. Its true epsilon is ln(.758/.242) = 1.142; the bound lies 0.015 below; missed below 1e-6."""
    assert audit(device_at(1.0, "10"), epsilon=1.0, draws=DRAWS, confidence=CONFIDENCE).caught

"""The bit the shipped device gives, thrown and counted: its epsilon is what it is sold as.

The coin cannot be seeded. An honest one fails each test here with probability at most 1e-6: the audit's own
confidence for the accusation, and five standard deviations more for the check that the audit is not blind.
"""

import pytest

from privquant.device.client import respond
from privquant.privacy.audit import audit
from privquant.privacy.coin import Coin
from privquant.privacy.randomizers import CallableRandomizer

CONFIDENCE = 1 - 1e-6


def device_at(epsilon: float) -> CallableRandomizer:
    """The device's whole way from an index to a bit, for one on each side of the threshold."""
    coin = Coin.of(epsilon)
    return CallableRandomizer(lambda index: respond(coin, index, 50), inputs=(50, 51))


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_the_shipped_coin_keeps_its_epsilon(epsilon):
    found = audit(device_at(epsilon), epsilon=epsilon, draws=200_000, confidence=CONFIDENCE)
    assert not found.caught, str(found)
    assert found.lower > epsilon - 0.1, "the audit sees almost all of the epsilon, so it would see more"


def test_a_coin_that_is_a_tenth_too_honest_is_caught():
    """The twin. Its power: the bound lies 0.03 below the truth, and 0.1 above is claimed; missed below 1e-6."""
    assert audit(device_at(1.1), epsilon=1.0, draws=200_000, confidence=CONFIDENCE).caught


@pytest.mark.full
def test_ten_million_throws():
    found = audit(device_at(1.0), epsilon=1.0, draws=10**7, confidence=CONFIDENCE)
    assert not found.caught, str(found)
    assert found.lower > 0.985
    assert audit(device_at(1.02), epsilon=1.0, draws=10**7, confidence=CONFIDENCE).caught

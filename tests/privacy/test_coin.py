"""The coin: its integer probability, the epsilon it really gives, and what a draw does to a bit."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from coin_vectors import coin_vectors

from privquant.errors import InvalidInput
from privquant.privacy.coin import DRAW, Coin, flip_threshold, real_epsilon

VECTORS = Path(__file__).parents[2] / "docs" / "vectors" / "coin.json"

# 120 digits: twice what the coin computes with.
_PRECISE = Context(prec=120)


def _too_honest(threshold: int, epsilon: float) -> bool:
    """Whether ln((2^64 - T)/T) > epsilon: e^epsilon below the odds, by 100 digits more than either has."""
    return _PRECISE.divide(Decimal(DRAW - threshold), Decimal(threshold)) > _PRECISE.exp(Decimal(epsilon))


def _random_epsilons(count: int) -> list[float]:
    rng = random.Random(20240711)
    return [math.exp(rng.uniform(math.log(1e-6), math.log(36.0))) for _ in range(count)]


def test_the_real_epsilon_never_exceeds_the_asked_one() -> None:
    for epsilon in _random_epsilons(10_000):
        threshold = flip_threshold(epsilon)
        assert not _too_honest(threshold, epsilon)
        assert real_epsilon(threshold) <= epsilon


def test_the_threshold_is_the_smallest_that_keeps_the_promise() -> None:
    """The twin: one less is already too honest, so the check above can fail."""
    for epsilon in _random_epsilons(1_000):
        assert _too_honest(flip_threshold(epsilon) - 1, epsilon)


def test_a_float_formula_would_break_the_promise() -> None:
    """Why no float takes part: the obvious one-liner is too honest about every second time."""
    naive = [math.ceil(DRAW / (1 + math.exp(e))) for e in _random_epsilons(1_000)]
    broken = sum(_too_honest(t, e) for t, e in zip(naive, _random_epsilons(1_000), strict=True))
    assert broken > 100


def test_no_epsilon_is_lost_beyond_the_width_of_a_draw() -> None:
    """Up to 36 the real epsilon is within e^eps / 2^64 (one step of T) and rounding of the asked one."""
    for epsilon in _random_epsilons(1_000):
        step = (math.exp(epsilon) + 2 + math.exp(-epsilon)) / DRAW
        assert real_epsilon(flip_threshold(epsilon)) >= epsilon - 1.01 * step - 1e-15 * epsilon


def test_the_ends_of_the_scale() -> None:
    assert flip_threshold(44.37) == 1
    assert flip_threshold(1000) == 1
    assert flip_threshold(44.36) == 2
    assert flip_threshold(43) == 4
    assert flip_threshold(1e-9) < DRAW // 2
    assert real_epsilon(DRAW // 2 - 1) == pytest.approx(4 / DRAW, rel=1e-15)


@pytest.mark.parametrize("wrong", [0, -1.0, math.nan, math.inf, True, "1", None, 1e-12])
def test_an_epsilon_that_cannot_be_is_refused_in_one_line(wrong: object) -> None:
    with pytest.raises(InvalidInput, match=r"^epsilon must be .*$"):
        flip_threshold(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0, DRAW // 2, -5, 1.5, True, None])
def test_a_threshold_that_cannot_be_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInput, match="flip threshold"):
        Coin(wrong)  # type: ignore[arg-type]


def test_debiasing_undoes_the_coin_really_thrown() -> None:
    for epsilon in (1e-6, 0.1, 1.0, 5.0, 36.0):
        coin = Coin.of(epsilon)
        flip = Fraction(coin.threshold, DRAW)
        for rate in (Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1)):
            reported = rate * (1 - flip) + (1 - rate) * flip
            assert coin.report_rate(float(rate)) == pytest.approx(float(reported), abs=1e-15)
            exact = Fraction(1, 2) + (reported - Fraction(1, 2)) / (1 - 2 * flip)
            assert exact == rate
            assert coin.debias(float(reported)) == pytest.approx(float(rate), abs=1e-15 / coin.kappa)


def test_a_draw_flips_iff_it_is_below_the_threshold() -> None:
    coin = Coin.of(1.0)
    for draw, flipped in ((0, 1), (coin.threshold - 1, 1), (coin.threshold, 0), (DRAW - 1, 0)):
        for bit in (0, 1):
            assert coin.report(bit, draw.to_bytes(8, "big")) == bit ^ flipped
    with pytest.raises(InvalidInput, match="8 bytes"):
        coin.report(0, b"1234567")


def test_the_vectors_in_the_docs_are_the_ones_the_code_gives() -> None:
    assert json.loads(VECTORS.read_text()) == coin_vectors()


def test_the_vectors_follow_from_their_own_description() -> None:
    """An independent client in a few lines: rationals and decimals, nothing of the package."""
    rows = json.loads(VECTORS.read_text())
    for row in rows["thresholds"]:
        ratio = _PRECISE.divide(Decimal(DRAW), _PRECISE.add(Decimal(1), _PRECISE.exp(Decimal(row["epsilon"]))))
        assert int(row["flip_threshold"]) == math.ceil(ratio)
        odds = _PRECISE.divide(Decimal(DRAW - math.ceil(ratio)), Decimal(math.ceil(ratio)))
        assert row["real_epsilon"] == float(_PRECISE.ln(odds)) <= row["epsilon"]
    for row in rows["debias"]:
        kappa = 1 - 2 * Fraction(int(row["flip_threshold"]), DRAW)
        assert row["debiased"] == pytest.approx(float((Fraction(row["reported"]) - Fraction(1, 2)) / kappa) + 0.5)
    for row in rows["draws"]:
        flipped = int(row["draw"], 16) < int(row["flip_threshold"])
        assert row["report"] == row["bit"] ^ flipped


def test_the_vectors_catch_the_mistakes_they_are_for() -> None:
    """Twin: a client with the bytes swapped, `<=` for `<`, or doubles for integers fails at least one row."""
    rows = coin_vectors()["draws"]

    def fails(report: object) -> bool:
        return any(report(r) != r["report"] for r in rows)  # type: ignore[operator]

    def swapped(r: dict[str, object]) -> int:
        draw = int.from_bytes(bytes.fromhex(str(r["draw"])), "little")
        return int(r["bit"]) ^ (draw < int(r["flip_threshold"]))  # type: ignore[call-overload, no-any-return]

    def closed(r: dict[str, object]) -> int:
        return int(r["bit"]) ^ (int(str(r["draw"]), 16) <= int(r["flip_threshold"]))  # type: ignore[call-overload, no-any-return]

    def doubles(r: dict[str, object]) -> int:
        return int(r["bit"]) ^ (float(int(str(r["draw"]), 16)) < float(str(r["flip_threshold"])))  # type: ignore[call-overload, no-any-return]

    assert fails(swapped)
    assert fails(closed)
    assert fails(doubles)


def test_the_coin_runs_without_numpy() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from privquant.privacy.coin import Coin\n"
        "assert Coin.of(1.0).throw(1) in (0, 1)\n"
        "assert 'random' not in sys.modules or 'secrets' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

"""The device's own accounting against the aggregator's: the same answer on both sides of the true delta."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import brute
import pytest

from privquant.errors import InvalidInput
from privquant.privacy import shuffle, shuffle_check
from privquant.privacy.coin import flip_threshold, real_epsilon
from privquant.privacy.shuffle_check import keeps

REFERENCE = Path(__file__).parents[1] / "data" / "shuffle_exact.csv"
ROWS = [
    (int(row["batch"]), float(row["local_epsilon"]), float(row["delta"]), float(row["epsilon"]))
    for row in csv.DictReader(REFERENCE.read_text().splitlines())
]


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-8, 1e-15])
def test_the_coin_a_campaign_would_take_is_kept_and_no_smaller_delta(epsilon: float, delta: float) -> None:
    """`shuffle.local_epsilon` calibrates to within 0.3 % of delta; the check tells 0.02 % apart."""
    for batch in (10, 150, 2_000, 30_000, 1_000_000):
        coin = flip_threshold(shuffle.local_epsilon(epsilon=epsilon, delta=delta, batch=batch))
        assert keeps(epsilon=epsilon, delta=delta, coin=coin, batch=batch)
        true = shuffle.bracket(epsilon=epsilon, local_epsilon=real_epsilon(coin), batch=batch, rtol=1e-5)
        if real_epsilon(coin) > epsilon + 1e-6:  # nearer, the float of the coin's epsilon is not the coin's
            assert keeps(epsilon=epsilon, delta=true.upper * 1.0001, coin=coin, batch=batch)
            assert not keeps(epsilon=epsilon, delta=true.lower * 0.9999, coin=coin, batch=batch)


@pytest.mark.parametrize("local", [0.4, 1.0, 2.5, 6.0])
def test_against_brute_force_over_all_inputs(local: float) -> None:
    for batch in (1, 2, 3, 7, 20, 41):
        coin = flip_threshold(local)
        for share in (0.05, 0.4, 0.8):
            true = brute.delta(share * local, real_epsilon(coin), batch)
            if 1e-13 < true < 0.99:
                assert keeps(epsilon=share * local, delta=true * (1 + 1e-4), coin=coin, batch=batch)
                assert not keeps(epsilon=share * local, delta=true * (1 - 1e-4), coin=coin, batch=batch)


def test_the_ripples_are_not_missed() -> None:
    """A check at j = b - 1 alone, which understates delta here, would let this one through."""
    found = 0
    for batch in range(20, 60):
        coin, epsilon = flip_threshold(2.0), 0.5
        alone = brute.divergence(*brute.pairs(real_epsilon(coin), batch)[-1], epsilon)
        true = brute.delta(epsilon, real_epsilon(coin), batch)
        if true > 1.01 * alone:
            found += 1
            assert not keeps(epsilon=epsilon, delta=0.5 * (alone + true), coin=coin, batch=batch)
    assert found >= 5


@pytest.mark.parametrize(("batch", "local", "delta", "epsilon"), [row for row in ROWS if row[0] < 10**6])
def test_the_reference_values(batch: int, local: float, delta: float, epsilon: float) -> None:
    coin = flip_threshold(local)
    assert keeps(epsilon=epsilon * 1.00002, delta=delta, coin=coin, batch=batch)
    assert not keeps(epsilon=epsilon * 0.99998, delta=delta, coin=coin, batch=batch)


def test_a_large_batch_is_decided_at_a_million() -> None:
    for batch in (10**6 + 1, 10**9):
        for local in (9.9, 9.95):
            coin = flip_threshold(local)
            at_most = keeps(epsilon=1.0, delta=1e-8, coin=coin, batch=10**6)
            assert keeps(epsilon=1.0, delta=1e-8, coin=coin, batch=batch) is at_most
    (row,) = (row for row in ROWS if row[0] > 10**6)
    assert not keeps(epsilon=row[3] * 1.001, delta=row[2], coin=flip_threshold(row[1]), batch=row[0])


def test_a_user_alone_and_a_coin_within_epsilon() -> None:
    assert keeps(epsilon=1.0, delta=1e-300, coin=flip_threshold(1.0), batch=1)
    assert not keeps(epsilon=1.0, delta=1e-8, coin=flip_threshold(1.0001), batch=1)
    assert not keeps(epsilon=1.0, delta=1e-8, coin=1, batch=10**6)
    assert keeps(epsilon=50.0, delta=1e-8, coin=1, batch=1)


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 0.0}, {"epsilon": float("nan")}, {"delta": 0.0}, {"delta": 1.0}, {"coin": 0}, {"coin": 2**63},
     {"batch": 0}, {"batch": 1.5}],
)  # fmt: skip
def test_nonsense_is_an_error(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        keeps(**({"epsilon": 1.0, "delta": 1e-8, "coin": 2**60, "batch": 10} | change))  # type: ignore[arg-type]


def test_what_takes_too_long_to_decide_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"epsilon": 0.1, "delta": 1e-8, "coin": flip_threshold(1.8), "batch": 10_000}
    assert keeps(**asked)
    monkeypatch.setattr(shuffle_check, "MOST_LOOKS", 20)
    assert not keeps(**asked)


def test_it_needs_the_standard_library_alone() -> None:
    code = (
        "import sys; from privquant.privacy.shuffle_check import keeps; "
        "assert keeps(epsilon=1.0, delta=1e-8, coin=2**60, batch=1000); "
        "print('numpy' in sys.modules, 'cryptography' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False"]

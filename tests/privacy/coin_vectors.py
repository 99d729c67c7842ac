"""Test vectors of the coin for clients in other languages.

    python tests/privacy/coin_vectors.py > docs/vectors/coin.json

64-bit numbers are decimal strings and draws are 16 hex digits (8 bytes, most significant first), because a
JSON number is a double in most readers. A client is right when it reproduces every row: thresholds and bits
exactly, real epsilons and de-biased rates to the last few bits of a double.
"""

from __future__ import annotations

import json
from typing import Any

from privquant.privacy.coin import DRAW, Coin

_EPSILONS = (
    1e-6,
    0.001,
    0.01,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    1.05,
    1.5,
    2.0,
    3.0,
    5.0,
    8.0,
    12.0,
    20.0,
    36.0,
    44.0,
    60.0,
)
_RATES = (0.0, 0.25, 0.5, 0.731, 1.0)


def coin_vectors() -> dict[str, Any]:
    """The rows, as JSON."""
    coins = [(epsilon, Coin.of(epsilon)) for epsilon in _EPSILONS]
    return {
        "about": (
            "Flip the true bit iff a fresh 64-bit draw (8 bytes, most significant first) is below flip_threshold. "
            "flip_threshold = ceil(2^64 / (1 + e^epsilon)); real_epsilon = ln((2^64 - T) / T) <= epsilon; "
            "debiased = 1/2 + (reported - 1/2) / (1 - 2 T / 2^64)."
        ),
        "thresholds": [
            {"epsilon": epsilon, "flip_threshold": str(coin.threshold), "real_epsilon": coin.epsilon}
            for epsilon, coin in coins
        ],
        "debias": [
            {"flip_threshold": str(coin.threshold), "reported": rate, "debiased": coin.debias(rate)}
            for epsilon, coin in coins
            if epsilon in (0.1, 1.0, 5.0)
            for rate in _RATES
        ],
        "draws": [
            {
                "flip_threshold": str(coin.threshold),
                "draw": f"{draw:016x}",
                "bit": bit,
                "report": coin.report(bit, draw.to_bytes(8, "big")),
            }
            for epsilon, coin in coins
            if epsilon in (0.001, 1.0, 36.0, 60.0)
            for draw in _edges(coin.threshold)
            for bit in (0, 1)
        ],
    }


def _edges(threshold: int) -> list[int]:
    """Draws at which a wrong comparison, byte order or width shows."""
    swapped = int.from_bytes(threshold.to_bytes(8, "little"), "big")
    return sorted({0, threshold - 1, threshold, min(threshold + 1, DRAW - 1), swapped, 2**32, 2**53 + 1, DRAW - 1})


if __name__ == "__main__":
    print(json.dumps(coin_vectors(), indent=1))

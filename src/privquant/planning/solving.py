"""Solving for the one number a plan leaves open.

A plan is four numbers: users, alpha (rank error), epsilon and confidence. A way of collecting says of any four
whether it keeps them (`Holds`); `solve` finds the cheapest value of the missing one that is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from privquant.planning.calibration import calibration

UNKNOWNS = ("users", "alpha", "epsilon", "confidence")

# Where each unknown is looked for. Beyond these a plan is of no use to anyone.
RANGES = {"users": (1.0, 1e15), "alpha": (1e-7, 0.999), "epsilon": (1e-3, 20.0), "confidence": (1e-3, 1 - 1e-6)}

# The measured tables are for this delta; the coin noise of another grows as sqrt(log(4/delta)).
CALIBRATED_DELTA = 1e-8

Holds = Callable[[dict[str, float]], bool]
"""Whether a full plan (users, alpha, epsilon, confidence) is kept."""


def solve(unknown: str, given: dict[str, float], holds: Holds) -> float | None:
    """The cheapest value of the unknown that keeps the plan: `holds` changes once over its range."""
    low, high = RANGES[unknown]
    logarithmic = unknown != "confidence"
    rising = unknown != "confidence"  # more users, alpha, epsilon help; more confidence hurts

    def kept(value: float) -> bool:
        return holds({**given, unknown: value})

    cheap, dear = (low, high) if rising else (high, low)
    if not kept(dear):
        return None
    if kept(cheap):
        return cheap
    for _ in range(60):
        middle = math.sqrt(cheap * dear) if logarithmic else (cheap + dear) / 2
        if kept(middle):
            dear = middle
        else:
            cheap = middle
    return dear


def by_limit(needed: Callable[..., float], q: float) -> Holds:
    """Kept where there are as many users as a limit of `privquant.planning.limits` needs."""

    def holds(full: dict[str, float]) -> bool:
        uses = {use: full[use] for use in ("alpha", "epsilon", "confidence")}
        return full["users"] >= needed(**uses, quantile=q)

    return holds


def noise_of_delta(delta: float) -> float:
    """How many times the errors measured at `CALIBRATED_DELTA` those of shuffled coins are at another delta."""
    return math.sqrt(math.log(4 / delta) / math.log(4 / CALIBRATED_DELTA))


def by_measurement(name: str, kind: str, size: int, q: float, delta: float) -> Holds:
    """Kept where the error that was measured (kind: "typical" or "hardest" data) is within alpha."""
    table = calibration(name)
    noise = noise_of_delta(delta) if "/shuffle" in name else 1.0

    def holds(full: dict[str, float]) -> bool:
        reached = table.error(
            users=full["users"],
            epsilon=full["epsilon"],
            confidence=full["confidence"],
            size=size,
            quantile=q,
            kind=kind,
        )
        return reached * noise <= full["alpha"]

    return holds

"""What can be said about the rank of an estimate before anybody knows the truth: from simulated runs like it.

The planner's calibration table holds the rank error that a share of simulated runs stayed within, on the hardest
of several shapes of data; this says the same number as the estimate's `rank`. It is a statement about runs like
this one, not a certificate for this one: for that there is the certified interval.
"""

from __future__ import annotations

from privquant.privacy.calibration import calibrated, calibration

# The table begins here; below it nothing is said.
FEWEST = 100


def rank_statement(
    protocol: str,
    *,
    trust: str,
    users: int,
    epsilon: float,
    size: int,
    quantile: float,
    confidence: float = 0.95,
) -> str | None:
    """One sentence, or None where nothing was measured."""
    name = f"{protocol}/{trust}"
    if users < FEWEST or size < 2 or name not in calibrated():
        return None
    error = calibration(name).error(
        users=users, epsilon=epsilon, confidence=confidence, size=size, quantile=quantile, kind="hardest"
    )
    return (
        f"rank within {quantile * 100:g} % +- {error * 100:.2g} % with {confidence * 100:g} % confidence, "
        "as measured over simulated runs of this size"
    )

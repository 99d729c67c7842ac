"""The rank statement that goes with an estimate: how far its rank may be off, as measured in simulation.

It is a statement of experience, not a certificate: in the planner's calibration, on the hardest family of data, a
share `confidence` of runs like this one stayed within it. The certified interval of `isotonic` is the one that
holds for any data.
"""

from __future__ import annotations

from privquant.messages import Guarantee, Rank
from privquant.planning.calibration import CALIBRATED_DELTA, Setting, calibrated, calibration

CONFIDENCE = 0.95


def rank_within(protocol: str, guarantee: Guarantee, *, users: int, size: int, quantile: float) -> Rank | None:
    """How far the rank of an answer from so many users may be off; None where nothing was measured."""
    name = f"{protocol}/{guarantee.trust}"
    if users == 0 or size < 2 or name not in calibrated():
        return None
    setting: Setting = {"users": users, "epsilon": guarantee.epsilon, "quantile": quantile, "size": size}
    setting["delta"] = guarantee.delta or CALIBRATED_DELTA
    return Rank(quantile, calibration(name).error(confidence=CONFIDENCE, kind="hardest", **setting), CONFIDENCE)

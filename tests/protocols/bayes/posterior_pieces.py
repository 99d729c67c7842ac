"""What the tests read out of a posterior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privquant.protocols.bayes.posterior import Posterior


def pieces(posterior: Posterior) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """First cell and mass of every piece, in rising order, of a whole of one; from the JSON of the state alone."""
    form = posterior.to_dict()
    left, right = (
        [(start, mass * scale) for start, mass, _ in form[side]]
        for side, scale in zip(("left", "right"), form["scales"], strict=True)
    )
    starts, masses = zip(*left, tuple(form["located"][:2]), *reversed(right), strict=True)
    found = np.array(masses)
    return np.array(starts, np.int64), found / found.sum()

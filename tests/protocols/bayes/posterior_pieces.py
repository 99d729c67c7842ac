"""What the tests read out of a posterior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privquant.protocols.bayes.posterior import Posterior


def pieces(posterior: Posterior) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """First cell and mass of every piece, in rising order, of a whole of one; from the JSON of the state alone."""
    form = posterior.to_dict()
    scale_left, scale_right, unit_left, unit_right, _, here, _ = form["numbers"]
    starts: list[int] = []
    masses: list[float] = []
    for name, scale in (("left", scale_left), ("right", scale_right)):
        stacked = list(zip(form[name]["blocks"], form[name]["weights"], strict=True))
        for (cells, inside, _), weight in stacked if name == "left" else reversed(stacked):
            starts += cells
            masses += [m * weight * scale / sum(inside) for m in inside]
        if name == "left":
            (cells, inside, _), at = form["open"], form["at"]
            starts += cells
            masses += [m * unit_left for m in inside[:at]] + [here] + [m * unit_right for m in inside[at + 1 :]]
    found = np.array(masses)
    return np.array(starts, np.int64), found / found.sum()

"""What the tests read out of a posterior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privquant.protocols.bayes.posterior import Posterior
from privquant.protocols.bayes.stacks import Stacks


def pieces(posterior: Posterior) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """First cell and mass of every piece, in rising order, of a whole of one; from the JSON of the state alone."""
    p = Stacks(**posterior.to_dict())
    held_left, held_right, opened, length, at, *_ = p.count
    scale_left, scale_right, unit_left, unit_right, _, here, _ = p.number
    inside = [m * (unit_left if k < at else unit_right) for k, m in enumerate(p.masses[opened][:length])]
    inside[at] = here
    blocks = [(b, w * scale_left) for b, w in zip(p.stack[0][:held_left], p.weight[0], strict=False)]
    blocks += [(opened, sum(inside))]
    blocks += reversed([(b, w * scale_right) for b, w in zip(p.stack[1][:held_right], p.weight[1], strict=False)])
    starts: list[int] = []
    masses: list[float] = []
    for block, weight in blocks:
        own = inside if block == opened else p.masses[block][: p.lengths[block]]
        starts += p.starts[block][: len(own)]
        masses += [m * weight / sum(own) for m in own]
    found = np.array(masses)
    return np.array(starts, np.int64), found / found.sum()

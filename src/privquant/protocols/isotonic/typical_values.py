"""From which value to which the quantile may lie, typically: places of the curve that the reports allow.

How fast the curve rises is known worse than where it crosses the quantile in rank: a search asks where it learns
most about the place, and there it learns least about the speed. A range of ranks carried over to values by the
fitted speed would be far too narrow in the runs whose speed came out too high. So the range of values is made from
the likelihood itself: a place belongs to it if the best curve through it, with speed and ratio of its own, is
likely enough beside the best of all.
"""

from __future__ import annotations

import math

from privquant._numba import njit
from privquant.arrays import Floats
from privquant.protocols.isotonic.curve import GROUPS, Seen, climb, log_likelihood, pooled

# Places are tried this often on each side; the root of twice the loss in log-likelihood is nearly a straight line.
_TRIES = 12
_NEAR = 0.03
# A step goes at most so many times as far as the one before.
_FURTHER = 4.0


@njit(cache=True)
def place_range(seen: Seen, curve: Floats, score: float) -> tuple[float, float]:
    """(lowest, highest) place whose best curve is at most `score` standard deviations less likely than `curve`."""
    if seen.x.size > GROUPS:
        seen = pooled(seen, GROUPS)
    best = climb(seen, curve, False)
    most = log_likelihood(seen, best)
    return _end(seen, best, most, score, -1.0), _end(seen, best, most, score, 1.0)


@njit(cache=True)
def _end(seen: Seen, best: Floats, most: float, score: float, side: float) -> float:
    """The end of the range on one side; infinite if no place is unlikely enough."""
    inside = 0.0
    outside = math.inf
    away = score / math.exp(best[1]) / math.sqrt(max(seen.kappa * seen.kappa * seen.n.sum(), 1.0))
    trial = best.copy()
    for _ in range(_TRIES):
        trial[0] = best[0] + side * away
        trial = climb(seen, trial, True)
        lost = math.sqrt(max(2.0 * (most - log_likelihood(seen, trial)), 0.0))
        if abs(lost - score) < _NEAR * score:
            return float(trial[0])
        if lost < score:
            inside = away
        else:
            outside = min(outside, away)
        guess = away * score / max(lost, 1e-3)
        if outside == math.inf:
            away = min(guess, _FURTHER * away)
        else:
            away = guess if inside < guess < outside else 0.5 * (inside + outside)
    return float(best[0] + side * outside)

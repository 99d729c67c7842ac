"""The law of a search's rank error: how often it passes alpha, as a smooth function of what the run is like.

Rank error has a natural unit: what it would scatter by if everybody were asked at the quantile itself,

    unit = sqrt(((1 - kappa^2)/4 + sampled kappa^2 q(1-q)) / (kappa^2 users)),   kappa = tanh(epsilon/2):

the coin's noise, and the part of the sampling error that is left (all users are asked, but not all at the
quantile). In this unit the errors of a good search hardly depend on users, epsilon or the domain. A law says the
probability that an answer's rank is too high by more than z units, and the same for too low,

    P(error > z units) = Phi(-eta),      eta linear in a few features of z and of the run,

with coefficients fitted to simulated runs (`privquant calibrate`). Beyond an end no rank is left: above 1 - q, and
below q, the probability is 0 whatever eta says. Features are held where they were measured; beyond the largest
crowd errors go on to fall as 1/sqrt(users).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FORM = 1
"""Which features the coefficients belong to; a calibration of another form is refused."""

# The part of the sampling error that stays although all users are asked: the search learns from most of them.
_SAMPLED = 0.2
# Where features are held: the information users * kappa^2, bits of the domain, kappa^2, and 1-q or q.
_INFORMATION = (0.1, 5e4)
_BITS = (8.0, 48.0)
_COIN = (0.0025, 0.95)
_TAIL = 0.01
# Up to here isotonic search begins with the bulk of the data (`rules.is_extreme`).
_EXTREME = 0.2
# The logarithm of an end in units tells apart ends that matter from those that do not, between these.
_END = (-3.0, 3.0)


# Units up to which there are runs enough, and up to which any were counted.
_FAR, _FARTHEST = 9.0, 35.0


class Run(NamedTuple):
    """What a law looks at, as numbers or as arrays of one length.

    users, kappa, quantile: people asked about this quantile, tanh(epsilon/2) of their coin, the quantile.
    bits:     log2 of the domain's size.
    stretch:  how many times the natural unit this protocol's errors are measured in.
    share:    the part of all people that was asked about this quantile: the ranks of the others are sampled.
    """

    users: Any
    kappa: Any
    quantile: Any
    bits: Any
    stretch: Any = 1.0
    share: Any = 1.0


def unit(run: Run) -> Any:
    """The natural unit of rank error of such a run."""
    square = run.kappa**2
    sampled = _SAMPLED + (1.0 - _SAMPLED) * (1.0 - run.share)
    variance = (1.0 - square) / 4.0 + sampled * square * run.quantile * (1.0 - run.quantile)
    return run.stretch * np.sqrt(variance / (square * run.users))


def features(z: Any, above: Any, run: Run) -> Floats:
    """One row a case: z units, on the side above (1) or below (0) of the quantile, of such a run."""
    z = np.asarray(z, np.float64)
    q = np.asarray(run.quantile, np.float64)
    square = np.clip(run.kappa**2, *_COIN)
    information = np.clip(run.users * run.kappa**2, *_INFORMATION)
    crowd = np.log(information / 100.0) / 3.0
    bits = (np.clip(run.bits, *_BITS) - 24.0) / 16.0
    tail = np.minimum(q, 1.0 - q)
    depth = np.log(0.5 / np.clip(tail, _TAIL, 0.5))
    extreme = (tail <= _EXTREME) * 1.0
    near = (np.where(above, 1.0 - q, q) <= 0.5) * 1.0
    end = np.clip(np.log(tail / unit(run)), *_END) * depth
    one = np.ones_like(z)
    of_run = [
        one,
        crowd,
        crowd * crowd,
        bits,
        bits * crowd,
        square,
        square * crowd,
        extreme,
        extreme * crowd,
        extreme * square,
        extreme * near,
        depth,
        depth * depth,
        depth * crowd,
        depth * near,
        depth * depth * near,
        depth * crowd * near,
        end,
        end * near,
    ]
    of_z = [one, z, np.log1p(z)]
    return np.stack([np.broadcast_to(a * b, z.shape) for b in of_z for a in of_run], axis=-1)


COEFFICIENTS = 3 * 19


@dataclass(frozen=True)
class Law:
    """A fitted law.

    coefficients: one a feature.
    whole:        one probability for both sides together, because they cannot be told apart (a cliff).
    tie_credit:   alpha counts as larger by this over the domain's size: half of what two users in the same bin
                  share if the data fill half of the domain. 0 where ties were in the errors that were fitted.
    """

    coefficients: tuple[float, ...]
    whole: bool = False
    tie_credit: float = 0.0

    def failure(self, below: float, above: float, run: Run, *, ties: bool = True) -> float:
        """The probability that the answer's rank is lower than q - below or higher than q + above.

        ties: whether to count on ties at all.
        """
        q = float(run.quantile)
        credit = self.tie_credit * 2.0 ** -float(run.bits) if ties else 0.0
        open_below, open_above = below < q, above < 1.0 - q
        if not (open_below or open_above):
            return 0.0
        if self.whole:
            nearest = min([a for a, there in ((below, open_below), (above, open_above)) if there])
            return float(self.tails([nearest + credit], [1], run)[0])
        tails = self.tails([below + credit, above + credit], [0, 1], run)
        return min(float(tails[0]) * open_below + float(tails[1]) * open_above, 1.0)

    def tails(self, alpha: Any, above: Any, run: Run) -> Floats:
        """The probability of passing alpha on each side."""
        z = np.asarray(alpha, np.float64) / unit(run)
        # Far out few runs were seen: the law may fall on there, up to where it was measured, but not rise again.
        etas = [
            features(np.minimum(z, most), np.asarray(above), run) @ np.array(self.coefficients)
            for most in (_FAR, _FARTHEST)
        ]
        return normal_tail(np.maximum(*etas))


def normal_tail(score: Any) -> Floats:
    """P(N > score) of a standard normal N."""
    return np.array([0.5 * math.erfc(s / math.sqrt(2.0)) for s in np.ravel(score)]).reshape(np.shape(score))

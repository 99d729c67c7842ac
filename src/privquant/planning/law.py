"""The law of a search's rank error: how often it passes alpha, as a smooth function of what the run is like.

Rank error has a natural unit: what it would scatter by if everybody were asked at the quantile itself,

    unit = sqrt(((1 - kappa^2)/4 + sampled kappa^2 q(1-q)) / (kappa^2 users)),   kappa = tanh(epsilon/2):

the coin's noise, and the part of the sampling error that is left (all users are asked, but not all at the
quantile). In this unit the errors of a good search hardly depend on users, epsilon or the domain. A law says the
probability that an answer's rank is too high by more than z units, and the same for too low,

    P(error > z units) = Phi(-eta),      eta linear in a few features of z and of the run,

with coefficients fitted to simulated runs (`python -m studies calibration`). Beyond an end no rank is left: above
1 - q, and below q, the probability is 0 whatever eta says. Features are held where they were measured; beyond the
largest crowd errors go on to fall as 1/sqrt(users).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from privquant.arrays import Floats

FORM = 2
"""Which features the coefficients belong to; a calibration of another form is refused."""

# The part of the sampling error that stays although all users are asked: the search learns from most of them.
_SAMPLED = 0.2
# Where features are held: the information users * (kappa / stretch)^2, bits of the domain, kappa^2, and 1-q or q.
_INFORMATION = (0.1, 3e4)
_BITS = (8.0, 48.0)
_COIN = (0.0025, 0.95)
_TAIL = 0.01
_TIED = 64.0
# Up to here isotonic search begins with the bulk of the data (`rules.is_extreme`).
_EXTREME = 0.2
# The logarithm of an end in units tells apart ends that matter from those that do not, between these.
_END = (-3.0, 3.0)
# Units up to which there are runs enough, and up to which any were counted.
_FAR, _FARTHEST = 9.0, 35.0

_OF_RUNS = (
    *("one", "crowd", "crowd crowd", "crowd crowd crowd", "bits", "bits crowd", "opening", "opening opening"),
    *("few", "few coin", "coin", "coin coin", "coin crowd"),
)
SMOOTH = (
    *_OF_RUNS,
    *("place", "place crowd", "place coin", "place opening", "place place", "place place opening"),
    *("place place crowd", "place place coin"),
    *(f"extreme {product}" for product in _OF_RUNS),
    *("extreme near", "extreme near crowd", "extreme near opening", "extreme near bits", "extreme near coin"),
    *("depth", "depth depth", "depth crowd", "depth depth crowd", "depth opening", "depth depth opening"),
    *("depth coin", "depth near", "depth depth near", "depth crowd near", "depth opening near", "depth coin near"),
    *("beyond", "beyond near", "beyond depth", "beyond depth near"),
)
"""What eta's parts that go with 1, with z and with log(1 + z) are linear in: products of `_qualities`. Extreme
quantiles are searched in another way, and share nothing with the others."""

_OF_CLIFFS = (
    *("one", "crowd", "crowd crowd", "bits", "bits bits", "bits crowd"),
    *("coin", "coin coin", "coin crowd", "coin bits", "high", "high crowd", "extreme", "extreme high"),
    *("out", "out out", "out crowd", "out coin", "out bits"),
)
CLIFF = (*_OF_CLIFFS, *(f"sided {product}" for product in _OF_CLIFFS), "opening", "few")
"""The same for cliffs: those with people on either side are found unlike those at an end of the data."""

COMPANY = ("one", "crowd", "extreme", "extreme near", "depth", "depth near", "beyond", "beyond near")
"""What the same is corrected by where several quantiles are searched together: each sees the others' reports."""

FEW = ("one", "crowd", "bits", "coin", "depth", "depth near")
"""The same for protocols that were measured less: they cannot turn a law around where there were no runs."""

_NAMES = {products: [product.split() for product in products] for products in (SMOOTH, CLIFF, COMPANY, FEW)}


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


def _qualities(above: Any, run: Run) -> dict[str, Any]:
    """What a law can tell runs apart by, each about -1 to 1 or 0 to some units."""
    q = np.asarray(run.quantile, np.float64)
    bits = np.clip(run.bits, *_BITS)
    # From here on people share values by the unit, and there are no runs without ties to learn from.
    tied = np.minimum(_INFORMATION[1], 4.0**bits / _TIED)
    told = run.users * (run.kappa / run.stretch) ** 2
    information = np.clip(told, _INFORMATION[0], tied)
    held = unit(run) * np.sqrt(told / information)
    tail = np.minimum(q, 1.0 - q)
    side = np.where(above, 1.0 - q, q)
    extreme = (tail <= _EXTREME) * 1.0
    return {
        "one": 1.0,
        "crowd": np.log(information / 300.0) / 3.0,
        "bits": (bits - 24.0) / 16.0,
        # Finding the neighbourhood takes as many reports as the domain has bits, each worth kappa^2.
        "opening": np.log1p(5.0 * bits / (information + 5.0)),
        "few": 10.0 / np.sqrt(np.maximum(run.users, 10.0)),
        "coin": np.clip(run.kappa**2, *_COIN),
        "place": (1.0 - extreme) * (side - 0.5),
        "extreme": extreme,
        "near": (side <= 0.5) * 1.0,
        "sided": np.asarray(above) * 1.0,
        "high": q - 0.5,
        "depth": extreme * np.log(_EXTREME / np.clip(tail, _TAIL, _EXTREME)),
        "out": np.log(0.5 / np.clip(tail, _TAIL, 0.5)),
        # Whether the end of the data is within a unit.
        "beyond": extreme * np.clip(np.log(tail / held), *_END),
    }


def cliff_run(run: Run) -> Run:
    """The run as a cliff's law sees it: to be found it has to be as high as the root of the domain's bits."""
    return run._replace(stretch=run.stretch * np.sqrt(np.maximum(run.bits, 1.0)))


def made_of(products: tuple[str, ...], shape: tuple[int, ...], above: Any, run: Run) -> Floats:
    """The products, one column each."""
    known = _qualities(np.asarray(above), run)
    found = np.empty((*shape, len(products)))
    for column, names in enumerate(_NAMES[products]):
        found[..., column] = math.prod(known[name] for name in names)
    return found


# What is said of a cliff is worse than what was seen by this many standard deviations: its law fits to within a
# tenth of confidence only, and a plan for the hardest data is made to be kept.
_CAUTION = 0.2


@dataclass(frozen=True)
class Law:
    """A fitted law.

    coefficients: one a feature.
    products:     what the features are made of.
    whole:        one probability for both sides together, because they cannot be told apart (a cliff).
    company:      coefficients of what is added to eta where several quantiles are searched together.
    tie_credit:   alpha counts as larger by this over the domain's size: half of what two users in the same bin
                  share if the data fill half of the domain. 0 where ties were in the errors that were fitted.
    """

    coefficients: tuple[float, ...]
    products: tuple[str, ...] = SMOOTH
    whole: bool = False
    tie_credit: float = 0.0
    company: tuple[float, ...] = ()

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
            seen = cliff_run(run)
            score = self.eta(np.array([nearest + credit]) / unit(seen), np.array([open_below and open_above]), seen)
            return float(normal_tail(score - _CAUTION)[0])
        tails = self.tails([below + credit, above + credit], [0, 1], run)
        return min(float(tails[0]) * open_below + float(tails[1]) * open_above, 1.0)

    def tails(self, alpha: Any, above: Any, run: Run) -> Floats:
        """The probability of passing alpha on each side."""
        z = np.asarray(alpha, np.float64) / unit(run)
        return normal_tail(self.eta(z, np.asarray(above), run))

    def eta(self, z: Floats, above: Any, run: Run) -> Floats:
        """The normal score of passing z units on each side."""
        found = _added(self.coefficients, self.products, z, above, run, (_FAR, _FARTHEST))
        return found + _added(self.company, COMPANY, z, above, run, (_FAR,)) if self.company else found


def _added(
    coefficients: tuple[float, ...],
    products: tuple[str, ...],
    z: Floats,
    above: Any,
    run: Run,
    far: tuple[float, ...],
) -> Floats:
    """The features times the coefficients, the largest of those with z held at each of `far`.

    Far out few runs were seen: a law may fall on there, up to where it was measured, but not rise again.
    """
    made = made_of(products, z.shape, above, run) @ np.reshape(coefficients, (3, -1)).T
    held = [np.minimum(z, most) for most in far]
    return np.asarray(np.max([made[..., 0] + made[..., 1] * h + made[..., 2] * np.log1p(h) for h in held], axis=0))


def normal_tail(score: Any) -> Floats:
    """P(N > score) of a standard normal N."""
    return np.array([0.5 * math.erfc(s / math.sqrt(2.0)) for s in np.ravel(score)]).reshape(np.shape(score))

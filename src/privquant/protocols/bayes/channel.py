"""The binary asymmetric channel (BAC) behind BayesLearn: what one report says about the side of a coin.

A coin right of the quantile reports a one with probability tau + alpha at least, one left of it with tau -
alpha at most. Seen as a channel from "which side" to the report, its capacity is C_{tau,alpha} bits a report,
reached when a fraction q of the posterior lies left of the coin. The weights d_{y,side} are what a report y
multiplies the posterior with on either side; with q they keep it summing to one: d_{y,0} q + d_{y,1} (1 - q)
= 1.

Holds for any tau in (0, 1) and any alpha in (0, min(tau, 1 - tau)); the paper's theorems ask for half of that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privquant.errors import InvalidInput

# Below this alpha/min(tau, 1-tau) the difference of entropies has lost more digits than the series neglects.
_SERIES = 1e-3


def entropy(p: float) -> float:
    """Binary entropy in nats."""
    return -(p * math.log(p) + (1.0 - p) * math.log1p(-p))


def capacity_input(tau: float, alpha: float) -> float:
    """The capacity-achieving q: argmax_x H((1-x)(tau-alpha) + x(tau+alpha)) - (1-x)H(tau-alpha) - xH(tau+alpha).

    The maximum has H'(p) = (H(tau+alpha) - H(tau-alpha)) / (2 alpha) at the rate p = tau + (2q-1) alpha.
    """
    if tau == 0.5:
        return 0.5
    if alpha < _SERIES * min(tau, 1.0 - tau):
        return 0.5 - alpha * (1.0 - 2.0 * tau) / (12.0 * tau * (1.0 - tau))
    slope = (entropy(tau + alpha) - entropy(tau - alpha)) / (2.0 * alpha)
    rate = 1.0 / (1.0 + math.exp(slope))
    return (rate - (tau - alpha)) / (2.0 * alpha)


@dataclass(frozen=True, slots=True)
class Channel:
    """The (tau, alpha) channel. `left[y]` and `right[y]` are the paper's d_{y,0} and d_{y,1}."""

    tau: float
    alpha: float
    q: float
    left: tuple[float, float]
    right: tuple[float, float]

    @classmethod
    def of(cls, tau: float, alpha: float) -> Channel:
        if not 0.0 < tau < 1.0:
            raise InvalidInput(f"tau must lie strictly between 0 and 1, got {tau!r}")
        if not 0.0 < alpha < min(tau, 1.0 - tau):
            raise InvalidInput(
                f"alpha must lie strictly between 0 and min(tau, 1 - tau) = {min(tau, 1.0 - tau):.6g}, "
                f"got {alpha!r}"
            )
        q = capacity_input(tau, alpha)
        ones = tau + (2.0 * q - 1.0) * alpha
        zeros = 1.0 - ones
        return cls(
            tau,
            alpha,
            q,
            left=((1.0 - tau - alpha) / zeros, (tau + alpha) / ones),
            right=((1.0 - tau + alpha) / zeros, (tau - alpha) / ones),
        )


def learning_alpha(size: int, users: int, tau: float, c: float) -> float:
    """alpha~ = c sqrt(ln B / n), kept below half of min(tau, 1 - tau), where the theorems hold.

    A domain of one value and a plan without users need no alpha; they get the cap, so that nothing is undefined.
    """
    cap = 0.4999 * min(tau, 1.0 - tau)
    if size < 2 or users < 1:
        return cap
    return min(c * math.sqrt(math.log(size) / users), cap)

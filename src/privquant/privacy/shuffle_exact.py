"""Exact accounting of shuffled randomized response: the view is the count of ones in a batch.

p = e^eL / (1 + e^eL), q = 1 - p, A = p - e^eps q, B = e^eps - 1. Of the other b-1 users j hold a one and m a
zero; D = Bin(j, q) - Bin(m, q). Then

    psi(l; j, m) = A Pr[D = l] - B Pr[D < l]
    H(j, m)      = max over l of psi           the hockey-stick divergence of bit 1 against bit 0
    delta(eps)   = max over j + m = b - 1 of H(j, m)

What is promised: `bracket` returns lower <= delta <= upper. Both ends hold after rounding (forward error
bounds on sums of positive terms) and after cutting the tails of the binomials (their mass is added).

Why it works: D is log-concave, so psi rises as long as Pr[D = l+1] / Pr[D = l] > 1 + B/A and falls after;
the same holds for D with its tails cut off. H does not grow when a user is added (adding a report is
post-processing), so for k1 <= k <= k2 we have H(k, b-1-k) <= H(k1, b-1-k2): branch and bound over k.
"""

import heapq
import math
from dataclasses import dataclass

import numpy as np

from privquant.arrays import Floats
from privquant.privacy.binomial import tail_series, window
from privquant.privacy.difference import DEEPEST, Difference, log_pmf


@dataclass(frozen=True, slots=True)
class Stakes:
    """The constants of one hockey-stick divergence: flip rate q, gain A and loss B of the threshold event."""

    q: float
    gain: float
    loss: float

    @property
    def most(self) -> float:
        """Never below the true gain, which is the delta of a user alone: as a float the gain may be."""
        # local - eps is at most 100 and is rounded before expm1: 2^-53 * (100 + the other factors' roundings).
        return min(1.0, self.gain * (1.0 + 2.0**-45))


def stakes(epsilon: float, local_epsilon: float) -> Stakes:
    """For epsilon < local_epsilon; no cancellation however close they are."""
    q = 1.0 / (1.0 + math.exp(local_epsilon))
    return Stakes(q, math.exp(epsilon) * math.expm1(local_epsilon - epsilon) * q, math.expm1(epsilon))


def log_peak(gain: float, loss: float, j: int, q: float) -> float:
    """ln of max over l of gain Pr[L = l] - loss Pr[L < l], L ~ Bin(j, q): H(j, 0) in closed form."""
    rho = 1.0 + loss / gain
    p = 1.0 - q
    turn = max(0, math.ceil((j * q - rho * p) / (q + rho * p)))
    best = -math.inf
    # The turning point is where a ratio crosses rho; rounding can move it by one.
    for level in range(max(0, turn - 1), min(j, turn + 1) + 1):
        kept = 1.0 - (rho - 1.0) * tail_series(level, j, q / p)
        if kept > 0:
            best = max(best, math.log(gain) + log_pmf(level, j, q) + math.log(kept))
    return best


def log_extreme(epsilon: float, local_epsilon: float, batch: int) -> float:
    """ln H(b-1, 0), everybody else holding the same bit: a LOWER bound on ln delta, often close to it."""
    if local_epsilon <= epsilon:
        return -math.inf
    s = stakes(epsilon, local_epsilon)
    return log_peak(s.gain, s.loss, batch - 1, s.q)


def _products(a: Floats, b: Floats) -> float:
    # Not np.dot: its threads cost more than they give at these lengths, and much more on a busy machine.
    return float(np.einsum("i,i->", a, b))


def divergence(s: Stakes, j: int, m: int, log_tail: float) -> tuple[float, float]:
    """lower <= H(j, m) <= upper."""
    ones, zeros = window(j, s.q, log_tail), window(m, s.q, log_tail)
    law = Difference(ones, zeros, np.concatenate(([0.0], np.cumsum(ones.pmf))), _products, np.sum)
    height, rounding = law.peak(s.gain, s.loss, (j - m) * s.q, (j + m) * s.q * (1.0 - s.q))
    outside = 4.0 * math.exp(-log_tail)
    upper = height + rounding + s.gain * outside
    lower = height - rounding - s.loss * outside
    return max(lower, 0.0), min(max(upper, 0.0), s.most)


@dataclass(frozen=True, slots=True)
class Bracket:
    """lower <= delta <= upper; `worst` of the others holding a one attain lower; `nodes` were looked at."""

    lower: float
    upper: float
    worst: int
    nodes: int


def bracket(epsilon: float, local_epsilon: float, batch: int, rtol: float) -> Bracket:
    """delta(epsilon), with upper <= lower (1 + rtol) up to rounding; deltas below 1e-60 are not resolved."""
    if local_epsilon <= epsilon:
        return Bracket(0.0, 0.0, batch - 1, 0)
    s = stakes(epsilon, local_epsilon)
    others = batch - 1
    extreme = log_peak(s.gain, s.loss, others, s.q)
    log_tail = min(DEEPEST, math.log(1e3 / rtol) - extreme + epsilon)
    best, upper = divergence(s, others, 0, log_tail)
    worst, nodes = others, 1
    # `settled` bounds every k that needs no further look: leaves, and nodes too low to matter.
    settled = upper
    heap = [(-divergence(s, 0, 0, log_tail)[1], 0, others)] if others else []
    while heap and -heap[0][0] > max(best * (1 + rtol), settled):
        _, k1, k2 = heapq.heappop(heap)
        middle = (k1 + k2) // 2
        for a, c in ((k1, middle), (middle + 1, k2)):
            nodes += 1
            low, high = divergence(s, a, others - c, log_tail)
            if a == c and low > best:
                best, worst = low, a
            if a == c or high <= best * (1 + rtol):
                settled = max(settled, high)
            else:
                heapq.heappush(heap, (-high, a, c))
        if k2 - k1 > 2 and nodes % 8 < 2:
            # A node's middle is a fair guess at its best k: a higher floor prunes more.
            low, _ = divergence(s, middle, others - middle, log_tail)
            if low > best:
                best, worst = low, middle
    if heap:
        settled = max(settled, -heap[0][0])
    return Bracket(best, min(settled, s.most), worst, nodes)

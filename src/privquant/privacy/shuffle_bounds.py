"""Upper bounds on shuffled privacy that hold for ANY eL-LDP randomizer, from the paper's lemma up.

    lemma     the paper: eL = ln(eps^2 b / (80 ln(4/delta))), where Theorem 3.1's precondition holds
    theorem   Feldman, McMillan, Talwar 2020, Theorem 3.1, itself
    clones    the same authors' numerical bound: C ~ Bin(b-1, e^-eL) other users answer as one of the two
    stronger  the same with C ~ Bin(b-1, 2/(e^eL + 1)): a randomizer's two output laws overlap each third one by
              (R0 - R1)+ / (e^eL - 1) + (R1 - R0)+ / (e^eL - 1), and less overlap is post-processing of more

Given C = c clones the view is the user's bit through the coin plus a Bin(c, 1/2) of random bits, so the
divergence is a mixture over c of the closed form for one binomial (`shuffle_exact.log_peak` with q = 1/2).
It does not grow in c; `clones_bracket` refines intervals of c until the bracket is as narrow as asked.
Where a closed form does not apply, these return infinity (epsilon) or 1 (delta): the caller has plain LDP.
"""

import heapq
import math
from collections.abc import Callable
from functools import cache

from privquant.privacy.binomial import window
from privquant.privacy.shuffle_exact import Bracket, log_peak, stakes


def clone_rate(method: str, local_epsilon: float) -> float:
    """How likely another user's report is as good as a random one of the two in question."""
    if method == "clones":
        return math.exp(-local_epsilon)
    return 2.0 / (math.exp(local_epsilon) + 1.0)


def clones_bracket(method: str, epsilon: float, local_epsilon: float, batch: int, rtol: float) -> Bracket:
    """lower <= the bound <= upper, where upper is what is promised."""
    if local_epsilon <= epsilon:
        return Bracket(0.0, 0.0, batch - 1, 0)
    s = stakes(epsilon, local_epsilon)
    # What the closed form of one c can lose, relative: about sqrt(b) terms, each rounded, then a difference.
    rounding = 1e-10 + 1e-14 * math.sqrt(batch)
    rate = clone_rate(method, local_epsilon)

    @cache
    def value(c: int) -> float:
        return math.exp(log_peak(s.gain, s.loss, c, 0.5))

    if batch == 1 or rate >= 1.0:
        only = value(batch - 1)
        return Bracket(only * (1 - rounding), min(only * (1 + rounding), s.most), 0, 1)
    # Few clones are unlikely but reveal much: the tail must be small beside the answer, at least value(mean).
    log_tail = min(600.0, math.log(1e3 / rtol) - log_peak(s.gain, s.loss, math.ceil((batch - 1) * rate), 0.5))
    clones = window(batch - 1, rate, log_tail)

    def node(c1: int, c2: int) -> tuple[float, float, float, int, int]:
        share = float(clones.pmf[c1 - clones.start : c2 + 1 - clones.start].sum())
        high, low = share * value(c1), share * value(c2)
        return (low - high, high, low, c1, c2)

    first = node(clones.start, clones.stop - 1)
    heap = [first]
    upper, lower = first[1], first[2]
    while upper - lower > rtol * lower and heap[0][3] < heap[0][4]:
        _, high, low, c1, c2 = heapq.heappop(heap)
        middle = (c1 + c2) // 2
        upper, lower = upper - high, lower - low
        for part in (node(c1, middle), node(middle + 1, c2)):
            heapq.heappush(heap, part)
            upper, lower = upper + part[1], lower + part[2]
    # The running sums drift; the final ones are added afresh.
    upper, lower = math.fsum(n[1] for n in heap), math.fsum(n[2] for n in heap)
    outside = 2.0 * math.exp(-log_tail) * s.gain
    top = upper * (1 + rounding) + outside
    return Bracket(lower * (1 - rounding), min(top, s.most), 0, value.cache_info().currsize)


def within_theorem(local_epsilon: float, batch: int, delta: float) -> bool:
    """The precondition of Theorem 3.1: eL <= ln(b / (16 ln(2/delta)))."""
    return math.exp(local_epsilon) * 16.0 * math.log(2.0 / delta) <= batch


def theorem_epsilon(local_epsilon: float, batch: int, delta: float) -> float:
    """The epsilon Theorem 3.1 gives; infinity outside its precondition."""
    if not within_theorem(local_epsilon, batch, delta):
        return math.inf
    share = math.exp(local_epsilon) / batch
    amplified = math.sqrt(share * math.log(4.0 / delta)) + share
    return math.log1p(8.0 * math.tanh(local_epsilon / 2.0) * amplified)


def lemma_epsilon(local_epsilon: float, batch: int, delta: float) -> float:
    """The epsilon for which the lemma names this eL; infinity outside the range of its proof."""
    if not within_theorem(local_epsilon, batch, delta):
        return math.inf
    epsilon = math.sqrt(80.0 * math.log(4.0 / delta) * math.exp(local_epsilon) / batch)
    # The proof is Theorem 3.1 with room to spare; where there is no room the lemma says nothing.
    return epsilon if theorem_epsilon(local_epsilon, batch, delta) <= epsilon else math.inf


def _at_least_the_precondition(formula: float, local_epsilon: float, batch: int) -> float:
    """The delta of a closed form, raised to the smallest for which Theorem 3.1 speaks at all."""
    return min(1.0, max(formula, 2.0 * math.exp(-batch / (16.0 * math.exp(local_epsilon)))) * (1 + 1e-12))


def theorem_delta(epsilon: float, local_epsilon: float, batch: int) -> float:
    """The delta Theorem 3.1 gives; 1 where it says nothing."""
    share = math.exp(local_epsilon) / batch
    room = math.expm1(epsilon) / (8.0 * math.tanh(local_epsilon / 2.0)) - share
    if room <= 0:
        return 1.0
    return _at_least_the_precondition(4.0 * math.exp(-room * room / share), local_epsilon, batch)


def lemma_delta(epsilon: float, local_epsilon: float, batch: int) -> float:
    """The delta for which the lemma names this eL; 1 where it says nothing."""
    formula = 4.0 * math.exp(-epsilon * epsilon * batch / (80.0 * math.exp(local_epsilon)))
    found = _at_least_the_precondition(formula, local_epsilon, batch)
    return found if lemma_epsilon(local_epsilon, batch, found) <= epsilon else 1.0


EPSILON: dict[str, Callable[[float, int, float], float]] = {"theorem": theorem_epsilon, "lemma": lemma_epsilon}
DELTA: dict[str, Callable[[float, float, int], float]] = {"theorem": theorem_delta, "lemma": lemma_delta}

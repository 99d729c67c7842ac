"""The problems of the paper, each as one call on simulated users.

Any registered protocol can be named; answers are values v, the paper's coin being v - 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from privquant.arrays import Floats
from privquant.domain import Domain, Integers, check_domain
from privquant.errors import InvalidInput
from privquant.lab.populations import Adversary, Coins, Users
from privquant.lab.run import drive, run
from privquant.lab.sample import Sample, padded
from privquant.messages import Estimate, Guarantee
from privquant.protocols.registry import protocol as make_protocol
from privquant.protocols.registry import protocol_class
from privquant.protocols.tree.hierarchical import Hierarchical
from privquant.validation import check_count, check_epsilon, check_probability, check_quantile

__all__ = [
    "Cdf",
    "adversarial_search",
    "cdf_by_medians",
    "cdf_by_tree",
    "empirical_quantile",
    "is_good",
    "noisy_binary_search",
    "padded",
    "padded_quantile",
    "statistical_quantile",
    "trivial_quantile",
]

# The most honest coin there is, one flip in 2^64: what a search without privacy is run with.
NO_PRIVACY = 60.0


def empirical_quantile(
    values: Any,
    q: float = 0.5,
    *,
    epsilon: float,
    domain: Domain,
    rng: np.random.Generator,
    protocol: str = "naive",
    **options: Any,
) -> Estimate:
    """LDPemp: each value is a user, asked at most once; the answer is a quantile of these values."""
    sample = Sample.of_values(values, domain)
    made = make_protocol(protocol, domain, users=sample.n, epsilon=epsilon, quantile=q, **options)
    return run(made, Users(sample, rng))


def statistical_quantile(
    values: Any,
    q: float = 0.5,
    *,
    users: int,
    epsilon: float,
    domain: Domain,
    rng: np.random.Generator,
    protocol: str = "naive",
    **options: Any,
) -> Estimate:
    """LDPstat: `users` users drawn from the distribution that `values` stand for; a quantile of that."""
    sample = Sample.of_values(values, domain)
    made = make_protocol(protocol, domain, users=users, epsilon=epsilon, quantile=q, **options)
    return run(made, Users(sample, rng, draw="statistical"))


def padded_quantile(
    values: Any,
    q: float,
    *,
    epsilon: float,
    domain: Domain,
    rng: np.random.Generator,
    protocol: str = "naive",
    **options: Any,
) -> Estimate:
    """The q-quantile as the median of twice as many users (the paper's padding lemma), kept for comparison.

    Half of the users asked are virtual and the error in rank doubles; asking for q directly has neither. Nothing is
    said of its error: what is known of runs like it is about medians of people.
    """
    users = Sample.of_values(values, domain)
    sample = padded(users, q)
    made = make_protocol(protocol, domain, users=sample.n, epsilon=epsilon, quantile=0.5, **options)
    drive(made, Users(sample, rng))
    note = f"the median with {sample.n - users.n} virtual users"
    return replace(made.estimate(), quantile=q, users=users.n, notes=(note,))


def trivial_quantile(q: float, alpha: float, domain: Domain) -> int | float | None:
    """The end of the domain, if it is an alpha-approximate q-quantile of every data set there is; else None.

    Below alpha it is the first value, above 1 - alpha the last: nobody needs to be asked.
    """
    wanted, error = check_quantile(q), check_probability(alpha, "alpha")
    if wanted < error:
        return domain.value(0)
    return domain.value(check_domain(domain).size - 1) if wanted > 1.0 - error else None


# -- coins without privacy -----------------------------------------------------------------------------------


def noisy_binary_search(
    probabilities: Sequence[float],
    tau: float = 0.5,
    *,
    throws: int,
    rng: np.random.Generator,
    protocol: str = "naive",
    **options: Any,
) -> int:
    """MonotonicNBS: a coin m of p_0 <= p_1 <= .. with tau near [p_m, p_{m+1}] (see `is_good`), from so many throws.

    -1 says that tau lies below every coin. There is no privacy: what a throw shows is what is used.
    """
    return _search(probabilities, tau, throws, protocol, options, rng=rng)


def adversarial_search(
    probabilities: Sequence[float],
    tau: float = 0.5,
    *,
    alpha: float,
    c: float,
    adversary: Adversary,
    throws: int,
    rng: np.random.Generator,
    protocol: str = "naive",
    **options: Any,
) -> int:
    """AdvMonotonicNBS: against an adversary who replaces each throw's probability by one at most c * alpha away.

    The goal is a (tau, alpha (1 + c))-good coin. An adversary who goes further is refused.
    """
    reach = c * check_probability(alpha, "alpha")
    return _search(probabilities, tau, throws, protocol, options, rng=rng, adversary=adversary, reach=reach)


def _search(
    probabilities: Sequence[float], tau: float, throws: int, protocol: str, options: dict[str, Any], **coins: Any
) -> int:
    """coins: who throws them, and who moves their probabilities (see `Coins`)."""
    rates = np.asarray(probabilities, np.float64)
    if rates.ndim != 1 or rates.size == 0 or not ((rates >= 0) & (rates <= 1)).all() or (np.diff(rates) < 0).any():
        raise InvalidInput("coins need probabilities in 0 .. 1 that do not fall, and at least one coin")
    domain = Integers(0, int(rates.size))
    count = check_count(throws, "throws", 1)
    made = make_protocol(protocol, domain, users=count, epsilon=NO_PRIVACY, quantile=tau, **options)
    drive(made, Coins(lambda index: float(rates[index]), **coins))
    index = made.estimate().index
    assert index is not None
    return index - 1


def is_good(probabilities: Sequence[float], coin: int, tau: float, alpha: float) -> bool:
    """Whether [p_m, p_{m+1}] meets (tau - alpha, tau + alpha); there is 0 before the first coin and 1 after."""
    here = probabilities[coin] if coin >= 0 else 0.0
    following = probabilities[coin + 1] if coin + 1 < len(probabilities) else 1.0
    return bool(here < tau + alpha and following > tau - alpha)


# -- the whole CDF -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cdf:
    """An estimated distribution function: `at(indices)` at any domain indices, and what users were promised."""

    at: Callable[[Sequence[int]], Floats]
    guarantee: Guarantee

    def error(self, sample: Sample) -> float:
        """The largest distance from the sample's own distribution function, over all indices."""
        # Between two values of the sample its function is flat: the distance is largest at the ends of such pieces
        # where the estimate rises, and anywhere where it is noise, so small domains are walked whole.
        wanted = (
            np.arange(sample.size)
            if sample.size <= 2**16
            else np.unique(np.concatenate((sample.values, np.maximum(sample.values - 1, 0))))
        )
        return float(np.abs(self.at(wanted.tolist()) - sample.at_most(wanted) / sample.n).max())


def cdf_by_tree(values: Any, *, epsilon: float, domain: Domain, rng: np.random.Generator, **options: Any) -> Cdf:
    """LDPemp-cdf from the hierarchical mechanism: one report a user, every threshold answered from the same."""
    sample = Sample.of_values(values, domain)
    made = make_protocol("hierarchical", domain, users=sample.n, epsilon=epsilon, **options)
    assert isinstance(made, Hierarchical)
    drive(made, Users(sample, rng))
    return Cdf(made.cdf, made.guarantee)


def cdf_by_medians(
    values: Any,
    *,
    alpha: float,
    epsilon: float,
    domain: Domain,
    rng: np.random.Generator,
    protocol: str = "hierarchical",
    q: float = 0.5,
    **options: Any,
) -> Cdf:
    """LDPemp-cdf from a non-adaptive q-quantile (Lemma "reduction"): responses are collected once and padded.

    Every user answers ceil(2 ln(1/alpha)) times at an equal part of epsilon. The aggregator makes up responses
    of virtual users at both ends. For each quantile alpha, 2 alpha, .. it adds as many of them as move that
    quantile to q, reads the answer off, and takes the median over the repeats. Only a protocol whose questions do
    not depend on answers can be used so.
    """
    error, level = check_probability(alpha, "alpha"), check_quantile(q)
    if protocol_class(protocol).adaptive:
        raise InvalidInput(
            f"the reduction pads responses after they were given, which needs a non-adaptive protocol such as "
            f"'hierarchical', got {protocol!r}"
        )
    sample = Sample.of_values(values, domain)
    repeats = max(1, math.ceil(2.0 * math.log(1.0 / error)))
    each = check_epsilon(epsilon) / repeats
    quantiles = [k * error for k in range(1, math.ceil(1.0 / error)) if k * error < 1.0]
    extra = {wanted: _padding(sample.n, level, wanted) for wanted in quantiles}
    answers = np.empty((repeats, len(quantiles)), np.int64)
    real = each
    for repeat in range(repeats):
        first = make_protocol(protocol, domain, users=sample.n, epsilon=each, quantile=level, **options)
        real = first.guarantee.epsilon
        questions = first.ask(sample.n)
        heard = Users(sample, rng).answer(questions)
        ends = []
        for index, side in ((0, 0), (sample.size - 1, 1)):
            most = max((pads[side] for pads in extra.values()), default=0)
            virtual = Sample(np.full(max(most, 1), index, np.int64), sample.size)
            ends.append(Users(virtual, rng).answer([questions[0]] * most) if most else [])
        for k, wanted in enumerate(quantiles):
            low, high = extra[wanted]
            made = make_protocol(
                protocol, domain, users=sample.n + low + high, epsilon=each, quantile=level, **options
            )
            made.tell([*heard, *ends[0][:low], *ends[1][:high]])
            answer = made.estimate().index
            assert answer is not None
            answers[repeat, k] = answer
    # Noise may put a higher quantile below a lower one; a distribution function rises.
    reached = np.maximum.accumulate(np.sort(answers, axis=0)[(repeats - 1) // 2])
    steps = np.array([0.0, *quantiles])

    def at(indices: Sequence[int]) -> Floats:
        wanted = np.asarray(indices, np.int64)
        found = steps[np.searchsorted(reached, wanted, side="right")]
        return np.where(wanted >= domain.size - 1, 1.0, found)

    return Cdf(at, Guarantee("local", repeats * real, answers=repeats))


def _padding(n: int, q: float, wanted: float) -> tuple[int, int]:
    """Virtual users at the bottom and at the top that make the `wanted` quantile of n users the q-quantile."""
    if wanted > q:
        return 0, round((wanted - q) / q * n)
    return round((q - wanted) / (1.0 - q) * n), 0

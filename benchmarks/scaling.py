"""How a trial's cost grows: with n from 10^4 to 10^7, and with B from 2^16 to 2^63.

The ratio of a row is its cost over the cost of the first row of its protocol.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from measure import Row, processor_seconds

from privquant.domain import Integers
from privquant.lab.data import dataset
from privquant.lab.engine import simulator
from privquant.lab.sample import Sample
from privquant.protocols.base import Protocol
from privquant.protocols.registry import protocol, protocol_names

USERS = (10**4, 10**5, 10**6, 10**7)
EXPONENTS = (16, 32, 48, 63)
PER_USER = ("bayess", "bayeslearn")
TURNS = 9


def _trials(template: Protocol, sample: Sample, trials: int) -> Callable[[], object]:
    simulate = simulator(template)
    return lambda: simulate(template, sample, trials, np.random.default_rng(1))


def trial_seconds(name: str, samples: list[Sample]) -> list[float]:
    """Seconds of processor a trial on each sample, the best of several turns; histograms are made before."""
    works, counts = [], []
    for sample in samples:
        template = protocol(name, Integers(0, sample.size - 1), users=sample.n, epsilon=1.0)
        trials = max(1, min(50, 10**6 // sample.n)) if name in PER_USER else 50
        _ = sample.values
        works.append(_trials(template, sample, trials))
        counts.append(trials)
    turns = [[processor_seconds(work) for work in works] for _ in range(TURNS + 1)][1:]
    return [min(times) / count for times, count in zip(zip(*turns, strict=True), counts, strict=True)]


def grown(benchmark: str, case: str, cost: float, first: float, users: int) -> Row:
    return {
        "benchmark": benchmark,
        "case": case,
        "baseline_seconds": first,
        "ours_seconds": cost,
        "unit": "trial",
        "ratio": cost / first,
        "ns_per_user": 1e9 * cost / users,
    }


def by_users() -> list[Row]:
    """Cost of a trial over that of the smallest n."""
    samples = [dataset("pareto", n=n, size=4**9).sample() for n in USERS]
    found = []
    for name in protocol_names():
        costs = trial_seconds(name, samples)
        found += [
            grown("growth with n", f"{name}, Pareto data, n = 10^{len(str(s.n)) - 1}, B = 4^9", cost, costs[0], s.n)
            for s, cost in zip(samples, costs, strict=True)
        ]
    return found


def by_domain() -> list[Row]:
    """Cost of a trial over that of the smallest B; uniform data, whose every value differs, is the worst case."""
    samples = [dataset("uniform-interval", n=10**5, size=2**k).sample() for k in EXPONENTS]
    found = []
    for name in protocol_names():
        costs = trial_seconds(name, samples)
        found += [
            grown("growth with B", f"{name}, uniform data, n = 10^5, B = 2^{k}", cost, costs[0], 10**5)
            for k, cost in zip(EXPONENTS, costs, strict=True)
        ]
    return found


def rows() -> list[Row]:
    return by_users() + by_domain()

"""BayesLearn on our posterior against a dense update of all B weights a user, as the authors' program does it.

Ours runs whole trials, user permutation and coin flips included, on Pareto data; the dense update is timed on a few
hundred users, since every one of them costs the same. Both in one process, turn by turn.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from measure import Row, row

from privquant.domain import Integers
from privquant.lab.data import pareto
from privquant.lab.engine import bayes
from privquant.lab.sample import Sample
from privquant.protocols.bayes.bayeslearn import BayesLearn
from privquant.protocols.registry import protocol

SIZE = 4**9
DENSE_USERS = 200

MEMORY = """
import json, resource, sys, time
import numpy as np
from privquant.domain import Integers
from privquant.lab.data import pareto
from privquant.lab.engine import bayes
from privquant.lab.sample import Sample
from privquant.protocols.registry import protocol
n, size = int(sys.argv[1]), int(sys.argv[2])
values = pareto(n, size) if sys.argv[3] == "pareto" else np.random.default_rng(0).integers(0, size, n)
sample = Sample(values, size)
template = protocol("bayeslearn", Integers(0, size - 1), users=n, epsilon=1.0)
bayes.simulate(protocol("bayeslearn", Integers(0, 9), users=10, epsilon=1.0), Sample(np.arange(10), 10), 1,
               np.random.default_rng(0))
start = time.process_time()
bayes.simulate(template, sample, 1, np.random.default_rng(1))
spent = time.process_time() - start
print(json.dumps([spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def dense(template: BayesLearn, crowd: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The authors' update: one weight a cell, the whole array touched for every user."""
    alpha = template.alpha
    w = np.full(template.domain.size - 1, 1.0 / (template.domain.size - 1))
    flips = rng.random(crowd.size) < template.coin.flip
    for value, flipped in zip(crowd.tolist(), flips.tolist(), strict=True):
        j = int(np.argmax(np.cumsum(w) >= 0.5))
        sign = 1.0 if (value <= j) != flipped else -1.0
        w[:j] *= 1.0 + 2.0 * alpha * sign
        w[j + 1 :] *= 1.0 - 2.0 * alpha * sign
        w[j] = 1.0 - (w[:j].sum() + w[j + 1 :].sum())
    return w


def learner(n: int, size: int = SIZE) -> BayesLearn:
    made = protocol("bayeslearn", Integers(0, size - 1), users=n, epsilon=1.0)
    assert isinstance(made, BayesLearn)
    return made


def cpu_seconds(work: Callable[[], object]) -> float:
    """Both ways run on one core and wait for nothing: processor time is what they cost, on a busy machine too."""
    start = time.process_time()
    work()
    return time.process_time() - start


def trial_of(sample: Sample) -> Callable[[], object]:
    template = learner(sample.n, sample.size)
    return lambda: bayes.simulate(template, sample, 1, np.random.default_rng(1))


def against_dense(n: int = 10**7, turns: int = 3) -> Row:
    """A user's cost at n users against the dense update, timed in alternation."""
    sample, few = Sample(pareto(n, SIZE), SIZE), learner(2500)
    crowd = sample.indices[:DENSE_USERS]
    trial = trial_of(sample)
    pairs = [
        (
            cpu_seconds(lambda: dense(few, crowd, np.random.default_rng(2))) / DENSE_USERS,
            cpu_seconds(trial) / n,
        )
        for _ in range(turns + 1)
    ][1:]
    return row(
        "BayesLearn against the dense update",
        f"Pareto data, n = {n:,}, B = 4^9, permutation and coin included",
        min(a for a, _ in pairs),
        min(b for _, b in pairs),
        "user",
    )


def growth(users: tuple[int, ...] = (10**5, 10**6, 10**7), turns: int = 3) -> list[Row]:
    """A user's cost at each n over that at the first, timed in alternation."""
    works = [(n, trial_of(Sample(pareto(n, SIZE), SIZE))) for n in users]
    turned = [[cpu_seconds(work) / n for n, work in works] for _ in range(turns + 1)][1:]
    costs = [min(column) for column in zip(*turned, strict=True)]
    return [
        {
            "benchmark": "BayesLearn, growth with n (ratio: over the first)",
            "case": f"Pareto data, n = {n:,}, B = 4^9",
            "baseline_seconds": costs[0],
            "ours_seconds": cost,
            "unit": "user",
            "ratio": cost / costs[0],
        }
        for n, cost in zip(users, costs, strict=True)
    ]


def memory(n: int = 10**7, size: int = SIZE, data: str = "pareto") -> Row:
    """Peak resident memory of a fresh process that runs one trial, the data and the interpreter included."""
    command = [sys.executable, "-c", MEMORY, str(n), str(size), data]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    spent, peak = json.loads(done.stdout)
    domain = "4^9" if size == SIZE else f"2^{size.bit_length() - 1}"
    return {
        "benchmark": "BayesLearn, peak memory",
        "case": f"{data} data, n = {n:,}, B = {domain}: {peak:.0f} MiB",
        "ours_seconds": spent / n,
        "unit": "user",
        "peak_mib": peak,
    }


def rows() -> list[Row]:
    return [against_dense(), *growth(), memory(), memory(size=2**63, data="uniform")]


def main() -> None:
    for found in rows():
        print(json.dumps(found))


if __name__ == "__main__":
    main()

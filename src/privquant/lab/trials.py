"""Many independent runs of one protocol on one data set.

Trials run in blocks of fixed size, each with its own child of the seed, so the answers are the same for any
number of workers.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant.columns import to_indices
from privquant.domain import Domain
from privquant.errors import InvalidInput
from privquant.lab.engine import simulator
from privquant.lab.sample import Sample
from privquant.protocols.base import Protocol
from privquant.protocols.registry import protocol as make_protocol
from privquant.validation import check_choice, check_count, check_probability

BLOCK = 50


@dataclass(frozen=True, repr=False)
class Trials:
    """Answers of independent runs: one row a trial (and a column a quantile where several were asked)."""

    indices: NDArray[np.int64]
    template: Protocol
    sample: Sample

    @property
    def values(self) -> NDArray[Any]:
        """The answers as values of the domain."""
        domain = self.template.domain
        flat = [domain.value(int(i)) for i in self.indices.ravel()]
        found = np.array(flat, dtype=object if any(abs(v) >= 2**63 for v in flat) else None)
        found = found.reshape(self.indices.shape[0], -1)
        return found[:, 0] if self.indices.shape[1] == 1 else found

    def success(self, alpha: float) -> float:
        """Share of trials whose answer v has F(v-1) < q + alpha and F(v) > q - alpha (first quantile)."""
        q = self.template.quantile
        check_probability(alpha, "alpha")
        return float(self.sample.success(self.indices[:, 0], q, alpha).mean())

    def __repr__(self) -> str:
        made = self.template
        return (
            f"Trials({self.indices.shape[0]:,} runs of {made.name}, {made.users:,} users, epsilon {made.epsilon:g})"
        )

    def rank_errors(self) -> NDArray[np.float64]:
        """Distance of q to [F(v-1), F(v)] for each trial (first quantile)."""
        return self.sample.rank_error(self.indices[:, 0], self.template.quantile)


def trials(
    values: Any,
    *,
    protocol: str,
    epsilon: float,
    domain: Domain,
    quantile: Any = 0.5,
    trials: int,
    seed: int,
    draw: str = "empirical",
    users: int | None = None,
    workers: int = 1,
    **options: Any,
) -> Trials:
    """The answers of `trials` independent runs.

    draw: "empirical" asks each user of `values` at most once; "statistical" draws `users` users from `values`
    taken as a distribution. workers: processes to use; 0 means all cores. Options are the protocol's own.
    """
    count = check_count(trials, "trials", 1)
    root = check_count(seed, "seed")
    check_choice(draw, "draw", ("empirical", "statistical"))
    sample = Sample(to_indices(values, domain).indices, domain.size)
    planned = sample.n if users is None else check_count(users, "users", 1)
    if draw == "empirical" and planned > sample.n:
        raise InvalidInput(f"users must be at most the {sample.n} values given, got {planned}")
    template = make_protocol(protocol, domain, users=planned, epsilon=epsilon, quantile=quantile, **options)
    return Trials(simulate_trials(template, sample, count, root, draw=draw, workers=workers), template, sample)


def simulate_trials(
    template: Protocol, sample: Sample, count: int, seed: int, *, draw: str = "empirical", workers: int = 1
) -> NDArray[np.int64]:
    """The answers' indices, one row a trial; the same for any number of workers."""
    blocks = [min(BLOCK, count - start) for start in range(0, count, BLOCK)]
    seeds = np.random.SeedSequence(seed).spawn(len(blocks))
    jobs = [(template, sample, size, child, draw) for size, child in zip(blocks, seeds, strict=True)]
    pool_size = min(workers if workers > 0 else (os.cpu_count() or 1), len(jobs))
    if pool_size <= 1:
        return np.concatenate([_block(job) for job in jobs])
    with ProcessPoolExecutor(pool_size) as pool:
        return np.concatenate(list(pool.map(_block, jobs)))


def _block(job: tuple[Protocol, Sample, int, np.random.SeedSequence, str]) -> NDArray[np.int64]:
    template, sample, size, seed, draw = job
    rng = np.random.Generator(np.random.PCG64(seed))
    return simulator(template, draw)(template, sample, size, rng, draw=draw)

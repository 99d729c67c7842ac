"""Measure what the planner plans with: rank errors of every protocol on a grid of settings.

The result is `privquant/planning/calibration.json`; `privquant calibrate` makes it anew. Data are drawn afresh
for every block of trials from five shapes: "typical" is the middle one of the five errors, "hardest" the largest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant import __version__
from privquant.domain import Integers
from privquant.lab.engine import simulator
from privquant.lab.sample import Sample
from privquant.lab.shapes import shape
from privquant.protocols.base import Protocol
from privquant.protocols.registry import protocol

SHAPES = ("pareto", "uniform", "lognormal", "ties", "tiny")
LOG2_SIZES = (8, 20, 48)
QUANTILES = (0.5, 0.9, 0.99)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
CONFIDENCES = (0.5, 0.68, 0.8, 0.9, 0.95, 0.99)
USERS = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000, 10_000_000)
DELTA = 1e-8

# A crowd is a histogram: beyond this many draws a shape's histogram is scaled up instead of drawn longer.
DRAWN = 100_000


@dataclass(frozen=True)
class Row:
    """One line of the table: how to make the protocol, and up to how many users it is worth simulating."""

    name: str
    largest: int
    make: Callable[[Integers, int, float, float], Protocol | None]


def _local(name: str, **options: Any) -> Callable[[Integers, int, float, float], Protocol | None]:
    def make(domain: Integers, users: int, epsilon: float, quantile: float) -> Protocol | None:
        return protocol(name, domain, users=users, epsilon=epsilon, quantile=quantile, **options)

    return make


def rows() -> tuple[Row, ...]:
    from privquant.protocols.isotonic.shuffled import shuffled_isotonic
    from privquant.protocols.naive.shuffled import shuffled_search

    def isotonic_rounds(domain: Integers, users: int, epsilon: float, quantile: float) -> Protocol | None:
        return shuffled_isotonic(domain, users=users, epsilon=epsilon, delta=DELTA, quantile=quantile)

    def naive_rounds(method: str) -> Callable[[Integers, int, float, float], Protocol | None]:
        def make(domain: Integers, users: int, epsilon: float, quantile: float) -> Protocol | None:
            return shuffled_search(
                domain, users=users, epsilon=epsilon, delta=DELTA, quantile=quantile, method=method
            )

        return make

    return (
        Row("isotonic/local", USERS[-1], _local("isotonic")),
        Row("bayeslearn/local", 10_000, _local("bayeslearn")),
        Row("bayess/local", 10_000, _local("bayess")),
        Row("naive/local", USERS[-1], _local("naive")),
        Row("hierarchical/local", USERS[-1], _local("hierarchical", encoding="oue")),
        Row("isotonic/shuffle", USERS[-1], isotonic_rounds),
        Row("naive/shuffle-exact", USERS[-1], naive_rounds("exact")),
        Row("naive/shuffle-lemma", USERS[-1], naive_rounds("lemma")),
    )


def crowd(name: str, users: int, size: int, rng: np.random.Generator) -> Sample:
    """A drawn population of `users`; very large ones repeat a drawn histogram."""
    drawn = shape(name, min(users, DRAWN), size, rng)
    if users <= DRAWN:
        return Sample(drawn, size)
    values, counts = np.unique(drawn, return_counts=True)
    return Sample.of_counts(values, counts * (users // DRAWN), size)


def cell(
    row: Row, log2_size: int, quantile: float, epsilon: float, users: int, trials: int, seed: int
) -> dict[str, list[float]]:
    """The error quantiles of one grid point: on the middle one of the shapes, and on the worst of them."""
    domain = Integers(0, 2**log2_size - 1)
    template = row.make(domain, users, epsilon, quantile)
    assert template is not None
    by_shape: list[NDArray[np.float64]] = []
    for k, name in enumerate(SHAPES):
        rng = np.random.default_rng([seed, k, log2_size, int(1000 * quantile), int(1000 * epsilon), users])
        data_sets = max(4, trials // 10)
        errors = []
        for part in range(data_sets):
            sample = crowd(name, users, domain.size, rng)
            count = trials * (part + 1) // data_sets - trials * part // data_sets
            answers = simulator(template)(template, sample, count, rng, draw="empirical")[:, 0]
            errors.append(sample.rank_error(answers, quantile))
        by_shape.append(np.concatenate(errors))
    quantiles = [_error_quantiles(errors) for errors in by_shape]
    return {
        "typical": np.median(quantiles, axis=0).tolist(),
        "hardest": np.max(quantiles, axis=0).tolist(),
    }


def _error_quantiles(errors: NDArray[np.float64]) -> list[float]:
    return [float(f"{v:.3g}") for v in np.quantile(errors, CONFIDENCES, method="higher")]


@dataclass(frozen=True)
class _Job:
    row: int
    at: tuple[int, int, int, int]
    trials: int
    seed: int

    def __call__(self) -> dict[str, list[float]]:
        size, quantile, epsilon, users = self.at
        return cell(
            rows()[self.row],
            LOG2_SIZES[size],
            QUANTILES[quantile],
            EPSILONS[epsilon],
            USERS[users],
            self.trials,
            self.seed,
        )


def _run(job: _Job) -> tuple[_Job, dict[str, list[float]]]:
    return job, job()


def calibrate(
    *, trials: int, seed: int, workers: int, progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """The whole table, as the planner reads it."""
    jobs = list(_jobs(trials, seed))
    errors: dict[str, Any] = {}
    for row in rows():
        shape_of = (len(LOG2_SIZES), len(QUANTILES), len(EPSILONS), _columns(row), len(CONFIDENCES))
        table = {kind: np.zeros(shape_of).tolist() for kind in ("typical", "hardest")}
        errors[row.name] = {"users": USERS[: _columns(row)], "table": table}
    names = [row.name for row in rows()]
    with ProcessPoolExecutor(workers) as pool:
        for done, (job, found) in enumerate(pool.map(_run, jobs), start=1):
            size, quantile, epsilon, users = job.at
            for kind, values in found.items():
                errors[names[job.row]]["table"][kind][size][quantile][epsilon][users] = values
            if progress is not None:
                progress(done, len(jobs))
    return {
        "made_by": f"privquant calibrate --trials {trials} --seed {seed}",
        "version": __version__,
        "shapes": SHAPES,
        "trials_a_shape": trials,
        "delta": DELTA,
        "log2_sizes": LOG2_SIZES,
        "quantiles": QUANTILES,
        "epsilons": EPSILONS,
        "confidences": CONFIDENCES,
        "errors": errors,
    }


def _columns(row: Row) -> int:
    return sum(n <= row.largest for n in USERS)


def _jobs(trials: int, seed: int) -> Iterator[_Job]:
    for number, row in enumerate(rows()):
        for size in range(len(LOG2_SIZES)):
            for quantile in range(len(QUANTILES)):
                for epsilon in range(len(EPSILONS)):
                    for users in range(_columns(row)):
                        yield _Job(number, (size, quantile, epsilon, users), trials, seed)


def write(document: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")

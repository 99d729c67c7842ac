"""Fitting a law of rank errors to simulated runs: probit regression by iterated least squares.

The likelihood counts every run at several alphas, which are not independent; that makes the fit look surer than it
is, and does not move it. Coefficients are held towards "errors are normal with one unit of deviation" by a few
runs' worth of evidence, so that features nobody measured stay out of the law.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from privquant.arrays import Floats
from privquant.lab.experiment.outcome import Outcome
from privquant.planning.calibration import PRODUCTS
from privquant.planning.law import SMOOTH, Run, made_of, normal_tail, unit

_STEPS = 60
_HELD_BY = 2.0
# eta moves by at most this in one step where a cell's runs all passed or all failed.
_LONGEST_STEP = 3.0
# Alphas at which runs are counted, in units.
_ALPHAS = (0.15, 0.3, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 9.0, 14.0, 22.0, 35.0)
# The same as parts of the way to the end: of few users a unit is more than all ranks.
_PARTS = (0.2, 0.5, 0.8)
# Runs whose answers are shared by more than this (in units, on average) say nothing about data without ties. All
# runs of a cell or none: answers away from the crowd are shared by fewer, and would be kept more often.
_TIED = 0.5

Entry = tuple[float, int, Run, int, int]
"""z units, which side (1 is above), the run, how many runs, how many passed z units on that side."""


class Counts(NamedTuple):
    """Entries as columns."""

    z: Floats
    above: Floats
    run: Run
    runs: Floats
    passed: Floats


def features(z: Any, above: Any, run: Run, products: tuple[str, ...] = SMOOTH) -> Floats:
    """One row a case: z units, on the side above (1) or below (0) of the quantile, of such a run.

    Of a cliff: z as `cliff_run` has it, and above is whether there are people on either side of it.
    """
    z = np.asarray(z, np.float64)
    made = made_of(products, z.shape, above, run)
    return np.concatenate([made * of_z[..., None] for of_z in (np.ones_like(z), z, np.log1p(z))], axis=-1)


def fitted(counts: Counts, features_of: str, known: Floats | None = None) -> dict[str, Any]:
    """The law under which these counts are likeliest, as its part of the document.

    features_of: the name of what its features are made of.
    known:       the eta of a law that this one is added to, and is held near.
    """
    products = PRODUCTS[features_of]
    rows = features(counts.z, counts.above, counts.run, products)
    prior = np.zeros(rows.shape[1])
    if known is None:
        prior[len(products)] = 1.0  # eta = z
    base = np.zeros(len(rows)) if known is None else known
    found = prior.copy()
    share = counts.passed / counts.runs
    for _ in range(_STEPS):
        eta = base + rows @ found
        tail = np.clip(normal_tail(eta), 1e-9, 1.0 - 1e-9)
        density = np.maximum(np.exp(-0.5 * eta**2) / math.sqrt(2.0 * math.pi), 1e-9)
        weight = counts.runs * density**2 / (tail * (1.0 - tail))
        step = np.clip((tail - share) / density, -_LONGEST_STEP, _LONGEST_STEP)
        information = rows.T @ (rows * weight[:, None]) + _HELD_BY * np.eye(prior.size)
        moved = np.linalg.solve(information, rows.T @ (weight * (eta - base + step)) + _HELD_BY * prior)
        done = bool(np.max(np.abs(moved - found)) < 1e-6)
        found = moved
        if done:
            break
    return {"features": features_of, "coefficients": [float(f"{c:.6g}") for c in found]}


def pooled(entries: Iterable[Entry]) -> list[Entry]:
    """The same with runs of the same kind, such as those of several shapes, counted together."""
    found: dict[tuple[float, int, Run], tuple[int, int]] = {}
    for z, above, run, runs, passed in entries:
        before = found.get((z, above, run), (0, 0))
        found[z, above, run] = (before[0] + runs, before[1] + passed)
    return [(*kind, *counts) for kind, counts in found.items()]


def as_counts(entries: list[Entry]) -> Counts:
    """Entries as columns."""
    z, above, runs, sizes, passed = (list(column) for column in zip(*entries, strict=True))
    columns = [np.array([getattr(run, part) for run in runs], np.float64) for part in Run._fields]
    return Counts(
        np.array(z), np.array(above, np.float64), Run(*columns), np.array(sizes, float), np.array(passed, float)
    )


def errors_counted(run: Run, outcome: Outcome, which: int, *, tied: bool) -> Iterator[Entry]:
    """The entries of one cell's quantile, at every alpha at which there is a rank to pass.

    tied: errors as they are, where every rank of a shared value is right. Else those of data without ties: the
    middle of the answer's ranks, where few share one.
    """
    n, q, scale = outcome.n, outcome.quantiles[which], float(unit(run))
    below, upto = outcome.below[:, which] / n - q, outcome.upto[:, which] / n - q
    if tied:
        errors = np.where(below > 0, below, np.where(upto < 0, upto, 0.0))
    else:
        if np.mean(upto - below) >= _TIED * scale + 2.0 / n:
            return
        errors = (below + upto) / 2.0
    for above, end in ((1, 1.0 - q), (0, q)):
        signed = errors if above else -errors
        for z in (*_ALPHAS, *(part * end / scale for part in _PARTS)):
            if z * scale < end - 0.6 / n:
                yield z, above, run, errors.size, int((signed > z * scale).sum())

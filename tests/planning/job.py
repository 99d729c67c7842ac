"""The real job: p50, p90 and p99 of the start-up times of 20,000 installs at epsilon 1, planned with a pilot.

`python job.py 300 FIGURE.png` (from this folder) runs it so many times beside what the plan said, and draws both;
`python job.py 300 simulate=0` by the laws alone, without simulating; `python job.py 300 .25,.5,.75` for others.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

import privquant as pq
from privquant.domain import Integers
from privquant.lab.experiment.cell import Cell, Registered
from privquant.lab.experiment.runner import run_cells
from privquant.lab.sample import Draw, Sample

INSTALLS, EPSILON, QUANTILES, CONFIDENCE = 20_000, 1.0, (0.5, 0.9, 0.99), 0.9
DOMAIN = Integers(0, 60_000)


def start_up_times(n, rng):
    """Milliseconds: median 400, half of them between 220 and 720, a long tail."""
    return np.clip(np.exp(math.log(400.0) + 0.9 * rng.standard_normal(n)), 0, 60_000).astype(np.int64)


PILOT = start_up_times(20_000, np.random.default_rng(12))


@dataclass(frozen=True)
class Installs:
    """Start-up times of 20,000 installs, others in every run."""

    n: int = INSTALLS
    name = "installs"
    domain = DOMAIN
    key = "start-up times of installs"

    def draw(self, rng):
        return Draw(Sample(start_up_times(self.n, rng), DOMAIN.size), None)


def planned(users=INSTALLS, quantiles=QUANTILES, **further):
    return pq.plan(
        q=quantiles,
        users=users,
        epsilon=EPSILON,
        confidence=CONFIDENCE,
        domain=DOMAIN,
        pilot=PILOT,
        unit="ms",
        **further,
    )


def found(plan, runs, seed=7):
    """For each quantile (said, found in rank, found in milliseconds)."""
    cell = Cell(Installs(), Registered("isotonic", EPSILON, plan.quantile), trials=runs, redraw=1)
    outcome = run_cells([cell], seed=seed, workers=1).outcomes[0]
    table = []
    for which, target in enumerate(plan.targets):
        answers = outcome.answers[:, which]
        low = -math.inf if target.low is None else target.low
        high = math.inf if target.high is None else target.high
        table.append(
            (
                target.success,
                outcome.success(target.alpha, which),
                float(np.mean((answers >= low) & (answers <= high))),
                answers,
            )
        )
    return table


def draw(plan, table, path):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3), layout="constrained")
    places = figure.subplots(1, len(table))
    for ax, target, (said, rank, ms, answers) in zip(places, plan.targets, table, strict=True):
        ax.hist(answers, bins=30, color="#7a9cc6")
        ax.axvline(target.value, color="black", lw=1)
        high = max(answers) if target.high is None else target.high
        ax.axvspan(target.low, high, color="#f0c36d", alpha=0.35, lw=0)
        ax.set_title(
            f"p{100 * target.quantile:g}: said {said:.0%}, found {rank:.0%} (rank), {ms:.0%} (ms)", fontsize=8
        )
        ax.set_xlabel("ms")
        ax.set_yticks([])
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    runs, others = int(sys.argv[1]), sys.argv[2:]
    asked = QUANTILES
    simulate = None
    for one in others:
        if one.startswith("simulate="):
            simulate = int(one.removeprefix("simulate="))
        elif "," in one:
            asked = tuple(map(float, one.split(",")))
    made = planned(quantiles=asked, simulate=simulate)
    print(made)
    table = found(made, runs)
    for target, (said, rank, ms, _) in zip(made.targets, table, strict=True):
        error = math.sqrt(said * (1 - said) / runs)
        print(f"p{100 * target.quantile:g}: said {said:.3f} +- {3 * error:.3f}, in rank {rank:.3f}, in ms {ms:.3f}")
    for path in (one for one in others if one.endswith(".png")):
        draw(made, table, path)

"""Honest runs of isotonic search: how large the contradiction between epochs gets, and how often that is an alarm.

python benchmarks/false_alarms.py --runs 100000

Runs are spread over the lab's shapes, four sizes of run, two schedules and two quantiles; each ten on new data. The
contradiction is the largest at any decision of a run. Prints one line a size and schedule, and all together.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np

from privquant.domain import Integers
from privquant.lab.engine import Setting
from privquant.lab.engine.isotonic import outcomes
from privquant.lab.sample import Sample
from privquant.lab.schedule import Schedule
from privquant.lab.shapes import SHAPES, shape
from privquant.protocols.isotonic.contradiction import ALARM, beyond
from privquant.protocols.isotonic.protocol import Isotonic

SIZE = 10**6
EPSILON = 1.0
ON_ONE = 10
# users, schedule, spread, and the part of all runs it gets
KINDS = (
    (500, Schedule.of(), 0.0, 0.2),
    (1_000, Schedule.of(), 0.0, 0.25),
    (2_500, Schedule.of(), 0.0, 0.25),
    (2_500, Schedule.of(rounds=32), 0.25, 0.2),
    (20_000, Schedule.of(), 0.0, 0.1),
)


def evidence(users: int, schedule: Schedule, spread: float, runs: int, seed: int) -> np.ndarray:
    """The contradictions of so many honest runs, above the level of an alarm by its own scale."""
    kinds = list(product(SHAPES, (0.5, 0.9)))
    found: list[float] = []
    turn = 0
    while len(found) < runs:
        name, q = kinds[turn % len(kinds)]
        rng = np.random.default_rng([seed, users, turn])
        template = Isotonic(Integers(0, SIZE - 1), users=users, epsilon=EPSILON, quantile=q, spread=spread)
        sample = Sample(shape(name, users, SIZE, rng), SIZE)
        found += outcomes(template, sample, ON_ONE, rng, Setting(schedule=schedule)).evidence.tolist()
        turn += 1
    return np.array(found) - beyond(ALARM, users, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    together = []
    for users, schedule, spread, part in KINDS:
        below = evidence(users, schedule, spread, max(int(part * given.runs), 1), given.seed)
        together.append(below)
        print(f"{users:,} users, {schedule}: {_said(below)}", flush=True)
    print(f"all: {_said(np.concatenate(together))}")


def _said(below: np.ndarray) -> str:
    points = ", ".join(f"{p:.2%}: {ALARM + np.quantile(below, p):.1f}" for p in (0.5, 0.99, 0.999, 0.9999))
    largest = ALARM + below.max()
    return f"{below.size:,} runs, {(below > 0).sum()} alarms; contradiction {points}, largest {largest:.1f}"


if __name__ == "__main__":
    main()

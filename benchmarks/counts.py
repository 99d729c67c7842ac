"""Trials by exact counts: against asking every simulated user or asking by counts, and from n = 10^4 to 10^8.

A row of the first kind times a trial of the protocol object asking users one by one (in random order, each with
their own coin) against a trial by counts, side by side. For isotonic search in rounds the object asks by counts
too, on the same schedule: the way of trials that no engine supports. A row of the last kind is a trial's cost over
its cost at n = 10^4: users are given as a histogram, whose making is not part of a trial.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from measure import Row, row, seconds, side_by_side

from privquant.domain import Integers
from privquant.lab.data import dataset
from privquant.lab.engine import Setting, simulate_by_asking, simulator
from privquant.lab.populations import Users
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.lab.schedule import Schedule
from privquant.protocols.base import Protocol
from privquant.protocols.registry import protocol

SIZE = 4**8
CASES = (
    ("naive search", "naive", {}, 10**4),
    ("naive search", "naive", {}, 10**6),
    ("tree, Hadamard, descent", "hierarchical", {"encoding": "hadamard"}, 10**4),
    ("tree, OUE, descent", "hierarchical", {"encoding": "oue"}, 1000),
    ("tree, OUE, argmin", "hierarchical", {"encoding": "oue", "answer": "argmin"}, 1000),
)
GROWING = (10**4, 10**5, 10**6, 10**7, 10**8)
BLOCK = 50
ASKED = 5
TURNS = 40


class OneByOne:
    """A population that cannot answer by counts: every user looks at their own value and throws their own coin."""

    def __init__(self, sample: Sample, rng: np.random.Generator) -> None:
        self.answer = Users(sample, rng).answer


def by_asking(template: Protocol, sample: Sample) -> None:
    run(template.fresh(), OneByOne(sample, np.random.default_rng(1)))


def by_counts(template: Protocol, sample: Sample, trials: int) -> None:
    simulator(template)(template, sample, trials, np.random.default_rng(1))


def against_asking() -> list[Row]:
    found = []
    for title, name, options, n in CASES:
        sample = dataset("pareto", n=n, size=SIZE).sample()
        template = protocol(name, Integers(0, SIZE - 1), users=n, epsilon=1.0, **options)
        asked, counted = side_by_side(
            partial(by_asking, template, sample), partial(by_counts, template, sample, BLOCK)
        )
        found.append(row("by users over by counts", f"{title}, n = {n}, B = 4^8", asked, counted / BLOCK, "trial"))
    return found


def in_rounds() -> list[Row]:
    """Isotonic search spread over posterior quantiles, in 32 rounds."""
    n, size, schedule = 2500, 4**9, Schedule.rounds(32)
    sample = dataset("pareto", n=n, size=size).sample()
    template = protocol("isotonic", Integers(0, size - 1), users=n, epsilon=0.879, spread=0.25)
    rng = np.random.default_rng(1)
    fast = simulator(template, schedule=schedule)
    asked, counted = side_by_side(
        partial(simulate_by_asking, template, sample, ASKED, rng, Setting(schedule=schedule)),
        partial(fast, template, sample, BLOCK, rng, Setting(schedule=schedule)),
    )
    case = f"isotonic in 32 rounds, n = {n}, B = 4^9"
    return [row("asking the object over the engine", case, asked / ASKED, counted / BLOCK, "trial")]


def histogram(n: int) -> Sample:
    """n users of the Pareto data's shape, without a list of them."""
    listed = dataset("pareto", n=min(n, 10**6), size=SIZE).sample()
    return Sample.of_counts(listed.values, np.diff(listed.cumulative, prepend=0) * (n // listed.n), SIZE)


def growth() -> list[Row]:
    found = []
    for title, name in (("naive search", "naive"), ("tree by descent", "hierarchical")):
        works = []
        for n in GROWING:
            template = protocol(name, Integers(0, SIZE - 1), users=n, epsilon=1.0)
            works.append(partial(by_counts, template, histogram(n), BLOCK))
        # Turn by turn through all n, so that a slow moment of the machine does not fall on one of them alone.
        turns = [[seconds(work) for work in works] for _ in range(TURNS)]
        costs = [min(times) / BLOCK for times in zip(*turns, strict=True)]
        found += [
            {
                "benchmark": "growth with n, by counts",
                "case": f"{title}, n = 10^{len(str(n)) - 1}, B = 4^8",
                "baseline_seconds": costs[0],
                "ours_seconds": cost,
                "unit": "trial",
                "ratio": cost / costs[0],
            }
            for n, cost in zip(GROWING, costs, strict=True)
        ]
    return found


def rows() -> list[Row]:
    return against_asking() + in_rounds() + growth()


if __name__ == "__main__":
    for line in rows():
        cost, ratio = 1e6 * line["ours_seconds"], line["ratio"]
        print(f"{line['benchmark']:33} {line['case']:48} {cost:10.1f} us {ratio:10.2f}")

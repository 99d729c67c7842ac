"""Liars thinly spread over a fifth of a run: how far they move the median, by where in the run that fifth begins.

python benchmarks/thin_window.py --runs 400 --users 2000 --begins 0.8

One user in four of that fifth sends a zero whatever is asked, so one in twenty of all. Prints the 95 % point of the
rank error for each shape, and in how many runs a part was left out. Every run has data of its own.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import measure  # noqa: F401 - it puts `studies` on the path
import numpy as np
from numpy.typing import NDArray

from privquant.domain import Integers
from privquant.lab.engine import Setting
from privquant.lab.engine.isotonic import outcomes
from privquant.lab.sample import Sample
from privquant.lab.shapes import shape
from privquant.protocols.isotonic.protocol import Isotonic
from studies.attack import Attack

SIZE = 10**6
EPSILON = 1.0
SHAPES = ("pareto", "normal", "uniform")


@dataclass(frozen=True)
class ThinWindow(Attack):
    """One liar in four users of a fifth of the run that begins anywhere."""

    share: float = 0.05
    begins: float = 0.8

    def liars(self, users: int, rng: np.random.Generator) -> NDArray[np.bool_]:
        found, count = np.zeros(users, np.bool_), round(self.share * users)
        found[int(self.begins * users) + rng.permutation(4 * count)[:count]] = True
        return found


def moved(name: str, users: int, attack: Attack, runs: int, seed: int) -> tuple[float, float]:
    """(95 % point of the rank error, share of the runs that leave a part out)."""
    template = Isotonic(Integers(0, SIZE - 1), users=users, epsilon=EPSILON, quantile=0.5)
    errors, dropped = np.empty(runs), np.empty(runs)
    for number in range(runs):
        sample = Sample(shape(name, users, SIZE, np.random.default_rng([seed, number])), SIZE)
        found = outcomes(template, sample, 1, np.random.default_rng([seed, number, 7]), Setting(attack=attack))
        errors[number] = sample.rank_error(found.answers[:, 0], 0.5)[0]
        dropped[number] = found.dropped[0] > 0.0
    return float(np.quantile(errors, 0.95)), float(dropped.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--begins", type=float, default=0.8, help="from 0 to 0.8")
    parser.add_argument("--seed", type=int, default=6)
    given = parser.parse_args()
    for name in SHAPES:
        error, dropped = moved(name, given.users, ThinWindow(begins=given.begins), given.runs, given.seed)
        print(f"{name}: {error:.3f}, a part left out in {dropped:.2f}", flush=True)


if __name__ == "__main__":
    main()

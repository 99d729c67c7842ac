"""What the guard against timed liars costs where nobody lies: success without it and with it, on the same data.

python benchmarks/guard_cost.py --runs 4000
"""

from __future__ import annotations

import argparse

import numpy as np

from privquant.domain import Integers
from privquant.lab.engine.isotonic import outcomes
from privquant.lab.sample import Sample
from privquant.lab.shapes import shape
from privquant.protocols.isotonic.protocol import Isotonic

USERS = 2_500
ALPHA = 0.04
ON_ONE = 8
# shape, size, quantile, epsilon
CELLS = (
    ("pareto", 4**9, 0.5, 0.879),
    ("uniform", 10**6, 0.5, 0.879),
    ("tiny", 2**32, 0.5, 0.879),
    ("ties", 10**6, 0.5, 1.357),
    ("pareto", 4**9, 0.9, 0.879),
    ("tiny", 2**32, 0.9, 1.357),
)


def runs(
    cell: tuple[str, int, float, float], count: int, seed: int, *, guard: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(whether each run succeeded, whether it left a part out)."""
    name, size, q, epsilon = cell
    template = Isotonic(Integers(0, size - 1), users=USERS, epsilon=epsilon, quantile=q, guard=guard)
    errors, dropped = [], []
    for number in range(count // ON_ONE):
        sample = Sample(shape(name, USERS, size, np.random.default_rng([seed, number])), size)
        found = outcomes(template, sample, ON_ONE, np.random.default_rng([seed, number, 7]))
        errors.append(sample.rank_error(found.answers[:, 0], q))
        dropped.append(found.dropped > 0.0)
    return np.concatenate(errors) < ALPHA, np.concatenate(dropped)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for cell in CELLS:
        plain, _ = runs(cell, given.runs, given.seed, guard=False)
        guarded, dropped = runs(cell, given.runs, given.seed, guard=True)
        difference = guarded.astype(float) - plain
        error = difference.std() / np.sqrt(difference.size)
        print(
            f"{cell}: {plain.mean():.4f} -> {guarded.mean():.4f}, difference {difference.mean():+.4f} +- "
            f"{error:.4f}; a part left out in {dropped.mean():.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()

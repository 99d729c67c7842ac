"""How often the truth lies in the range of values that is called typical, and how wide that is.

    cd tests/protocols/isotonic && python value_ranges.py [shape ...]

Held: of the runs in which something is typical. Width: half the range over the 95 % point of the errors seen.
"""

from __future__ import annotations

import sys

import numpy as np

import privquant as pq
from privquant.error_words import Typical
from privquant.lab.shapes import shape

SHAPES = ("normal", "lognormal", "gamma", "uniform", "pareto")
SIZE = 10**6


def drawn(name: str, users: int, rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """(values, largest value of the domain)."""
    if name == "normal":
        return np.clip(rng.normal(5000, 1000, users), 0, 9999).astype(int), 9999
    if name == "lognormal":
        return np.clip(rng.lognormal(7, 1, users), 0, SIZE - 1).astype(int), SIZE - 1
    if name == "gamma":
        return np.clip(rng.gamma(2, 2000, users), 0, SIZE - 1).astype(int), SIZE - 1
    return shape(name, users, SIZE, rng), SIZE - 1


def cell(name: str, q: float, users: int, runs: int) -> str:
    held, half, errors = [], [], []
    for number in range(runs):
        rng = np.random.default_rng((number, users, 3))
        values, high = drawn(name, users, rng)
        found = pq.quantile(values, q, domain=(0, high), epsilon=1.0, rng=rng)
        if isinstance(found.typical, Typical):
            truth = np.quantile(values, q, method="inverted_cdf")
            held.append(found.typical.low <= truth <= found.typical.high)
            half.append((found.typical.high - found.typical.low) / 2)
            errors.append(abs(found.value - truth))
    width = np.median(half) / np.quantile(errors, 0.95)
    return f"{name:10} {q} {users:6}: given {len(held) / runs:.2f}, held {np.mean(held):.3f}, width {width:.2f}"


if __name__ == "__main__":
    for name in sys.argv[1:] or SHAPES:
        for q in (0.5, 0.9):
            for users, runs in ((300, 200), (1000, 200), (5000, 60)):
                print(cell(name, q, users, runs), flush=True)

"""How often two aggregators are seen to have unlike people, if they have and if they have not.

    python benchmarks/unlike_halves.py

Normal values; the second half's are shifted by so many standard deviations. Sequential isotonic search in each.
"""

from __future__ import annotations

import argparse

import numpy as np

import privquant as pq
from privquant.aggregator.campaign.merging import differ


def told_apart(seed: int, shift: float, users: int) -> bool:
    rng = np.random.default_rng((seed, users))
    halves = (np.clip(rng.normal(5000 + 1000 * by, 1000, users), 0, 9999).astype(int) for by in (0.0, shift))
    return differ([[pq.median(half, domain=(0, 9999), epsilon=1.0, rng=rng)] for half in halves])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="Pairs of runs a row; alike ones ten times.")
    runs = parser.parse_args().runs
    for users in (300, 1000, 5000):
        for shift in (0.0, 0.25, 0.5, 1.0, 2.0):
            tried = 10 * runs if shift == 0.0 else runs
            found = sum(told_apart(seed, shift, users) for seed in range(tried))
            print(f"{users:6} users each, shifted by {shift:4}: told apart in {found} of {tried}", flush=True)


if __name__ == "__main__":
    main()

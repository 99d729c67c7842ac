"""Random plans, and how often collections run as planned succeed: on shapes the calibration has never seen.

`python plans.py 40 2000 typical` (from this folder) prints one line a plan, `... typical 0 20` the first twenty of
them; the plans are the same for any number of runs. `python plans.py shapes 12 1000` has each shape's own success.
What is said of lumpy data is an average over a family: `python plans.py lumpy 15 200` runs each plan on all of it.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import numpy as np

from privquant.domain import Integers
from privquant.lab.experiment.cell import Cell, Registered
from privquant.lab.experiment.runner import run_cells
from privquant.lab.experiment.source import Drawn
from privquant.lab.sample import Draw, Sample
from privquant.planning.calibration import calibration
from privquant.planning.solving import Job, by_measurement, solve
from studies.calibration.cliff import Cliff
from studies.calibration.settings import LUMPY


def _exponential(rng, n):
    return rng.exponential(1.0, n) / rng.uniform(8, 40)


def _logistic(rng, n):
    return rng.uniform(0.3, 0.7) + rng.uniform(0.005, 0.05) * rng.logistic(size=n)


def _triangle(rng, n):
    low = rng.uniform(0, 0.4)
    high = rng.uniform(0.6, 1.0)
    return rng.triangular(low, rng.uniform(low, high), high, n)


def _weibull(rng, n):
    return rng.uniform(0.02, 0.3) * rng.weibull(rng.uniform(0.8, 3.0), n)


def _beta(rng, n):
    return rng.beta(rng.uniform(1.0, 4.0), rng.uniform(1.0, 8.0), n)


def _student(rng, n):
    return rng.uniform(0.3, 0.7) + rng.uniform(0.005, 0.03) * rng.standard_t(3.0, n)


def _wide_lognormal(rng, n):
    return np.exp(rng.uniform(-6.0, -2.0) + rng.uniform(0.4, 1.0) * rng.standard_normal(n))


UNSEEN = {
    "exponential": _exponential,
    "logistic": _logistic,
    "triangle": _triangle,
    "weibull": _weibull,
    "beta": _beta,
    "student": _student,
    "wide lognormal": _wide_lognormal,
}


# The largest alphas planned for: a cliff is found from afar only.
LARGEST = {"typical": 0.08, "lumpy": 0.08, "hardest": 0.3}


@dataclass(frozen=True)
class Unseen:
    """n users of a shape that is the test's own, drawn anew each time."""

    name: str
    n: int
    size: int

    @property
    def domain(self):
        return Integers(0, self.size - 1)

    @property
    def key(self):
        return f"unseen {self.name}:n={self.n}:B={self.size}"

    def draw(self, rng):
        share = np.clip(UNSEEN[self.name](rng, self.n), 0.0, 1.0)
        indices = np.minimum((share * self.size).astype(np.int64), self.size - 1)
        return Draw(Sample(indices, self.size), None)


@dataclass(frozen=True)
class Planned:
    """One plan: its goal, the shape it is tried on, and the users it came to."""

    kind: str
    shape: str
    quantile: float
    epsilon: float
    size: int
    alpha: float
    confidence: float
    users: int

    @property
    def source(self):
        if self.kind == "hardest":
            return Cliff(self.users, self.size, self.quantile, self.alpha)
        if self.kind == "lumpy":
            return Drawn(self.shape, self.users, self.size)
        return Unseen(self.shape, self.users, self.size)

    def cell(self, runs):
        return Cell(self.source, Registered("isotonic", self.epsilon, (self.quantile,)), trials=runs, redraw=1)


NAME = "isotonic/local"


def users_planned(kind, quantile, epsilon, size, alpha, confidence):
    """The row of the default protocol, as `plan` solves for it."""
    job = Job(size, (quantile,))
    goal = {"alpha": alpha, "epsilon": epsilon, "confidence": confidence}
    return math.ceil(solve("users", goal, by_measurement(NAME, kind, job)))


def random_plans(count, seed, kind="typical"):
    """Goals that some hundred to some ten thousand users can reach; the users are what the planner says."""
    rng = np.random.default_rng(seed)
    made = []
    while len(made) < count:
        q, epsilon = rng.uniform(0.05, 0.99), math.exp(rng.uniform(math.log(0.15), math.log(3.0)))
        size, confidence = int(2 ** rng.uniform(8, 40)), rng.uniform(0.7, 0.97)
        crowd = math.exp(rng.uniform(math.log(100), math.log(40_000)))
        reach = calibration(NAME).error(
            users=crowd, epsilon=epsilon, confidence=confidence, size=size, quantile=q, kind=kind
        )
        alpha = float(f"{reach:.2g}")
        # Beyond these the planner itself says that the plan is of little use.
        if not 0.0 < alpha < min(LARGEST[kind], 0.8 * min(q, 1.0 - q)):
            continue
        shapes = {"typical": tuple(UNSEEN), "lumpy": LUMPY, "hardest": ("cliff",)}[kind]
        shape = shapes[len(made) % len(shapes)]
        users = users_planned(kind, q, epsilon, size, alpha, confidence)
        made.append(Planned(kind, shape, q, epsilon, size, alpha, confidence, users))
    return made


def successes(planned, runs, seed):
    """The share of runs within alpha, for each plan."""
    results = run_cells([one.cell(runs) for one in planned], seed=seed, workers=1)
    return [outcome.success(one.alpha) for one, (_, outcome) in zip(planned, results, strict=True)]


def line(one, success):
    return (
        f"{one.kind:8} {one.shape:15} q {one.quantile:.3f} eps {one.epsilon:5.3f} "
        f"B 2^{math.log2(one.size):4.1f} alpha {one.alpha:.3g} users {one.users:7,} "
        f"said {one.confidence:.3f} found {success:.3f} {success - one.confidence:+.3f}"
    )


def summary(kind, off):
    near = np.mean(np.abs(off) <= 0.03)
    ends = f"lowest {min(off):+.3f}, highest {max(off):+.3f}, mean {np.mean(off):+.3f}"
    return f"{kind}: within .03 in {near:.0%}, {ends}"


if __name__ == "__main__":
    if sys.argv[1] == "shapes":
        count, runs = map(int, sys.argv[2:4])
        spread = []
        for one in random_plans(count, 40):
            each = [replace(one, shape=shape) for shape in UNSEEN]
            found = np.array(successes(each, runs, 41))
            noise = np.mean(found * (1.0 - found)) / runs
            spread.append(max(found.var(ddof=1) - noise, 0.0) ** 0.5)
            print(line(one, found.mean()), f"between shapes {spread[-1]:.3f}:", *np.round(found, 3), flush=True)
        print(f"deviation between shapes: {np.median(spread):.3f} in half of the plans, at most {max(spread):.3f}")
    elif sys.argv[1] == "lumpy":
        count, runs = map(int, sys.argv[2:4])
        off = []
        for one in random_plans(count, 40, "lumpy"):
            found = successes([replace(one, shape=shape) for shape in LUMPY], runs, 41)
            off.append(np.mean(found) - one.confidence)
            each = " ".join(f"{shape} {success:.2f}" for shape, success in zip(LUMPY, found, strict=True))
            print(line(replace(one, shape="all"), np.mean(found)), each, flush=True)
        print(summary("lumpy", off))
    else:
        count, runs, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
        first, last = map(int, sys.argv[4:6]) if len(sys.argv) > 5 else (0, count)
        off = []
        for one in random_plans(count, 40, kind)[first:last]:
            (success,) = successes([one], runs, 41)
            off.append(success - one.confidence)
            print(line(one, success), flush=True)
        print(summary(kind, off))

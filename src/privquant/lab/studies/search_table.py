"""What isotonic search is held to: its tables, each a list of cells that a pool of processes works off.

    search     success against DpBayeSS, naive search and the limit, on every shape the docs show
    users      users for 90 % success, isotonic against DpBayeSS
    curve      what the curve adds to the posterior's median, on shapes and quantiles of all kinds
    shuffle    mean rank error in the shuffle model, against naive search by the lemma and exactly
    rounds     accuracy against the number of rounds and of users in flight
    several    several quantiles in one run against separate runs with the users divided
    coverage   certified intervals on every shape, with the negative control
    speed      processor time of a trial by count, to 10^9 users, beside asking users one by one

Every cell draws its data sets anew and has its own seed, so a table is the same for any number of processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from privquant.domain import Integers
from privquant.lab.engine import simulator
from privquant.lab.populations import Users
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.lab.shapes import shape
from privquant.lab.studies.coverage import coverage
from privquant.lab.studies.search_cell import Setting, measure
from privquant.protocols.isotonic.protocol import Isotonic

Progress = Callable[[int, int], None]


# -- the cells of each table -----------------------------------------------------------------------------------

# shape, size, quantile, epsilon, least success asked of isotonic search
SEARCH_CELLS = (
    ("pareto", 4**9, 0.5, 0.569, 0.63),
    ("pareto", 4**9, 0.5, 0.879, 0.85),
    ("pareto", 4**9, 0.5, 1.357, 0.96),
    ("pareto", 2**32, 0.5, 0.879, 0.84),
    ("uniform", 10**6, 0.5, 0.879, 0.85),
    ("lognormal", 2**62, 0.5, 0.879, 0.82),
    ("tiny", 2**32, 0.5, 0.879, 0.78),
    ("ties", 10**6, 0.5, 1.357, 0.91),
    ("pareto", 4**9, 0.9, 0.879, 0.78),
    ("tiny", 2**32, 0.9, 1.357, 0.92),
    ("heavy", 2**62, 0.5, 0.879, None),
    ("flat", 2**32, 0.5, 0.879, None),
    ("gap", 10**6, 0.5, 0.879, None),
    ("gap48", 10**6, 0.5, 0.879, None),
    ("hard", 10**6, 0.5, 1.357, None),
    ("atom", 2**32, 0.5, 0.879, None),
    ("atom", 2**32, 0.5, 1.357, None),
    ("const", 2**32, 0.5, 0.879, None),
    ("kink", 10**6, 0.5, 0.879, None),
)
RIVALS = ("isotonic", "bayess", "naive")

SCHEDULE_CELLS = (
    ("pareto", 4**9, 0.569),
    ("pareto", 4**9, 0.879),
    ("tiny", 2**32, 0.879),
    ("uniform", 10**6, 0.879),
    ("ties", 10**6, 1.357),
)
ROUNDS = (8, 16, 32, 64, 128)
IN_FLIGHT = (10, 100, 250, 500)
SPREAD = 0.25
HELD_SCHEDULES = (("sequential", 0, 0.0), ("rounds", 32, SPREAD))

COVERAGE_SHAPES = (
    ("pareto", 4**9),
    ("uniform", 10**6),
    ("lognormal", 2**62),
    ("tiny", 2**32),
    ("ties", 10**6),
    ("atom", 2**32),
    ("gap", 10**6),
    ("gap48", 10**6),
)
# where the negative control is run: the flat stretch at the quantile is what likelihood-ratio sets do not survive
CONTROL_SHAPES = ("pareto", "gap", "gap48")
COVERAGE_EPSILONS = (0.569, 0.879, 1.357)
COVERAGE_USERS = (2500, 10_000)

SEVERAL = ((0.25, 0.5, 0.75), (0.5, 0.9, 0.99), tuple(k / 10 for k in range(1, 10)))
SEVERAL_SHAPES = (("pareto", 4**9), ("tiny", 2**32), ("lognormal", 2**62))
SEVERAL_USERS = 9000

SPEED_USERS = (2500, 10**5, 10**7, 10**9)
LARGEST_ONE_BY_ONE = 10**5

# shape, size, epsilon, and the numbers of users tried, a quarter apart, from below 85 % success to above 93 %;
# "published" is DpBayeSS as the authors' program has it
USERS_CELLS: tuple[tuple[str, int, float, dict[str, tuple[int, ...]]], ...] = (
    (
        "pareto",
        4**9,
        0.879,
        {
            "isotonic": (1600, 2000, 2500, 3125),
            "bayess": (4000, 5000, 6250, 7812, 9766),
            "published": (5000, 6250, 7812, 9766, 12_207),
        },
    ),
    (
        "pareto",
        4**9,
        1.357,
        {
            "isotonic": (640, 800, 1000, 1250, 1562),
            "bayess": (2000, 2500, 3125, 3906, 4883),
            "published": (3125, 3906, 4883, 6104, 7629),
        },
    ),
    ("uniform", 10**6, 0.879, {"isotonic": (1600, 2000, 2500, 3125), "bayess": (3200, 4000, 5000, 6250, 7812)}),
    ("lognormal", 2**62, 0.879, {"isotonic": (1600, 2000, 2500, 3125), "bayess": (7812, 9766, 12_207, 15_259)}),
    ("tiny", 2**32, 0.879, {"isotonic": (2000, 2500, 3125, 3906), "bayess": (12_207, 15_259, 19_073, 23_842)}),
)

# shape, size, quantile, epsilon, alpha
CURVE_CELLS = (
    *(
        (name, size, q, 0.879, 0.04)
        for q in (0.5, 0.9)
        for name, size in (
            ("normal", 10**6),
            ("gamma", 2**32),
            ("bimodal", 10**6),
            ("salary", 10**6),
            ("zeros", 10**6),
            ("heavy", 2**62),
            ("flat", 2**32),
            ("tiny", 2**32),
            ("ties", 10**6),
            ("gap48", 10**6),
            ("kink", 10**6),
        )
    ),
    *(
        (name, size, q, 3.0, 0.008)
        for q in (0.99, 0.01)
        for name, size in (
            ("normal", 10**6),
            ("gamma", 2**32),
            ("bimodal", 10**6),
            ("salary", 10**6),
            ("lognormal", 2**62),
            ("uniform", 10**6),
            ("tiny", 2**32),
        )
    ),
)


@dataclass(frozen=True)
class Job:
    """One cell's work; `key` says which, for the seed and for putting results together."""

    key: tuple[Any, ...]
    setting: Setting
    data_sets: int
    trials: int
    seed: int

    def __call__(self) -> Any:
        words = np.frombuffer(repr(self.key).encode().ljust(64, b"."), np.uint8).tolist()
        return measure(self.setting, self.data_sets, self.trials, [self.seed, *words])


@dataclass(frozen=True)
class CoverageJob:
    key: tuple[Any, ...]
    trials: int
    seed: int

    def __call__(self) -> Any:
        name, size, epsilon, users = self.key[1:]
        control = name in CONTROL_SHAPES
        return coverage(
            name,
            size=size,
            epsilon=epsilon,
            users=users,
            trials=self.trials,
            seed=self.seed,
            control=control,
        )


@dataclass(frozen=True)
class Speed:
    """Processor seconds: of a trial by count, and of one whose users are asked one by one (0: not measured)."""

    by_count: float
    one_by_one: float


@dataclass(frozen=True)
class SpeedJob:
    key: tuple[Any, ...]
    trials: int
    seed: int

    def __call__(self) -> Speed:
        users = int(self.key[1])
        rng = np.random.default_rng(self.seed)
        values, counts = np.unique(shape("pareto", min(users, 10**6), 4**9, rng), return_counts=True)
        sample = Sample.of_counts(values, counts * max(1, users // 10**6), 4**9)
        template = Isotonic(Integers(0, 4**9 - 1), users=users, epsilon=0.879)
        simulate = simulator(template)
        simulate(template, sample, 1, rng, draw="empirical")  # start-up: compiled code is loaded here
        started = time.process_time()
        simulate(template, sample, self.trials, rng, draw="empirical")
        by_count = (time.process_time() - started) / self.trials
        if users > LARGEST_ONE_BY_ONE:
            return Speed(by_count, 0.0)
        made = template.fresh()
        started = time.process_time()
        run(made, Users(sample, rng), batch=1)
        return Speed(by_count, time.process_time() - started)


def speed_jobs(trials: int, data_sets: int, seed: int) -> list[Any]:
    return [SpeedJob(("speed", users), max(trials // 100, 1), seed) for users in SPEED_USERS]


def search_jobs(trials: int, data_sets: int, seed: int) -> list[Any]:
    return [
        Job(
            ("search", name, size, q, epsilon, rival),
            Setting(name, size, epsilon, rival, quantile=q),
            data_sets,
            trials,
            seed,
        )
        for name, size, q, epsilon, _ in SEARCH_CELLS
        for rival in RIVALS
    ]


def users_jobs(trials: int, data_sets: int, seed: int) -> list[Any]:
    return [
        Job(
            ("users", name, size, epsilon, protocol, n),
            (
                Setting(name, size, epsilon, "bayess", users=n, behaviour="published")
                if protocol == "published"
                else Setting(name, size, epsilon, protocol, users=n)
            ),
            data_sets,
            trials,
            seed,
        )
        for name, size, epsilon, grids in USERS_CELLS
        for protocol, grid in grids.items()
        for n in grid
    ]


def curve_jobs(trials: int, data_sets: int, seed: int) -> list[Any]:
    return [
        Job(
            ("curve", name, size, q, epsilon, smooth),
            Setting(name, size, epsilon, quantile=q, alpha=alpha, smooth=smooth),
            data_sets,
            trials,
            seed,
        )
        for name, size, q, epsilon, alpha in CURVE_CELLS
        for smooth in (True, False)
    ]


def shuffle_jobs(trials: int, data_sets: int, seed: int) -> list[Any]:
    rivals = (("isotonic", "exact"), ("naive", "exact"), ("naive", "lemma"))
    return [
        Job(
            ("shuffle", name, protocol, method),
            Setting(name, 4**9, 1.0, protocol, users=100_000, shuffled=method),
            data_sets,
            trials,
            seed,
        )
        for name in ("pareto", "uniform", "lognormal", "tiny", "ties")
        for protocol, method in rivals
    ]


def rounds_jobs(trials: int, data_sets: int, seed: int) -> list[Any]:
    schedules: list[tuple[str, int, float]] = [("sequential", 0, 0.0)]
    schedules += [("rounds", r, spread) for r in ROUNDS for spread in (0.0, SPREAD)]
    schedules += [("in flight", k, spread) for k in IN_FLIGHT for spread in (0.0, SPREAD)]
    jobs = []
    for kind, number, spread in schedules:
        for name, size, epsilon in SCHEDULE_CELLS:
            setting = Setting(
                name,
                size,
                epsilon,
                rounds=number if kind == "rounds" else None,
                in_flight=number if kind == "in flight" else None,
                spread=spread,
            )
            # Runs with users in flight decide anew for every user, and those with spread ask many thresholds: fewer
            # of them, but for the two that a goal compares.
            share = 20 if kind == "in flight" else 8
            if (name, epsilon) == ("pareto", 0.879) and (kind, number, spread) in HELD_SCHEDULES:
                share = 1
            jobs.append(
                Job(
                    ("rounds", kind, number, spread, name, epsilon),
                    setting,
                    max(data_sets // share, 1),
                    max(trials // share, 1),
                    seed,
                )
            )
    return jobs


def several_jobs(trials: int, data_sets: int, seed: int) -> list[Any]:
    jobs = []
    for name, size in SEVERAL_SHAPES:
        for quantiles in SEVERAL:
            together = Setting(name, size, 0.879, users=SEVERAL_USERS, quantile=quantiles)
            jobs.append(Job(("several", name, quantiles), together, data_sets, trials, seed))
            for q in quantiles:
                part = SEVERAL_USERS // len(quantiles)
                alone = Setting(name, size, 0.879, users=part, quantile=q, population=SEVERAL_USERS)
                jobs.append(Job(("alone", name, quantiles, q), alone, data_sets, trials, seed))
    return jobs


def coverage_jobs(trials: int, data_sets: int, seed: int) -> list[Any]:
    return [
        CoverageJob(("coverage", name, size, epsilon, users), trials, seed)
        for users in COVERAGE_USERS
        for epsilon in COVERAGE_EPSILONS
        for name, size in COVERAGE_SHAPES
    ]


TABLES: dict[str, Callable[[int, int, int], list[Any]]] = {
    "search": search_jobs,
    "users": users_jobs,
    "curve": curve_jobs,
    "shuffle": shuffle_jobs,
    "rounds": rounds_jobs,
    "several": several_jobs,
    "coverage": coverage_jobs,
    "speed": speed_jobs,
}


def work(jobs: Sequence[Any], *, workers: int, progress: Progress | None = None) -> dict[tuple[Any, ...], Any]:
    """The results of all jobs by key."""
    found: dict[tuple[Any, ...], Any] = {}
    with ProcessPoolExecutor(workers) as pool:
        waiting = {pool.submit(job): job.key for job in jobs}
        for done, future in enumerate(as_completed(waiting), start=1):
            found[waiting[future]] = future.result()
            if progress is not None:
                progress(done, len(jobs))
    return {job.key: found[job.key] for job in jobs}


def as_rows(results: dict[tuple[Any, ...], Any]) -> list[dict[str, Any]]:
    """One flat row a cell, for a file."""
    return [{"cell": " ".join(map(str, key)), **asdict(value)} for key, value in results.items()]

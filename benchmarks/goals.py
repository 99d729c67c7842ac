"""What isotonic search is held to: the tables of `python -m studies` measured anew, each against its goals.

python benchmarks/goals.py --table success --seed 3    one table
python benchmarks/goals.py --table all                 all of them, and the time of a trial

Prints the tables and one line a goal; exit code 1 if one is missed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import isotonic

from privquant.lab.experiment.results import Results
from privquant.lab.experiment.runner import run_cells
from studies import coverage
from studies.search import rounds, several, shuffle, success, users
from studies.table import name, size_text
from studies.tables import TABLES, runs

# success of isotonic search by (shape, size, quantile, epsilon)
LEAST_SUCCESS = {
    ("pareto", 4**9, 0.5, 0.569): 0.63,
    ("pareto", 4**9, 0.5, 0.879): 0.85,
    ("pareto", 4**9, 0.5, 1.357): 0.96,
    ("pareto", 2**32, 0.5, 0.879): 0.84,
    ("uniform", 10**6, 0.5, 0.879): 0.85,
    ("lognormal", 2**62, 0.5, 0.879): 0.82,
    ("tiny", 2**32, 0.5, 0.879): 0.78,
    ("ties", 10**6, 0.5, 1.357): 0.91,
    ("pareto", 4**9, 0.9, 0.879): 0.78,
    ("tiny", 2**32, 0.9, 1.357): 0.92,
}
# how many times isotonic search's users the rival needs for 90 % success, by (shape, size, epsilon, rival)
FEWER_USERS = {("pareto", 4**9, 0.879, "bayess"): 2.8}
SMALLER_ERROR = {"pareto": 6.0}  # than naive search by the lemma, shuffled
ROUNDS = 32
LOST_BY_ROUNDS = 0.03
COVERED = 0.95
WIDEST = {2500: 21.0, 10_000: 17.5}  # median width in units of rank, on shapes without a flat stretch
SMOOTH = ("pareto", "uniform", "lognormal")
CONTROL_FAILS = 0.9
SLOWEST = {10**7: 0.025, 10**9: 0.060}  # seconds of processor a trial


@dataclass(frozen=True)
class Goal:
    """What was found beside its bound: a least one, or a most one."""

    what: str
    found: float
    bound: float
    least: bool = True

    @property
    def met(self) -> bool:
        return self.found >= self.bound if self.least else self.found <= self.bound

    def __str__(self) -> str:
        asked = f"{'at least' if self.least else 'at most'} {self.bound:g}"
        return f"{'met   ' if self.met else 'MISSED'} {self.what}: {self.found:.4g}, {asked}"


def success_goals(results: Results) -> list[Goal]:
    found = results.by_note("cell")
    return [
        Goal(
            f"success on {shape} {size_text(size)}, q {q}, epsilon {epsilon}",
            found[name("search", shape, size, q, epsilon, "isotonic")].success(success.ALPHA),
            least,
        )
        for (shape, size, q, epsilon), least in LEAST_SUCCESS.items()
    ]


def users_goals(results: Results) -> list[Goal]:
    ratios = {(row.shape, row.size, row.epsilon, row.rival): row.ratio for row in users.needed(results)}
    return [
        Goal(f"users {rival} needs for 90 % on {shape} {size_text(size)}, over ours", ratios[which], least)
        for which, least in FEWER_USERS.items()
        for shape, size, _, rival in [which]
    ]


def shuffle_goals(results: Results) -> list[Goal]:
    errors = shuffle.errors(results)
    return [
        Goal(
            f"shuffled {shape}: error of naive search by the lemma, over ours",
            _over(errors[shape][0], errors[shape][2]),
            least,
        )
        for shape, least in SMALLER_ERROR.items()
    ]


def rounds_goals(results: Results) -> list[Goal]:
    found = results.by_note("cell")

    def rate(row: rounds.Row) -> float:
        return found[rounds.cell_name(row, *rounds.CLOSELY)].success(success.ALPHA)

    held = [r for r in (*rounds.EQUAL, *rounds.BEST) if (r.number, r.spread) == (ROUNDS, rounds.SPREAD)]
    lost = rate(rounds.SEQUENTIAL)
    return [Goal(f"success lost by {r.number} {r.kind}", lost - rate(r), LOST_BY_ROUNDS, least=False) for r in held]


def several_goals(results: Results) -> list[Goal]:
    return [
        Goal(
            f"{len(quantiles)} quantiles on {shape}: error of separate runs, over one run's", _over(alone, one), 1.0
        )
        for shape, _, quantiles, one, alone in several.errors(results)
    ]


def coverage_goals(results: Results) -> list[Goal]:
    goals, controls = [], []
    for cell_name, found in coverage.coverages(results).items():
        _, shape, _, _, crowd, claim = cell_name.split()
        if claim != "certified":
            controls.append(found.covered)
            continue
        goals.append(Goal(cell_name, found.covered, COVERED))
        if shape in SMOOTH:
            goals.append(Goal(f"{cell_name}, width", found.width, WIDEST[int(crowd)], least=False))
    return [*goals, Goal("the negative control's lowest coverage", min(controls), CONTROL_FAILS, least=False)]


def speed_goals() -> list[Goal]:
    return [
        Goal(f"seconds of processor a trial of {n:,} users", isotonic.by_count(n), most, least=False)
        for n, most in SLOWEST.items()
    ]


GOALS: dict[str, Callable[[Results], list[Goal]]] = {
    "success": success_goals,
    "users": users_goals,
    "shuffle": shuffle_goals,
    "rounds": rounds_goals,
    "several": several_goals,
    "coverage": coverage_goals,
}


def _over(other: float, ours: float) -> float:
    return other / ours if ours > 0 else float("inf")


def measured(
    table: str, *, trials: int, data_sets: int, seed: int, workers: int = 0, shown: bool = False
) -> list[Goal]:
    """One table's goals; shown: with a progress bar, and the table printed."""
    if table == "speed":
        return speed_goals()
    study = TABLES[table]
    results = run_cells(study.cells(runs(trials, data_sets)), seed=seed, workers=workers, progress=shown)
    if shown:
        print(study.report(results))
    return GOALS[table](results)


def main() -> None:
    tables = (*GOALS, "speed")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", choices=(*tables, "all"), default="success")
    parser.add_argument("--trials", type=int, default=4000, help="runs a cell")
    parser.add_argument("--data-sets", type=int, default=500, help="drawn data sets a cell")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=0, help="processes; 0 is all cores")
    given = parser.parse_args()
    goals = [
        goal
        for table in (tables if given.table == "all" else [given.table])
        for goal in measured(
            table,
            trials=given.trials,
            data_sets=given.data_sets,
            seed=given.seed,
            workers=given.workers,
            shown=True,
        )
    ]
    print("\n".join(map(str, goals)))
    sys.exit(any(not goal.met for goal in goals))


if __name__ == "__main__":
    main()

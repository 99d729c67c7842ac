"""Coverage and width of what is called certain, cell by cell.

`python statement_cells.py 200 [schedule ..]` prints the long table; `test_certain.py` holds a part of it at every
run, and all of it in its long form.
"""

import sys
from itertools import product
from typing import NamedTuple

import numpy as np
from statement_runs import ALL_SHAPES, SCHEDULES, runs

from privquant.planning.calibration import CALIBRATED_DELTA, calibration
from privquant.protocols.isotonic.certain import certain, rank_unit

QUANTILES = (0.5, 0.9, 0.99)
SETTINGS = tuple(product((0.3, 0.9, 2.0), (1_000, 2_500, 20_000), (10**4, 10**6, 2**32)))


class Cell(NamedTuple):
    shape: str
    schedule: str
    quantile: float
    epsilon: float
    users: int
    size: int


class Seen(NamedTuple):
    """Shares of runs, and the median total width (range and twice the slack) in units of rank.

    people, population: `certain` held for the people asked, for the population they were drawn from.
    calibrated: what the planner's law says of typical data, for the same 95 %, held.
    said, bounded: something was said; with a bound on both sides.
    """

    people: float
    population: float
    calibrated: float
    said: float
    bounded: float
    width: float


def cells(schedules=SCHEDULES):
    """Every shape with every quantile and schedule; settings take turns, so that each meets every shape."""
    for schedule in schedules:
        for turn, (quantile, shape) in enumerate(product(QUANTILES, ALL_SHAPES)):
            epsilon, users, size = SETTINGS[(7 * turn) % len(SETTINGS)]
            if schedule == "in flight" and users == 20_000:
                users = 1_000  # five seconds a run otherwise
            yield Cell(shape, schedule, quantile, epsilon, users, size)


def look(cell, trials, seed, draw="empirical"):
    found = []
    q = cell.quantile
    for run in runs(
        cell.shape,
        cell.schedule,
        size=cell.size,
        users=cell.users,
        epsilon=cell.epsilon,
        quantile=q,
        trials=trials,
        seed=seed,
        draw=draw,
    ):
        template = run.template
        own = cell.users / len(template.quantiles)
        law = calibration(f"isotonic/{template.guarantee.trust}")
        within = law.error(
            users=int(own),
            epsilon=template.guarantee.epsilon,
            confidence=0.95,
            size=cell.size,
            quantile=q,
            kind="typical",
            delta=template.guarantee.delta or CALIBRATED_DELTA,
        )
        off = float(run.sample.rank_error(np.array([run.answer]), q)[0])
        calibrated = off <= within
        said = certain(run.own, template.search, q, run.answer, spread=template.spread > 0.0)
        if said is None:
            found.append((True, True, calibrated, False, False, np.nan))
            continue
        low, high = max(said.low, 0), said.high if said.high >= 0 else cell.size - 1
        lowest, highest = run.people_share(low - 1), run.people_share(high)
        people = lowest <= q + said.within + 1e-12 and highest >= q - said.within - 1e-12
        population = not (
            run.above_in_population(low - 1, q + said.within) or run.below_in_population(high, q - said.within)
        )
        count = int(run.table.held[0])
        heard = run.table.reports[:, :count].sum(axis=1) / len(template.quantiles)
        width = (highest - lowest + 2.0 * said.within) / rank_unit(heard, template.search.kappas, q)
        found.append((people, population, calibrated, True, said.low >= 0 and said.high >= 0, width))
    columns = np.array(found, float)
    widths = columns[:, 5][~np.isnan(columns[:, 5])]
    return Seen(*columns[:, :5].mean(axis=0), float(np.median(widths)) if widths.size else np.nan)


def print_table(schedules, trials, seed=1):
    print("shape schedule q epsilon users size | people population calibrated said bounded width", flush=True)
    for cell in cells(schedules):
        seen = look(cell, trials, [seed, hash_of(cell)])
        print(*cell, "|", *(f"{figure:.3f}" for figure in seen), flush=True)


def hash_of(cell):
    """A seed that depends on the cell alone."""
    name = f"{cell.shape}{cell.schedule}{cell.quantile}"
    return sum(ord(letter) * 31**k for k, letter in enumerate(name)) % 2**32


if __name__ == "__main__":
    chosen = tuple(sys.argv[2:]) or SCHEDULES
    print_table(chosen, int(sys.argv[1]))

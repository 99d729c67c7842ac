"""Coverage and width of what is called certain, cell by cell, of runs guarded as they are by default.

    python statement_cells.py run JOURNAL [--design full] [--schedules three,rounds] [--part 1/2] [--minutes 30]
    python statement_cells.py table JOURNAL ..

A journal has one line a finished cell; `run` goes on where it ends. `test_certain.py` holds a part of the cells at
every run, and more of them in its long form.
"""

import argparse
import json
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from statement_runs import ALL_SHAPES, SCHEDULES, runs

from privquant._numba import compiled
from privquant.planning.calibration import CALIBRATED_DELTA, calibration
from privquant.protocols.isotonic.certain import certain, rank_unit

QUANTILES = (0.5, 0.9, 0.99)
EPSILONS, USERS, SIZES = (0.3, 0.9, 2.0), (1_000, 2_500, 20_000), (10**4, 10**6, 2**32)
# nine of the 27: every pair of epsilon and users, of epsilon and size, of users and size occurs once
PAIRS = tuple((EPSILONS[i], USERS[j], SIZES[(i + j) % 3]) for i, j in product(range(3), range(3)))
ALL_SETTINGS = tuple(product(EPSILONS, USERS, SIZES))
SMOOTH = ("pareto", "heavy", "lognormal", "uniform", "flat", "normal", "gamma", "bimodal")
RUNS = 200


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


def cells(schedules=SCHEDULES, settings=PAIRS):
    """Every shape with every quantile, setting and schedule, in turns: the first turn has each shape and quantile
    with each schedule once, the settings in rotation, and so has every later one.
    """
    for turn in range(len(settings)):
        for schedule in schedules:
            for number, (quantile, shape) in enumerate(product(QUANTILES, ALL_SHAPES)):
                yield Cell(shape, schedule, quantile, *settings[(turn + 2 * number + number // 9) % len(settings)])


def typical_error(template, cell):
    """What the planner's law says of typical data, for the same 95 %."""
    return calibration(f"isotonic/{template.guarantee.trust}").error(
        users=int(cell.users / len(template.quantiles)),
        epsilon=template.guarantee.epsilon,
        confidence=0.95,
        size=cell.size,
        quantile=cell.quantile,
        kind="typical",
        delta=template.guarantee.delta or CALIBRATED_DELTA,
    )


def look(cell, trials, seed, draw="empirical"):
    found, typical = [], None
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
        if typical is None:
            typical = typical_error(template, cell)
        off = float(run.sample.rank_error(np.array([run.answer]), q)[0])
        calibrated = off <= typical
        said = None
        if run.whole:
            said = certain(run.own, template.search, q, run.answer, most=run.most, spread=template.spread > 0.0)
        if said is None:
            found.append((True, True, calibrated, False, False, np.nan))
            continue
        low, high = said.low or 0, cell.size - 1 if said.high is None else said.high
        lowest, highest = run.people_share(low - 1), run.people_share(high)
        people = lowest <= q + said.within + 1e-12 and highest >= q - said.within - 1e-12
        population = not (
            run.above_in_population(low - 1, q + said.within) or run.below_in_population(high, q - said.within)
        )
        count = int(run.table.held[0])
        heard = run.table.reports[:, :count].sum(axis=1) / len(template.quantiles)
        # a side on which the slack takes in the last rank has no end, and is measured from the answer
        if q + said.within >= 1.0:
            lowest = run.people_share(run.answer - 1)
        elif q <= said.within:
            highest = run.people_share(run.answer)
        width = (highest - lowest + 2.0 * said.within) / rank_unit(heard, template.search.kappas, q)
        found.append((people, population, calibrated, True, said.low is not None and said.high is not None, width))
    columns = np.array(found, float)
    widths = columns[:, 5][~np.isnan(columns[:, 5])]
    return Seen(*columns[:, :5].mean(axis=0), float(np.median(widths)) if widths.size else np.nan)


def hash_of(cell):
    """A seed that depends on the cell alone."""
    name = "".join(map(str, cell))
    return sum(ord(letter) * 31**k for k, letter in enumerate(name)) % 2**32


def study(journal, wanted, part, of, minutes, seed=1):
    """Look at all cells that the journal does not have, every `of`-th, for so long."""
    done = {cell for cell, _, _ in read([journal])} if journal.exists() else set()
    started = time.monotonic()
    with journal.open("a", encoding="utf-8") as out:
        for number, cell in enumerate(wanted):
            if number % of != part or cell in done:
                continue
            if time.monotonic() - started > 60.0 * minutes:
                return
            seen = look(cell, RUNS, [seed, hash_of(cell)])
            out.write(json.dumps([*cell, RUNS, *(round(figure, 4) for figure in seen)]) + "\n")
            out.flush()


def read(journals):
    """(cell, runs, what was seen) of every line; a last line that was cut short is passed over."""
    found = {}
    for journal in journals:
        for line in journal.read_text(encoding="utf-8").splitlines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            found[Cell(*row[:6])] = (row[6], Seen(*row[7:]))
    return [(cell, trials, seen) for cell, (trials, seen) in found.items()]


def print_table(journals):
    """Least coverage by schedule, and median widths on smooth shapes by quantile and users."""
    rows = read(journals)
    for schedule in SCHEDULES:
        mine = [(cell, seen) for cell, _, seen in rows if cell.schedule == schedule]
        if not mine:
            continue
        seen = np.array([one for _, one in mine])
        least = [f"{figure:.3f}" for figure in seen[:, :3].min(axis=0)]
        low, unsaid = int((seen[:, 2] < 0.93).sum()), int((seen[:, 3] == 0.0).sum())
        runs_in_all = sum(trials for cell, trials, _ in rows if cell.schedule == schedule)
        print(f"{schedule}: {len(mine)} cells, {runs_in_all} runs; least coverage: people {least[0]}, population")
        print(f"  {least[1]}, the planner's law {least[2]} (below .93 in {low}); nothing said in {unsaid}")
        for quantile in QUANTILES:
            widths = {
                users: [
                    s.width for c, s in mine if (c.quantile, c.users) == (quantile, users) and c.shape in SMOOTH
                ]
                for users in (*USERS, None)
            }
            widths[None] = [width for some in widths.values() for width in some]
            told = "  ".join(
                f"{users or 'all'}: {np.nanmedian(some):.1f} ({len(some)})"
                for users, some in widths.items()
                if some
            )
            print(f"  width on smooth shapes at q={quantile}, by users (cells): {told}")


def main():
    given = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    given.add_argument("what", choices=("run", "table"))
    given.add_argument("journal", nargs="+", type=Path)
    given.add_argument("--design", choices=("pairs", "full"), default="pairs")
    given.add_argument("--schedules", default=",".join(SCHEDULES))
    given.add_argument("--part", default="1/1", help="which of how many parts of the cells")
    given.add_argument("--minutes", type=float, default=float("inf"))
    chosen = given.parse_args()
    if chosen.what == "table":
        print_table(chosen.journal)
        return
    part, of = (int(number) for number in chosen.part.split("/"))
    wanted = cells(chosen.schedules.split(","), PAIRS if chosen.design == "pairs" else ALL_SETTINGS)
    with compiled():
        study(chosen.journal[0], wanted, part - 1, of, chosen.minutes)


if __name__ == "__main__":
    main()

"""How often what is called typical is given, and how often it then holds, shape by shape.

`python typical_cells.py SEED TRIALS SCHEDULES SHAPES`, the last two with commas; six cells a shape and schedule,
q = .5 and .9, with three combinations of epsilon, users and size each. Beside the names of shapes, `lump_4` is
logistic data with a lump of 4 units of rank, the quantile somewhere in it.
"""

import sys
from itertools import product

import numpy as np
from statement_runs import SHAPES_HERE, planned, runs
from statement_shapes import lump

from privquant._numba import compiled
from privquant.protocols.isotonic.certain import rank_unit
from privquant.protocols.isotonic.rules import is_extreme
from privquant.protocols.isotonic.typical import Lump, Typical, typical

SETTINGS = tuple(product((0.3, 0.9, 2.0), (1_000, 2_500, 20_000), (10**4, 10**6, 2**32)))


def unit_of(template, quantile):
    """The standard deviation of the rank if all users of the quantile were asked there."""
    order = sorted(template.coins())
    heard = np.zeros(len(order))
    for users, coin in template.rounds or [(template.users / len(template.quantiles), order[0])]:
        heard[order.index(coin)] += users
    return rank_unit(heard, template.search.kappas, quantile)


def looked(shape, schedule, trials, seed, *, size, users, epsilon, quantile, people=True):
    """(what was said, rank error) of every run; nothing is said that any rank would keep."""
    setting = {"size": size, "users": users, "epsilon": epsilon, "quantile": quantile}
    made = SHAPES_HERE
    if shape.startswith("lump_"):
        made = {shape: lump(float(shape[5:]) * unit_of(planned(schedule, **setting), quantile))}
    found = []
    for run in runs(shape, schedule, **setting, trials=trials, seed=seed, made=made):
        template = run.template
        boosted = template.course.bulk > 0 and bool(is_extreme(quantile))
        part = 1.0 / len(template.quantiles)
        said = typical(run.table, template.search, quantile, boosted, run.answer, part=part, people=people)
        if isinstance(said, Typical) and said.within >= max(quantile, 1.0 - quantile):
            said = None
        found.append((said, float(run.sample.rank_error(np.array([run.answer]), quantile)[0])))
    return found


def look(shape, schedule, quantile, setting, trials, seed):
    """Shares given, called lumpy, given and false; median and mean of within over the 95 % point of all errors."""
    epsilon, users, size = setting
    if schedule == "in flight":
        users = 1_000
    found = looked(shape, schedule, trials, seed, size=size, users=users, epsilon=epsilon, quantile=quantile)
    said = [(one.within, off) for one, off in found if isinstance(one, Typical)]
    lumpy = np.mean([isinstance(one, Lump) for one, _ in found])
    false = sum(off > within + 1e-12 for within, off in said) / trials
    spread = float(np.quantile([off for _, off in found], 0.95))
    widths = [within / spread for within, _ in said] if spread > 0.0 else []
    wide = (np.median(widths), np.mean(widths)) if widths else (np.nan, np.nan)
    return len(said) / trials, lumpy, false, *wide


def main(seed, trials, schedules, shapes):
    rng = np.random.default_rng(seed)
    found = {}
    for quantile in (0.5, 0.9):
        for number, shape in enumerate(shapes):
            for schedule in schedules:
                for turn in range(3):
                    place = (11 * number + 10 * turn + 5 * (quantile > 0.6) + 4) % len(SETTINGS)
                    cell = look(shape, schedule, quantile, SETTINGS[place], trials, int(rng.integers(2**31)))
                    found.setdefault((shape, schedule), []).append(cell)
    for (shape, schedule), cells in found.items():
        given, lumpy, false = np.mean(cells, axis=0)[:3]
        median, mean = np.nanmedian([cell[3:] for cell in cells], axis=0)
        held = 1.0 - false / max(given, 1e-12)
        print(
            f"{shape:20s} {schedule:10s} given {given:.2f} lumpy {lumpy:.2f} held {held:.3f} "
            f"width {median:.2f}, mean {mean:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    with compiled():
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4].split(","))

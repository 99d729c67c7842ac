"""How often what is called typical is given, and how often it then holds, shape by shape.

`python typical_cells.py SEED TRIALS SCHEDULES SHAPES [QUANTILES]`, the last three with commas; three combinations
of epsilon, users and size for every shape, schedule and quantile (.5 and .9 unless told). Beside the names of
shapes, `lump_4` is logistic data with a lump of 4 units of rank, the quantile somewhere in it. Widths are of all
runs of a shape together, in units: the 95 % point of twenty errors of one cell would be too small. `values` is how
often the quantile itself is in the range of values that is said beside the rank, `if lumpy` how often the rank is
within what is said of lumps that do not show, and how wide that is in the median.
"""

import sys
from itertools import product

import numpy as np
from statement_runs import SHAPES_HERE, planned, runs
from statement_shapes import lump

from privquant._numba import compiled
from privquant.error_words import Lump, Typical
from privquant.protocols.isotonic.certain import rank_unit
from privquant.protocols.isotonic.rules import is_extreme
from privquant.protocols.isotonic.typical import typical

SETTINGS = tuple(product((0.3, 0.9, 2.0), (1_000, 2_500, 20_000), (10**4, 10**6, 2**32)))


def unit_of(template, quantile):
    """The standard deviation of the rank if all users of the quantile were asked there."""
    order = sorted(template.coins())
    heard = np.zeros(len(order))
    for users, coin in template.rounds or [(template.users / len(template.quantiles), order[0])]:
        heard[order.index(coin)] += users
    return rank_unit(heard, template.search.kappas, quantile)


def looked(shape, schedule, trials, seed, *, size, users, epsilon, quantile, people=True):
    """(what was said, rank error, the true quantile) of every run; nothing is said that any rank would keep."""
    setting = {"size": size, "users": users, "epsilon": epsilon, "quantile": quantile}
    made = SHAPES_HERE
    if shape.startswith("lump_"):
        made = {shape: lump(float(shape[5:]) * unit_of(planned(schedule, **setting), quantile))}
    found = []
    for run in runs(shape, schedule, **setting, trials=trials, seed=seed, made=made):
        template = run.template
        boosted = template.run_plan.bulk > 0 and bool(is_extreme(quantile))
        part = 1.0 / len(template.quantiles)
        said = typical(run.table, template.search, quantile, boosted, run.answer, part=part, people=people)
        if isinstance(said, Typical) and said.within >= max(quantile, 1.0 - quantile):
            said = None
        off = float(run.sample.rank_error(np.array([run.answer]), quantile)[0])
        found.append((said, off, run.sample.quantile(quantile)))
    return found


def look(shape, schedule, quantile, setting, trials, seed):
    """(whether it was given, whether called lumpy, within, error, whether the quantile is in its range of values,
    what is said of lumps that do not show) of every run; ranks in units.
    """
    epsilon, users, size = setting
    if schedule == "in flight":
        users = min(users, 2_500)  # more take a tenth of a second a run
    cell = {"size": size, "users": users, "epsilon": epsilon, "quantile": quantile}
    unit = unit_of(planned(schedule, **cell), quantile)
    return [
        (
            isinstance(said, Typical),
            isinstance(said, Lump),
            said.within / unit if isinstance(said, Typical) else 0.0,
            off / unit,
            isinstance(said, Typical) and said.low <= truth <= said.high,
            said.if_lumpy / unit if isinstance(said, Typical) else 0.0,
        )
        for said, off, truth in looked(shape, schedule, trials, seed, **cell)
    ]


def main(seed, trials, schedules, shapes, quantiles):
    rng = np.random.default_rng(seed)
    found = {}
    for quantile, (number, shape), schedule, turn in product(quantiles, enumerate(shapes), schedules, range(3)):
        place = (11 * number + 10 * turn + 5 * (quantile > 0.6) + 4) % len(SETTINGS)
        rows = look(shape, schedule, quantile, SETTINGS[place], trials, int(rng.integers(2**31)))
        found.setdefault((shape, schedule), []).extend(rows)
    for (shape, schedule), rows in found.items():
        given, lumpy, within, off, inside, if_lumpy = np.array(rows).T
        said = given > 0
        if not said.any():
            print(f"{shape:20s} {schedule:10s} given .00 lumpy {lumpy.mean():.2f}", flush=True)
            continue
        kept, reached = off[said] <= within[said] + 1e-9, off[said] <= if_lumpy[said] + 1e-9
        spread = np.quantile(off[said], 0.95)
        print(
            f"{shape:20s} {schedule:10s} given {given.mean():.2f} lumpy {lumpy.mean():.2f} held {kept.mean():.3f} "
            f"values {inside[said].mean():.3f} if lumpy {reached.mean():.3f}, {np.median(if_lumpy[said]):.1f} wide "
            f"width {np.median(within[said]) / spread:.2f}, mean {within[said].mean() / spread:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    wanted = [float(q) for q in sys.argv[5].split(",")] if len(sys.argv) > 5 else (0.5, 0.9)
    with compiled():
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4].split(","), wanted)

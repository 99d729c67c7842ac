"""How often what is called typical is given, and how often it then holds, shape by shape.

`python typical_cells.py SEED TRIALS SCHEDULES SHAPES`, the last two with commas; six cells a shape and schedule,
q = .5 and .9, with three combinations of epsilon, users and size each.
"""

import sys
from itertools import product

import numpy as np
from statement_runs import runs

from privquant.protocols.isotonic.rules import is_extreme
from privquant.protocols.isotonic.typical import Lump, Typical, typical

SETTINGS = tuple(product((0.3, 0.9, 2.0), (1_000, 2_500, 20_000), (10**4, 10**6, 2**32)))


def look(shape, schedule, quantile, setting, trials, seed):
    """(share given, share called lumpy, share given and false, within over the 95 % point of errors)."""
    epsilon, users, size = setting
    if schedule == "in flight":
        users = 1_000
    errors, widths, false, lumpy = [], [], 0, 0
    for run in runs(
        shape, schedule, size=size, users=users, epsilon=epsilon, quantile=quantile, trials=trials, seed=seed
    ):
        template = run.template
        boosted = template.course.bulk > 0 and bool(is_extreme(quantile))
        part = 1.0 / len(template.quantiles)
        said = typical(run.table, template.search, quantile, boosted, run.answer, part=part, people=True)
        errors.append(float(run.sample.rank_error(np.array([run.answer]), quantile)[0]))
        lumpy += isinstance(said, Lump)
        if isinstance(said, Typical):
            widths.append(said.within)
            false += errors[-1] > said.within + 1e-12
    spread = float(np.quantile(errors, 0.95))
    wide = np.median(widths) / spread if widths and spread > 0.0 else np.nan
    return len(widths) / trials, lumpy / trials, false / trials, wide


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
        given, lumpy, false, _ = np.mean(cells, axis=0)
        wide = np.nanmedian([cell[3] for cell in cells])
        held = 1.0 - false / max(given, 1e-12)
        print(f"{shape:20s} {schedule:10s} given {given:.2f} lumpy {lumpy:.2f} held {held:.3f} width {wide:.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","), sys.argv[4].split(","))

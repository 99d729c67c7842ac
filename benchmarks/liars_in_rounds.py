"""Liars who come last, where users are asked in rounds: how far they move the median, without and with the guard.

python benchmarks/liars_in_rounds.py --runs 300

The last 5 % of 2,400 users send a zero whatever is asked. In rounds an epoch is no finer than a round, and liars
are thinned by all who are asked beside them. Prints, for the pace that the protocol suggests and for rounds of a
tenth and of .15 of those asked before: how many runs are off by more than twice the bound for liars spread at
random, the 95 % point of the rank error, and how many guarded runs leave a part out and raise the alarm.
"""

from __future__ import annotations

import argparse

import measure  # noqa: F401 - it puts `studies` on the path
import numpy as np

from privquant.domain import Integers
from privquant.lab.engine import Setting
from privquant.lab.engine.isotonic import outcomes
from privquant.lab.sample import Sample
from privquant.lab.schedule import Schedule
from privquant.lab.shapes import shape
from privquant.privacy.poisoning import shift
from privquant.protocols.isotonic.contradiction import ALARM, beyond
from privquant.protocols.isotonic.protocol import Isotonic
from studies.attack import Attack

SIZE = 10**4
USERS = 2_400
EPSILON = 1.0
LIARS = Attack(0.05, "last")
# schedule, spread
PACES = ((Schedule(), 0.0), (Schedule.growing(0.1), 0.25), (Schedule.growing(0.15), 0.25))


def runs(schedule: Schedule, spread: float, count: int, seed: int, *, guard: bool) -> np.ndarray:
    """Rank error, contradiction and share left out, a row each."""
    domain = Integers(0, SIZE - 1)
    template = Isotonic(domain, users=USERS, epsilon=EPSILON, quantile=0.5, spread=spread, guard=guard)
    found = np.empty((3, count))
    for number in range(count):
        sample = Sample(shape("lognormal", USERS, SIZE, np.random.default_rng([seed, number])), SIZE)
        rng = np.random.default_rng([seed, number, 7])
        seen = outcomes(template, sample, 1, rng, Setting(schedule=schedule, attack=LIARS))
        found[:, number] = sample.rank_error(seen.answers[:, 0], 0.5)[0], seen.evidence[0], seen.dropped[0]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    bound = max(map(abs, shift(LIARS.share, epsilon=EPSILON, quantile=0.5)))
    for schedule, spread in PACES:
        for guard in (False, True):
            errors, evidence, dropped = runs(schedule, spread, given.runs, given.seed, guard=guard)
            print(
                f"{schedule}, {'guarded' if guard else 'open'}: "
                f"off by twice the bound {(errors > 2 * bound).mean():.3f}, "
                f"95 % within {np.quantile(errors, 0.95):.3f}, a part left out in {(dropped > 0).mean():.2f}, "
                f"alarm {(evidence > beyond(ALARM, USERS, 1)).mean():.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""A plan rehearsed: its job run many times on people drawn from its pilot.

The planner's laws know what a run is like, not what the data are like beyond "smooth"; far out, where fewer people
lie beyond a quantile than a unit of rank, that decides. Who has a pilot can let the very job be simulated on it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privquant.domain import Domain
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.runner import run_cells
from privquant.lab.experiment.template import Registered
from privquant.lab.sample import Draw, Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.planning.paces import SPREAD, Pace

SEED = 1


@dataclass(frozen=True, eq=False)
class Resampled:
    """n people drawn from a pilot with replacement, others in every run."""

    indices: NDArray[np.int64]
    domain: Domain
    n: int
    name = "pilot"

    @property
    def key(self) -> str:
        return f"pilot:n={self.n}:B={self.domain.size}"

    def draw(self, rng: np.random.Generator) -> Draw:
        return Draw(Sample(rng.choice(self.indices, self.n), self.domain.size), None)


def rehearsed(
    indices: NDArray[np.int64],
    domain: Domain,
    *,
    users: int,
    epsilon: float,
    quantiles: tuple[float, ...],
    pace: Pace,
    runs: int,
    progress: bool,
) -> Outcome:
    """So many runs of the job, in this process and always the same; ranks are those among the people asked."""
    schedule = Schedule.of(rounds=pace.rounds, in_flight=pace.in_flight)
    options = {} if pace.interval is None else {"interval": pace.interval}
    if schedule != SUGGESTED:
        options["spread"] = SPREAD
    cell = Cell(
        Resampled(indices, domain, users),
        Registered("isotonic", epsilon, quantiles, tuple(options.items())),
        schedule=schedule,
        trials=runs,
        redraw=1,
    )
    return run_cells([cell], seed=SEED, workers=1, progress=progress).outcomes[0]

"""A plan rehearsed: its job run many times on people drawn from its pilot (see `privquant.planning.targets`)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from privquant.arrays import Floats, Ints
from privquant.domain import Domain
from privquant.lab.experiment.cell import Cell, Registered, Shuffled, Template
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.runner import run_cells
from privquant.lab.sample import Draw, Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.planning.asking import SPREAD
from privquant.planning.solving import Job

SEED = 1


@dataclass(frozen=True, eq=False)
class Resampled:
    """n people drawn from a pilot with replacement, others in every run."""

    indices: Ints
    domain: Domain
    n: int
    name = "pilot"

    @property
    def key(self) -> str:
        return f"pilot:n={self.n}:B={self.domain.size}"

    @cached_property
    def _histogram(self) -> tuple[Ints, Floats]:
        values, counts = np.unique(self.indices, return_counts=True)
        return values, counts / self.indices.size

    def draw(self, rng: np.random.Generator) -> Draw:
        values, shares = self._histogram
        if self.n <= values.size:
            return Draw(Sample(rng.choice(self.indices, self.n), self.domain.size), None)
        counts = rng.multinomial(self.n, shares)
        return Draw(Sample.of_counts(values[counts > 0], counts[counts > 0], self.domain.size), None)


def rehearsed(
    job: Job, *, users: int, epsilon: float, trust: str, progress: bool = False, seed: int = SEED
) -> Outcome:
    """The job's runs, in this process and always the same; ranks are those among the people asked."""
    assert job.pilot is not None
    schedule = Schedule.of(rounds=job.schedule.rounds, in_flight=job.schedule.in_flight)
    options = {} if job.schedule.interval is None else {"interval": job.schedule.interval}
    if schedule != SUGGESTED:
        options["spread"] = SPREAD
    template: Template = Registered("isotonic", epsilon, job.quantiles, tuple(options.items()))
    if trust == "shuffle":
        template = Shuffled("isotonic", epsilon, job.delta, job.quantiles)
    people = Resampled(job.pilot.indices, job.pilot.domain, users)
    cell = Cell(people, template, schedule=schedule, trials=job.simulate, redraw=1)
    return run_cells([cell], seed=seed, workers=1, progress=progress).outcomes[0]

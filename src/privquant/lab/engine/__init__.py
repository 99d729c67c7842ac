"""The fast engine: many trials of one protocol, exact in distribution.

One module a protocol, each with

    simulate(template, sample, trials, rng, setting) -> int64[trials, quantiles]   the answers' indices
    supports(template, schedule) -> bool                                   whether it can run this template so

`template` is a protocol object that has asked nobody: the engine reads every number it needs (coin, batch sizes,
plan) from it, so figures and product cannot differ. Where no engine supports a template or a schedule, the trials
run the protocol object itself, which is also the twin every engine is tested against.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple
from typing import Protocol as Interface

import numpy as np

from privquant.arrays import Flags, Ints
from privquant.lab.populations import population_of
from privquant.lab.run import drive
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.protocols.base import Protocol

_ENGINES = {
    "naive": "naive",
    "bayess": "bayes",
    "bayeslearn": "bayes",
    "hierarchical": "tree",
    "isotonic": "isotonic",
}
Simulate = Callable[..., Ints]


class Attack(Interface):
    """Liars in a simulated run, as `studies.attack` has them.

    bit, withheld:  what each reports, unless there is a fake value; whether their reports come after all others.
    value:          the index of the fake value among these data.
    liars:          for each user in the order of asking, whether it is a liar.
    among:          the population of a run with these liars; its `late()` has the reports that were withheld.
    """

    @property
    def bit(self) -> int: ...
    @property
    def withheld(self) -> bool: ...
    def value(self, sample: Sample) -> int | None: ...
    def liars(self, users: int, rng: np.random.Generator) -> Flags: ...
    def among(self, sample: Sample, users: int, rng: np.random.Generator) -> Any: ...


class Setting(NamedTuple):
    """How trials run. draw: each user is asked at most once ("empirical"), or users are drawn from the sample taken
    as a distribution ("statistical"). schedule: how many are asked before feedback. attack: liars among them."""

    draw: str = "empirical"
    schedule: Schedule = SUGGESTED
    attack: Attack | None = None


USUAL = Setting()


def simulator(template: Protocol, schedule: Schedule = SUGGESTED) -> Simulate:
    """The fastest exact way to run trials of this template on this schedule."""
    schedule.check(template)
    if template.name in _ENGINES:
        engine = import_module(f"{__name__}.{_ENGINES[template.name]}")
        if engine.supports(template, schedule):
            found: Simulate = engine.simulate
            return found
    return simulate_by_asking


def simulate_by_asking(
    template: Protocol, sample: Sample, trials: int, rng: np.random.Generator, setting: Setting = USUAL
) -> Ints:
    """The obviously right way: the protocol object itself asks simulated users, liars among them if there are."""
    answers = np.empty((trials, len(template.quantiles)), np.int64)
    for trial in range(trials):
        protocol = template.fresh()
        if setting.attack is not None:
            lying = setting.attack.among(sample, template.users, rng)
            drive(protocol, lying, setting.schedule)
            protocol.tell(lying.late())
        else:
            users = population_of(protocol, sample, rng, setting.schedule, draw=setting.draw)
            drive(protocol, users, setting.schedule)
        answers[trial] = [e.index for e in protocol.estimates() if e.index is not None]
    return answers

"""The fast engine: many trials of one protocol, exact in distribution.

One module a protocol, each with

    simulate(template, sample, trials, rng, *, draw) -> int64[trials, quantiles]   the answers' indices
    supports(template, draw) -> bool                                               whether it can run this template

`template` is a protocol object that has asked nobody: the engine reads every number it needs (coin, batch
sizes, schedule) from it, so figures and product cannot differ. Where no engine supports a template, the trials
run the protocol object itself, which is also the twin every engine is tested against.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol as Interface

import numpy as np
from numpy.typing import NDArray

from privquant.lab.populations import CountUsers, Users
from privquant.lab.run import drive
from privquant.lab.sample import Sample
from privquant.protocols.base import Protocol, ThresholdProtocol

_ENGINES = {
    "naive": "privquant.lab.engine.naive",
    "bayess": "privquant.lab.engine.bayes",
    "bayeslearn": "privquant.lab.engine.bayes",
    "hierarchical": "privquant.lab.engine.tree",
    "isotonic": "privquant.lab.engine.isotonic",
}


class Simulate(Interface):
    def __call__(
        self, template: Protocol, sample: Sample, trials: int, rng: np.random.Generator, *, draw: str
    ) -> NDArray[np.int64]: ...


def simulator(template: Protocol, draw: str = "empirical") -> Simulate:
    """The fastest exact way to run trials of this template."""
    where = _ENGINES.get(template.name)
    if where is not None:
        engine = import_module(where)
        if engine.supports(template, draw):
            found: Simulate = engine.simulate
            return found
    return simulate_by_asking


def simulate_by_asking(
    template: Protocol,
    sample: Sample,
    trials: int,
    rng: np.random.Generator,
    *,
    draw: str = "empirical",
    rounds: int | None = None,
) -> NDArray[np.int64]:
    """The obviously right way: the protocol object itself asks simulated users."""
    answers = np.empty((trials, len(template.quantiles)), np.int64)
    by_count = isinstance(template, ThresholdProtocol) and template.takes_counts
    for trial in range(trials):
        protocol = template.fresh()
        population = (CountUsers if by_count else Users)(sample, rng, draw=draw)
        drive(protocol, population, rounds=rounds)
        for k, estimate in enumerate(protocol.estimates()):
            assert estimate.index is not None
            answers[trial, k] = estimate.index
    return answers

"""The hierarchical mechanism by counts; exact in distribution.

A descent for one quantile needs only the children of visited nodes (`descent`, any domain, cost independent
of n). The argmin, consistency and several quantiles from the same reports need the whole tree (`whole`), or,
where that is too large, the nodes their descents meet (`lazy`).
"""

from __future__ import annotations

import numpy as np

from privquant.arrays import Ints
from privquant.lab.engine import simulate_by_asking
from privquant.lab.engine.naive import MOST_USERS
from privquant.lab.engine.tree.descent import descents
from privquant.lab.engine.tree.lazy import lazy_trees
from privquant.lab.engine.tree.whole import whole_trees
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.protocols.base import Protocol
from privquant.protocols.tree.hierarchical import MOST_LEAVES, Hierarchical


def _by_descent(template: Hierarchical) -> bool:
    coset = template.tree.branching & (template.tree.branching - 1) == 0
    return (
        not template.whole
        and len(template.quantiles) == 1
        # The children's Hadamard columns have one joint law for all users outside them only where their numbers
        # differ in their last bits alone.
        and (template.encoding != "hadamard" or coset)
    )


def supports(template: Protocol, draw: str, schedule: Schedule = SUGGESTED) -> bool:
    # Nobody's question depends on another's answer: any schedule will do.
    if not isinstance(template, Hierarchical) or template.users > MOST_USERS:
        return False
    # Hadamard reports of a huge tree are drawn user by user, which is what asking does.
    return _by_descent(template) or template.domain.size <= MOST_LEAVES or template.encoding != "hadamard"


def simulate(
    template: Protocol,
    sample: Sample,
    trials: int,
    rng: np.random.Generator,
    *,
    draw: str = "empirical",
    schedule: Schedule = SUGGESTED,
) -> Ints:
    """The answers' indices of `trials` runs, one row a trial and a column a quantile."""
    assert isinstance(template, Hierarchical)
    if draw == "empirical" and sample.n > MOST_USERS:
        return simulate_by_asking(template, sample, trials, rng, draw=draw)
    if _by_descent(template):
        return descents(template, sample, trials, rng, draw=draw).reshape(trials, 1)
    several = whole_trees if template.domain.size <= MOST_LEAVES else lazy_trees
    return several(template, sample, trials, rng, draw=draw)

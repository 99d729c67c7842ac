"""Many independent runs of one protocol on one data set: `lab.trials`, an experiment of one cell."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant.arrays import Floats, Ints
from privquant.domain import Domain
from privquant.errors import InvalidInput
from privquant.lab.data import from_values
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.runner import run_seeded
from privquant.lab.experiment.source import Source
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.protocols.base import Protocol
from privquant.validation import check_count, check_probability


@dataclass(frozen=True, repr=False)
class Trials:
    """Answers of independent runs: one row a trial (and a column a quantile where several were asked)."""

    outcome: Outcome
    template: Protocol

    @property
    def indices(self) -> Ints:
        """The answers as indices of the domain."""
        return self.outcome.answers

    @property
    def values(self) -> NDArray[Any]:
        """The answers as values of the domain."""
        domain = self.template.domain
        flat = [domain.value(int(i)) for i in self.indices.ravel()]
        found = np.array(flat, dtype=object if any(abs(v) >= 2**63 for v in flat) else None)
        found = found.reshape(self.indices.shape[0], -1)
        return found[:, 0] if self.indices.shape[1] == 1 else found

    def success(self, alpha: float) -> float:
        """Share of trials whose answer v has F(v-1) < q + alpha and F(v) > q - alpha (first quantile)."""
        return self.outcome.success(check_probability(alpha, "alpha"))

    def rank_errors(self) -> Floats:
        """Distance of q to [F(v-1), F(v)] for each trial (first quantile)."""
        return self.outcome.rank_errors()

    def __repr__(self) -> str:
        made = self.template
        return (
            f"Trials({self.outcome.trials:,} runs of {made.name}, {made.users:,} users, epsilon {made.epsilon:g})"
        )


def trials(
    values: Any,
    *,
    protocol: str,
    epsilon: float,
    domain: Domain,
    quantile: Any = 0.5,
    trials: int,
    seed: int,
    draw: str = "empirical",
    users: int | None = None,
    schedule: Schedule | None = None,
    workers: int = 1,
    executor: Executor | None = None,
    **options: Any,
) -> Trials:
    """The answers of many independent runs.

    Parameters
    ----------
    values : column of numbers
        The users' values; with draw="statistical" the distribution they are drawn from.
    protocol : str
        One of `protocol_names()`.
    epsilon : float
        Of each user's coin.
    domain : Domain
        Which values exist; a pair (low, high) is `Integers(low, high)`.
    quantile : float or sequence of float
        One, or several in rising order for the protocols that can.
    trials : int
        How many runs.
    seed : int
        The numbers depend on it, and not on the workers. With numba those of bayeslearn and bayess are others than
        without it, equally likely; those of all other protocols are the same.
    draw : {"empirical", "statistical"}
        Ask each user of `values` at most once, or draw `users` users from them, taken as a distribution.
    users : int, optional
        How many are asked; as many as there are values unless given.
    schedule : Schedule, optional
        How many users are asked before feedback; as the protocol suggests unless given.
    workers, executor
        As for `sweep`.
    **options
        The protocol's own.

    Returns
    -------
    Trials
        The answers, their rank errors and success rates.
    """
    data: Source = from_values(values, domain)
    planned = data.n if users is None else check_count(users, "users", 1)
    if draw == "empirical" and planned > data.n:
        raise InvalidInput(f"users must be at most the {data.n} values given, got {planned}")
    cell = Cell.of(
        data,
        protocol,
        epsilon,
        quantile=quantile,
        options=options,
        trials=trials,
        draw=draw,
        users=users,
        schedule=schedule or SUGGESTED,
    )
    seeds = {cell.run: check_count(seed, "seed")}
    found = run_seeded([cell], seeds, workers=workers, executor=executor)
    return Trials(found[cell.run], cell.made())

"""Many independent runs: `lab.trials`, an experiment of one cell, and `lab.sweep`, a grid of them.

A sweep promises what `privquant.lab.experiment.runner` does; the file has the versions and the seeds in it, and
`lab.trials(..., seed=cell_seed)` gives a row again.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant.arrays import Floats, Ints
from privquant.domain import Domain
from privquant.errors import InvalidInput
from privquant.lab.data import DataSet, from_values, parse
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.results import ALPHAS, Results
from privquant.lab.experiment.runner import run_cells, run_seeded
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
        made, runs = self.template, self.outcome.trials
        return f"Trials({runs:,} runs of {made.name}, {made.users:,} users, epsilon {made.epsilon:g})"


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


def sweep(
    data: Iterable[DataSet | str],
    *,
    protocols: Iterable[str | tuple[str, Mapping[str, Any]]],
    epsilons: Iterable[float],
    quantiles: Iterable[float] = (0.5,),
    rounds: Iterable[int | None] = (None,),
    trials: int,
    seed: int,
    draw: str = "empirical",
    alphas: Sequence[float] = ALPHAS,
    workers: int = 0,
    executor: Executor | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> Results:
    """Run the grid; with `out`, write one row a cell there.

    Parameters
    ----------
    data : iterable of DataSet or str
        Data sets, or lines such as "pareto:n=2500:B=4^9" (see `privquant.lab.data`).
    protocols : iterable of str or (str, dict)
        Names, alone or with options.
    epsilons, quantiles : iterable of float
        The other sides of the grid.
    rounds : iterable of int or None
        Numbers of feedback rounds; None is as the protocol suggests.
    trials : int
        Independent runs a cell.
    seed : int
        Root seed; every cell derives its own from it.
    draw : {"empirical", "statistical"}
        Each user once, or users drawn with replacement.
    alphas : sequence of float
        Rank errors to count as success.
    workers : int
        Processes; 0 means all cores. The numbers do not depend on it.
    executor : concurrent.futures.Executor, optional
        Runs the cells instead of processes of our own.
    out : str or Path, optional
        A .csv or .parquet file.
    resume : bool
        Go on with a sweep that was interrupted.
    overwrite : bool
        Replace a file that is there; without it (or `resume`) such a file is refused.
    progress : bool
        Show a bar.

    Returns
    -------
    Results
        Rows by cell and by trial, with `to_pandas()`, `to_polars()` and `write()`.
    """
    if out is not None and Path(out).exists() and not (overwrite or resume):
        raise InvalidInput(f"{out} is there already; give another name, or say overwrite=True")
    sets = [parse(d) if isinstance(d, str) else d for d in _several(data, "data")]
    for d in sets:
        if not isinstance(d, DataSet):
            raise InvalidInput(
                f"data are DataSets or lines of text, got {d!r:.60}; see privquant.lab.data.from_values"
            )
    named = [(p, {}) if isinstance(p, str) else (p[0], dict(p[1])) for p in _several(protocols, "protocols")]
    numbers = _several(epsilons, "epsilons"), _several(quantiles, "quantiles"), _several(rounds, "rounds")
    cells = [
        Cell.of(d, name, e, quantile=q, schedule=Schedule.of(rounds=r), options=options, draw=draw, trials=trials)
        for d, (name, options), e, q, r in product(sets, named, *numbers)
    ]
    return run_cells(
        cells,
        seed=seed,
        alphas=alphas,
        workers=workers,
        executor=executor,
        out=out,
        resume=resume,
        progress=progress,
    )


def _several(given: Iterable[Any], name: str) -> list[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = [given]
    found = list(given)
    if not found:
        raise InvalidInput(f"{name} is empty: a sweep needs at least one")
    return found

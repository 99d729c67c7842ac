"""A grid of data sets x protocols x epsilons x quantiles x rounds, on all cores or on any executor.

    result = sweep(["pareto:n=2500:B=4^9"], protocols=["naive", "bayess"], epsilons=[0.5, 1.0],
                   trials=200, seed=1, out="pareto.csv")

It promises what `privquant.lab.experiment.runner` does; the file has the versions and the seeds in it, and
`lab.trials(..., seed=cell_seed)` gives a row again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from itertools import product
from pathlib import Path
from typing import Any

from privquant.errors import InvalidInput
from privquant.lab.data import DataSet, parse
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import ALPHAS, Results
from privquant.lab.experiment.runner import run_cells
from privquant.lab.schedule import Schedule

ProtocolSpec = str | tuple[str, Mapping[str, Any]]
"""A protocol's name, alone or with its options."""


def sweep(
    data: Iterable[DataSet | str],
    *,
    protocols: Iterable[ProtocolSpec],
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
    cells = [
        Cell.of(d, name, e, quantile=q, schedule=Schedule.of(rounds=r), options=options, draw=draw, trials=trials)
        for d, (name, options), e, q, r in product(
            sets,
            named,
            _several(epsilons, "epsilons"),
            _several(quantiles, "quantiles"),
            _several(rounds, "rounds"),
        )
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

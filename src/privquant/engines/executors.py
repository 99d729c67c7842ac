"""Clusters by address, as executors: what `executor=` and `--engine` take.

    ray              a Ray of this machine, started for this run
    ray://auto       the Ray cluster this machine belongs to
    ray://HOST:PORT  a Ray cluster through its client port
    dask             a Dask of this machine, started for this run
    dask://HOST:PORT a Dask scheduler

Every block of trials has its seed, so the numbers are those of this machine's own processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from privquant.errors import InvalidInput, MissingDependency, PrivquantError

FORMS = "ray, ray://auto, ray://HOST:PORT, dask, dask://HOST:PORT"


@contextmanager
def executor_at(address: str, *, workers: int = 0) -> Iterator[Executor]:
    """The executor at an address, for `lab.sweep`, `lab.trials` and studies; what was started for it ends with it.

    workers: of a cluster started here: how many processes; 0 means all cores.
    """
    kind, _, place = address.partition("://")
    if kind not in ("ray", "dask") or ("://" in address and not place):
        raise InvalidInput(f"an engine is one of {FORMS}, got {address!r}")
    if kind == "dask":
        with _dask(place, workers) as executor:
            yield executor
        return
    from privquant.engines.ray_executor import RayExecutor, connected

    with connected(place, workers), RayExecutor() as executor:
        yield executor


@contextmanager
def _dask(place: str, workers: int) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError:
        raise MissingDependency("a Dask engine", "distributed", "dask") from None
    options: dict[str, Any] = {"n_workers": workers or None, "threads_per_worker": 1, "dashboard_address": None}
    try:
        client = Client(f"tcp://{place}", timeout=10) if place else Client(**options)
    except OSError as error:
        raise PrivquantError(f"no Dask scheduler answers at {place}: {error}") from error
    with client:
        yield client.get_executor()

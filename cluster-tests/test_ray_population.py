"""Users in partitions on a real Ray: killed holders throw no second coin, and only counts come back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import privquant as pq
from privquant.engines import RayPopulation
from privquant.engines.partitions import PartitionRefused
from privquant.errors import InvalidInput
from privquant.lab.schedule import Schedule

DOMAIN = pq.Integers(0, 59_999)
GROWING = Schedule.growing(0.2)


def written(folder: Path, partitions: int, rows: int) -> list[Path]:
    rng = np.random.default_rng(11)
    paths = []
    for k in range(partitions):
        values = np.clip(rng.lognormal(6.0 + 0.2 * k, 1.0, rows), 0, 59_999).astype(np.int64)
        paths.append(folder / f"part{k}.parquet")
        parquet.write_table(pa.table({"ms": np.sort(values)}), paths[-1])
    return paths


def isotonic(users: int) -> pq.Protocol:
    return pq.protocol("isotonic", DOMAIN, users=users, epsilon=1.0, spread=0.25)


def rank(paths: list[Path], value: float) -> float:
    return float(np.mean(np.concatenate([parquet.read_table(p)["ms"].to_numpy() for p in paths]) <= value))


def asked_twice(population: RayPopulation) -> int:
    """Users who stand in two rounds of what the partitions kept."""
    twice = 0
    for rounds in population.kept():
        places = Counter(p for entry in rounds for p in range(entry["start"], entry["stop"]))
        twice += sum(count > 1 for count in places.values())
    return twice


def test_a_population_of_files(ray_here, tmp_path) -> None:
    paths = written(tmp_path, 4, 20_000)
    population = RayPopulation.parquet(paths, "ms", domain=DOMAIN, epsilon=1.0, campaign="a", holders=2)
    found = pq.run(isotonic(60_000), population, schedule=GROWING)
    assert found.users == 60_000
    assert abs(rank(paths, found.value) - 0.5) < 0.02  # six standard errors
    assert asked_twice(population) == 0
    again = RayPopulation.parquet(paths, "ms", domain=DOMAIN, epsilon=1.0, campaign="a", holders=1)
    assert pq.run(isotonic(60_000), again, schedule=GROWING) == found
    second = RayPopulation.parquet(paths, "ms", domain=DOMAIN, epsilon=1.0, campaign="b", holders=1)
    assert second.users == 20_000
    with pytest.raises(InvalidInput, match="20,000 who were not asked"):
        pq.run(isotonic(60_000), second, schedule=GROWING)


def test_a_coin_the_owner_does_not_allow_is_refused_there(ray_here, tmp_path) -> None:
    paths = written(tmp_path, 1, 1000)
    population = RayPopulation.parquet(paths, "ms", domain=DOMAIN, epsilon=0.9, campaign="a", holders=1)
    with pytest.raises(PartitionRefused, match=r"allows 0\.9"):
        pq.run(isotonic(1000), population, schedule=GROWING)
    assert population.kept() == [[]]


def test_a_dataset_and_every_protocol_that_asks_in_batches(ray_here, tmp_path) -> None:
    import ray.data

    paths = written(tmp_path, 2, 20_000)
    blocks = ray.data.from_arrow([parquet.read_table(path) for path in paths])
    for name, options in (
        ("naive", {}),
        ("hierarchical", {"encoding": "hadamard"}),
        ("isotonic", {"spread": 0.25}),
    ):
        population = RayPopulation.dataset(
            blocks, "ms", domain=DOMAIN, epsilon=1.0, campaign=name, folder=tmp_path / "kept", holders=1
        )
        protocol = pq.protocol(name, DOMAIN, users=12_000, epsilon=1.0, **options)
        found = pq.run(protocol, population, schedule=GROWING if name == "isotonic" else None)
        assert found.users == 12_000
        assert abs(rank(paths, found.value) - 0.5) < 0.3
        assert asked_twice(population) == 0
        population.close()


def kill_holders(times: int, killed: list[int], stop: threading.Event) -> threading.Thread:
    """SIGKILL to processes that hold partitions, while a run goes on."""

    def hunt() -> None:
        while len(killed) < times and not stop.is_set():
            time.sleep(0.15)
            holders = [
                p
                for p in psutil.Process().children(recursive=True)
                if p.is_running() and "ray::Holder" in " ".join(_words(p))
            ]
            if holders:
                victim = holders[len(killed) % len(holders)]
                os.kill(victim.pid, signal.SIGKILL)
                killed.append(victim.pid)

    thread = threading.Thread(target=hunt)
    thread.start()
    return thread


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_killed_holders_ask_nobody_twice_and_change_no_answer(ray_here, tmp_path) -> None:
    paths = written(tmp_path, 4, 30_000)
    population = RayPopulation.parquet(paths, "ms", domain=DOMAIN, epsilon=1.0, campaign="a", holders=2)
    killed: list[int] = []
    stop = threading.Event()
    hunter = kill_holders(5, killed, stop)
    protocol = isotonic(100_000)
    found = pq.run(protocol, population, schedule=GROWING)
    stop.set()
    hunter.join()
    assert len(killed) >= 2
    assert (protocol.heard, protocol.given_up, population.lost) == (100_000, 0, [])
    assert asked_twice(population) == 0
    # From what the partitions kept alone: the same questions again give the same counts, so no coin fell twice.
    undisturbed = RayPopulation.parquet(paths, "ms", domain=DOMAIN, epsilon=1.0, campaign="a", holders=1)
    twin = isotonic(100_000)
    assert pq.run(twin, undisturbed, schedule=GROWING) == found
    assert twin.state() == protocol.state()


def test_a_holder_that_never_comes_back_is_left_out(ray_here, tmp_path) -> None:
    import ray

    paths = written(tmp_path, 4, 10_000)
    population = RayPopulation.parquet(
        paths, "ms", domain=DOMAIN, epsilon=1.0, campaign="a", holders=2, patience=30
    )
    ray.kill(population._holders[1], no_restart=True)
    protocol = isotonic(20_000)
    found = pq.run(protocol, population, schedule=GROWING)
    assert len(population.lost) == 1
    assert protocol.given_up > 0
    assert protocol.heard + protocol.given_up == 20_000
    assert found.users == protocol.heard > 18_000

"""Ray at scale on this machine: 10^8 users in Parquet partitions, Ray against a local pool, 10^9 users by counts.

    python benchmarks/engines/ray_scale.py --users 100000000 --partitions 20 --folder /tmp/users

Prints one table. Needs the extra `ray`. The files are made on the first run and kept.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as parquet

import privquant as pq
from privquant.engines import Answered, PartitionedPopulation, RayPopulation
from privquant.engines.executors import RayExecutor
from privquant.engines.partitions import Asked
from privquant.lab.schedule import Schedule

DOMAIN = pq.Integers(0, 2**32 - 1)


def written(folder: Path, users: int, partitions: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for k in range(partitions):
        path = folder / f"{users}-{k}.parquet"
        if not path.exists():
            rng = np.random.default_rng([users, k])
            values = (rng.pareto(1.5, users // partitions) * 1e6).clip(0, 2**32 - 1).astype(np.int64)
            parquet.write_table(pa.table({"bytes": values}), path)
        paths.append(path)
    return paths


def rank_of(paths: list[Path], value: float) -> float:
    below = total = 0
    for path in paths:
        values = parquet.read_table(path)["bytes"].to_numpy()
        below, total = below + int((values <= value).sum()), total + values.size
    return below / total


def workers_memory() -> float:
    """Resident MiB of the processes that hold partitions."""
    found = 0
    for process in psutil.Process().children(recursive=True):
        try:
            if "Holder" in " ".join(process.cmdline()):
                found += process.memory_info().rss
        except psutil.Error:
            continue
    return found / 2**20


def populate(paths: list[Path], users: int, campaign: str) -> None:
    begun = time.perf_counter()
    population = RayPopulation.parquet(
        paths, "bytes", domain=DOMAIN, epsilon=1.0, campaign=campaign, holders=2, patience=3600
    )
    opened = time.perf_counter()
    protocol = pq.protocol("isotonic", DOMAIN, users=users, epsilon=1.0, spread=0.25)
    found = pq.run(protocol, population, schedule=Schedule.growing(0.2))
    ended = time.perf_counter()
    memory = workers_memory()
    rounds = max(len(kept) for kept in population.kept())
    population.close()
    print(f"| users in {len(paths)} Parquet partitions, 2 holders | {users:,} |")
    print(f"| opened (read, put in order) | {opened - begun:.1f} s |")
    print(f"| asked in {rounds} rounds | {ended - opened:.1f} s, {users / (ended - opened):,.0f} users/s |")
    print(f"| all of it | {users / (ended - begun):,.0f} users/s |")
    print(f"| memory of the holders | {memory:,.0f} MiB |")
    print(f"| rank of the answer | {rank_of(paths, float(found)):.5f} |")


def busy(seconds: float) -> float:
    end = time.perf_counter() + seconds
    total = 0.0
    while time.perf_counter() < end:
        total += float(np.sqrt(np.arange(1000.0)).sum())
    return total


def timed(executor: Executor, tasks: int, seconds: float) -> float:
    list(executor.map(busy, [0.01] * 4))  # workers are up
    begun = time.perf_counter()
    list(executor.map(busy, [seconds] * tasks))
    return time.perf_counter() - begun


def overhead(seconds: float, tasks: int = 12) -> None:
    with ProcessPoolExecutor(2) as ours:
        local = timed(ours, tasks, seconds)
    with RayExecutor() as theirs:
        there = timed(theirs, tasks, seconds)
    print(
        f"| {tasks} tasks of {seconds:g} s, Ray over a local pool "
        f"| {there:.2f} / {local:.2f} s = {there / local:.3f} |"
    )


class CountedPartition:
    """Simulated users by counts: how another kind of partition is written. Nothing is kept on disk."""

    def __init__(self, rate_at: Callable[[int], float], users: int, seed: int) -> None:
        self._rate_at, self._users, self._seed = rate_at, users, seed
        self._rounds: dict[tuple[str, int], tuple[Asked, list[Any]]] = {}

    def open(self, campaign: str) -> int:
        return self._users

    def answer(self, campaign: str, number: int, asked: Asked) -> list[Any]:
        known = self._rounds.get((campaign, number))
        if known is None:
            name = hashlib.sha256(f"{self._seed} {campaign} {number}".encode()).digest()
            rng = np.random.default_rng(list(name))
            replies = []
            for query, count in asked:
                rate = pq.Coin(query.coin).report_rate(self._rate_at(query.threshold))
                replies.append(Answered(query, count, count, int(rng.binomial(count, rate))))
            known = self._rounds[campaign, number] = (asked, replies)
        assert known[0] == asked
        return known[1]

    def kept(self) -> list[dict[str, Any]]:
        return [{"campaign": c, "round": n} for c, n in self._rounds]


def by_counts(users: int) -> None:
    def rate_at(threshold: int) -> float:
        return 1.0 - (1.0 + threshold / 1e6) ** -1.5

    parts = [CountedPartition(rate_at, users // 10, k) for k in range(10)]
    population = PartitionedPopulation(parts, campaign="counts")
    protocol = pq.protocol("isotonic", DOMAIN, users=users, epsilon=1.0, spread=0.25)
    begun = time.perf_counter()
    found = pq.run(protocol, population, schedule=Schedule.growing(0.2))
    took = time.perf_counter() - begun
    print(f"| {users:,} users by counts, 10 partitions | {took:.1f} s, rank {rate_at(int(float(found))):.6f} |")


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--users", type=int, default=10**8)
    words.add_argument("--partitions", type=int, default=20)
    words.add_argument("--folder", type=Path, default=Path("out/ray-scale"))
    given = words.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    paths = written(given.folder, given.users, given.partitions)
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    print("| what | measured |\n|---|---|")
    overhead(1.0)
    overhead(0.1)
    # Ledgers of an earlier run hold its users for ever; these are test data of our own.
    for path in paths:
        for kept in path.with_name(path.name + ".privquant").glob("*"):
            kept.unlink()
    populate(paths, given.users // 100 * 99, f"scale-{time.time_ns()}")
    by_counts(10**9)
    ray.shutdown()


if __name__ == "__main__":
    main()

"""The same seed gives the same table wherever it runs: our own pool, Ray, Dask; and with a worker killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import BrokenExecutor, Executor
from pathlib import Path

import psutil
import pytest

from conftest import command
from privquant import lab
from privquant.engines import executor_at
from privquant.engines.executors import RayExecutor
from privquant.errors import InvalidInput, PrivquantError


def table(path: Path, **how: object) -> list[str]:
    lab.sweep(
        ["pareto:n=2500:B=4^9", "ties:n=1000:B=1000"],
        protocols=["isotonic", "naive"],
        epsilons=[0.5, 1.0],
        trials=40,
        seed=7,
        out=path,
        **how,
    )
    return path.read_text().splitlines()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return table(tmp_path_factory.mktemp("ours") / "t.csv", workers=2)


def test_ray_gives_the_same_table(ray_here, ours, tmp_path) -> None:
    with executor_at("ray") as executor:
        assert table(tmp_path / "t.csv", executor=executor) == ours


def test_dask_gives_the_same_table(ours, tmp_path) -> None:
    with executor_at("dask", workers=2) as executor:
        assert table(tmp_path / "t.csv", executor=executor) == ours


def test_another_seed_gives_another_table(ray_here, ours, tmp_path) -> None:
    lab.sweep(
        ["pareto:n=2500:B=4^9"], protocols=["naive"], epsilons=[0.5], trials=40, seed=8, out=tmp_path / "u.csv"
    )
    assert (tmp_path / "u.csv").read_text().splitlines()[-1] not in ours


def test_a_dask_scheduler_by_its_address(ours, tmp_path) -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        place = cluster.scheduler_address.removeprefix("tcp://")
        with executor_at(f"dask://{place}") as executor:
            assert table(tmp_path / "t.csv", executor=executor) == ours
    with pytest.raises(PrivquantError, match="no Dask scheduler answers"), executor_at("dask://127.0.0.1:9"):
        pass


def kill_a_worker(after: float, killed: list[int]) -> threading.Thread:
    """SIGKILL to a Ray worker that has begun to compute, once."""

    def hunt() -> None:
        begun = time.monotonic()
        while time.monotonic() < begun + 60 and not killed:
            for process in psutil.Process().children(recursive=True):
                try:
                    if "ray::_call" in " ".join(process.cmdline()) and time.monotonic() > begun + after:
                        os.kill(process.pid, signal.SIGKILL)
                        killed.append(process.pid)
                        return
                except psutil.Error:
                    continue
            time.sleep(0.005)

    thread = threading.Thread(target=hunt)
    thread.start()
    return thread


def test_a_killed_ray_worker_changes_no_number(ray_here, ours, tmp_path) -> None:
    killed: list[int] = []
    hunter = kill_a_worker(0.2, killed)
    with executor_at("ray") as executor:
        found = table(tmp_path / "t.csv", executor=executor)
    hunter.join()
    assert killed
    assert found == ours


def _dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_task_that_always_dies_ends_as_a_broken_executor(ray_here) -> None:
    with RayExecutor() as executor, pytest.raises(BrokenExecutor):
        executor.submit(_dies).result(timeout=120)


def _fails() -> None:
    raise InvalidInput("as it was raised there")


def test_an_error_of_the_task_is_the_task_s_own(ray_here) -> None:
    with RayExecutor() as executor, pytest.raises(InvalidInput, match="as it was raised there"):
        executor.submit(_fails).result(timeout=60)


def test_ray_is_an_executor_like_any_other(ray_here) -> None:
    with RayExecutor() as executor:
        assert isinstance(executor, Executor)
        assert list(executor.map(pow, [2, 3, 4], [5, 2, 1])) == [32, 9, 4]


@pytest.mark.parametrize("engine", ["ray", "dask"])
def test_the_command_line_runs_on_an_engine(engine, tmp_path) -> None:
    asked = ("sweep", "--data", "ties:n=1000:B=1000", "--protocol", "naive", "--trials", 20, "--seed", 3)
    here = command(*asked, "--out", tmp_path / "here.csv", "--workers", 1)
    there = command(*asked, "--out", tmp_path / "there.csv", "--engine", engine, "--workers", 2)
    assert (here.returncode, there.returncode) == (0, 0), there.stderr
    assert (tmp_path / "here.csv").read_text() == (tmp_path / "there.csv").read_text()
    wrong = command(*asked, "--out", tmp_path / "x.csv", "--engine", "spark://x")
    assert wrong.returncode == 2
    assert "an engine is one of ray" in wrong.stderr


def test_trials_and_the_paper_s_figures_take_an_executor(ray_here, tmp_path) -> None:
    import numpy as np

    import privquant as pq
    from studies.paper.regenerate import regenerate

    values = np.random.default_rng(1).integers(0, 1000, 2000)
    asked = {"protocol": "naive", "epsilon": 1.0, "domain": pq.Integers(0, 999), "trials": 50, "seed": 2}
    with executor_at("ray") as executor:
        there = lab.trials(values, executor=executor, **asked)
        drawn = regenerate(["padding"], out=tmp_path / "there", quick=True, executor=executor)
    assert there.indices.tolist() == lab.trials(values, **asked).indices.tolist()
    here = regenerate(["padding"], out=tmp_path / "here", quick=True, workers=2)
    tables = [p for p in drawn.files if p.suffix == ".csv"]
    assert tables
    assert all(p.read_text() == (tmp_path / "here" / p.name).read_text() for p in tables)
    assert len(here.files) == len(drawn.files)

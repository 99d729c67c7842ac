"""The Flower app on both of Flower's runtimes, real processes; `make test-engines` has the environment for it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

APP = Path(__file__).parents[2] / "examples" / "flower"
POLICY = """version = 1
ledger = "ledger"
[measurements.startup-ms]
domain = {kind = "integers", low = 0, high = 59999}
max_epsilon = 1.0
"""


def node(folder: Path, values: np.ndarray | int) -> np.ndarray:
    folder.mkdir(parents=True)
    (folder / "policy.toml").write_text(POLICY)
    if isinstance(values, int):
        (folder / "value").write_text(str(values))
        return np.array([values])
    (folder / "values.csv").write_text("startup-ms\n" + "\n".join(map(str, values.tolist())) + "\n")
    return values


def organisations(root: Path, count: int, users: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    made = [np.clip(rng.lognormal(6 + 0.4 * k, 1.0, users), 0, 59999).astype(np.int64) for k in range(count)]
    return np.concatenate([node(root / str(k), values) for k, values in enumerate(made)])


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Flower:
    """Flower's commands with a home of their own; every process started is ended by its id."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True)
        self.bin = Path(sys.executable).parent
        local, control = free_port(), free_port()
        self.env = {
            **os.environ,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "FLWR_HOME": str(home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(local),
            "FLWR_LOCAL_CONTROL_API_PORT": str(control),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, name: str, *words: str) -> None:
        log = (self.home / f"{name}-{len(self.started)}.log").open("wb")
        command = [str(self.bin / name), *words]
        self.started.append(subprocess.Popen(command, env=self.env, stdout=log, stderr=log, start_new_session=True))

    def run(self, *words: str, **config: object) -> str:
        said = " ".join(f"{key}={json.dumps(value)}" for key, value in config.items())
        done = subprocess.run(
            [str(self.bin / "flwr"), "run", str(APP), *words, "--stream", "--run-config", said],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=900,
        )
        return done.stdout + done.stderr

    def end(self) -> None:
        for process in self.started:
            os.killpg(process.pid, signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        # The SuperLink that `flwr run` starts by itself for simulations.
        for place in Path("/proc").iterdir():
            try:
                if place.name.isdigit() and f"FLWR_HOME={self.home}".encode() in (place / "environ").read_bytes():
                    os.kill(int(place.name), signal.SIGTERM)
            except (OSError, ProcessLookupError):
                continue


@pytest.fixture
def flower(tmp_path: Path) -> Iterator[Flower]:
    assert shutil.which("flwr", path=str(Path(sys.executable).parent)), "`make test-engines` installs flwr"
    made = Flower(tmp_path / "home")
    yield made
    made.end()


def asked_twice(root: Path) -> int:
    twice = 0
    for ledger in root.glob("*/values.csv.privquant/startup-ms.ledger"):
        places: Counter[int] = Counter()
        for line in ledger.read_text().splitlines():
            entry = json.loads(line)
            if "round" in entry:
                places.update(range(entry["start"], entry["start"] + sum(entry["taken"])))
        twice += sum(count > 1 for count in places.values())
    return twice


def test_in_simulation(flower, tmp_path) -> None:
    values = organisations(tmp_path / "nodes", 2, 4000)
    said = flower.run(folder=str(tmp_path / "nodes"), out=str(tmp_path / "out.json"), nodes=2)
    assert (tmp_path / "out.json").exists(), said
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["users"], found["given_up"], found["refused"]) == (8000, 0, [])
    assert abs((values <= found["value"]).mean() - 0.5) < 0.06  # five standard errors
    assert asked_twice(tmp_path / "nodes") == 0


def test_on_a_superlink_with_two_supernodes(flower, tmp_path) -> None:
    """One node is an organisation, the other one person. A second campaign meets their ledgers."""
    values = organisations(tmp_path / "nodes", 1, 4000)
    node(tmp_path / "nodes" / "1", 700)
    api = free_port()
    flower.start("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(api))
    for k in range(2):
        flower.start(
            "flower-supernode",
            *("--insecure", "--superlink", f"127.0.0.1:{api}", "--port", str(free_port())),
            *("--node-config", f'folder="{tmp_path / "nodes" / str(k)}"'),
        )
    (flower.home / "config.toml").write_text(f'[superlink.here]\naddress = "127.0.0.1:{api}"\ninsecure = true\n')
    time.sleep(5)
    said = flower.run("here", out=str(tmp_path / "first.json"), nodes=2, growth=2.0)
    assert (tmp_path / "first.json").exists(), said
    found = json.loads((tmp_path / "first.json").read_text())
    assert (found["users"], found["given_up"], found["refused"]) == (4001, 0, [])
    assert abs((values <= found["value"]).mean() - 0.5) < 0.09  # five standard errors
    assert (tmp_path / "nodes" / "1" / "ledger").exists()
    again = flower.run("here", out=str(tmp_path / "again.json"), nodes=2, growth=2.0)
    assert json.loads((tmp_path / "again.json").read_text()) == found, again
    second = flower.run("here", out=str(tmp_path / "second.json"), nodes=2, campaign="another")
    assert not (tmp_path / "second.json").exists()
    assert "nobody left to ask" in second
    assert asked_twice(tmp_path / "nodes") == 0

"""Both servers as processes of the command line, and bare requests to them: what no change of modules touches.

Used with the present code by the tests, and with the code of an older release by `make.py`. The ports are fixed,
because manifests, ledgers and databases hold addresses; they lie below those that a system hands out by itself.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from privquant import wire

PORT, ADMIN_PORT, SHUFFLER_PORT = 18470, 18471, 18475
SHUFFLER_URL = f"http://127.0.0.1:{SHUFFLER_PORT}"


def command(*words: object, **environment: str) -> str:
    """What a command of `privquant` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "privquant", *map(str, words)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout.strip()


def request(port: int, method: str, path: str, body: bytes = b"", token: str = "") -> tuple[int, bytes]:
    """Status and body of one answer."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        if body:
            headers["content-type"] = "application/json"
        line.request(method, path, body, headers)
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


def device_request(port: int, campaign: str, route: str, body: bytes) -> tuple[int, bytes]:
    """One answer to a device; a server that asks for patience is asked again, for twenty seconds."""
    ends = time.monotonic() + 20
    while True:
        status, found = request(port, "POST", wire.path_of(campaign, route), body)
        if status not in (425, 503) or time.monotonic() > ends:
            return status, found
        time.sleep(0.05)


def until(condition: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    """What the condition gives once it gives something."""
    ends = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < ends, f"after {seconds:g} s: {what}"
        time.sleep(0.05)
    return found


class Servers:
    """An aggregator with its data in `folder`/aggregator, and a shuffler in `folder`/shuffler."""

    def __init__(self, folder: Path, database: str = "", **environment: str) -> None:
        self.folder = folder
        self.data, self.shuffler_data = folder / "aggregator", folder / "shuffler"
        self._database = ("--database", database) if database else ()
        self._environment = os.environ | environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def add_operator(self, name: str, role: str = "admin") -> str:
        """The new operator's token."""
        return command("operator", "add", name, "--role", role, "--data", self.data, *self._database)

    def start(self) -> None:
        self.start_aggregator()
        self.start_shuffler()

    def start_aggregator(self) -> None:
        where = ("--data", self.data, *self._database, "--port", PORT, "--admin-port", ADMIN_PORT)
        self._start("aggregator", ADMIN_PORT, "serve", *where)

    def start_shuffler(self) -> None:
        where = ("--data", self.shuffler_data, "--port", SHUFFLER_PORT, "--retry-seconds", 1)
        self._start("shuffler", SHUFFLER_PORT, "shuffler", "serve", *where)

    def _start(self, name: str, port: int, *words: object) -> None:
        log = self.folder / f"{name}.log"
        with log.open("ab") as out:
            words = (sys.executable, "-m", "privquant", *words)
            process = subprocess.Popen(list(map(str, words)), env=self._environment, stdout=out, stderr=out)
        self._processes[name] = process

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                return request(port, "GET", "/readyz")[0] == 200
            except OSError:
                return False

        until(ready, f"the {name} is not ready")

    def stop(self, *names: str) -> None:
        """End these processes, or all, as an operator does."""
        for name in names or tuple(self._processes):
            process = self._processes.pop(name)
            process.terminate()
            process.wait(60)

    def call(self, token: str, method: str, path: str, form: Any = None) -> Any:
        """What the aggregator answers an operator."""
        body = b"" if form is None else json.dumps(form).encode()
        status, found = request(ADMIN_PORT, method, path, body, token)
        assert status < 300, (status, found)
        text = found.decode()
        return json.loads(text) if text[:1] in ("{", "[") else text

    def books(self, campaign: str) -> dict[str, Any]:
        """What the shuffler's operator is shown."""
        return dict(json.loads(command("shuffler", "show", campaign, "--json", "--data", self.shuffler_data)))

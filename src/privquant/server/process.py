"""A server as a process of its own: start it, wait until it is ready, stop it, kill it, start it again.

What the demo and the fault tests drive. The process is the one `privquant serve` or `privquant shuffler serve` is.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from privquant.errors import PrivquantError
from privquant.server.http_client import OperatorClient, Refusal
from privquant.server.settings import ServerSettings, address


class ServerFailed(PrivquantError):
    """The process ended, or did not become ready in time."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """A server with fixed settings, alive or not. command: what it runs instead of its own module."""

    def __init__(self, settings: ServerSettings, *, log: Path, command: tuple[str, ...] | None = None) -> None:
        self.settings = settings
        self.log = log
        self._command = [sys.executable, *(command or ("-m", settings.MODULE))]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """Of devices and invite pages."""
        return address(self.settings.host, self.settings.port)

    @property
    def admin_url(self) -> str:
        """Of operators, health and metrics."""
        return self.settings.admin_url

    def is_ready(self) -> bool:
        """Whether it says so."""
        try:
            OperatorClient(self.admin_url, timeout=5).call("GET", "/readyz")
        except Refusal:
            return False
        return True

    def start(self, timeout: float = 60.0) -> float:
        """Start it and wait until it is ready; the seconds that took."""
        began, role = time.perf_counter(), self.settings.ROLE
        with open(self.log, "ab") as out:
            environment = os.environ | self.settings.environment()
            self._process = subprocess.Popen(self._command, env=environment, stdout=out, stderr=out)
        while time.perf_counter() - began < timeout:
            if self._process.poll() is not None:
                raise ServerFailed(f"the {role} ended with code {self._process.returncode}; see {self.log}")
            if self.is_ready():
                return time.perf_counter() - began
            time.sleep(0.02)
        raise ServerFailed(f"the {role} was not ready after {timeout:g} seconds; see {self.log}")

    def kill(self) -> None:
        """kill -9: no chance to finish anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        code = self._process.wait(timeout=60)
        self._process = None
        while self._listens():  # workers outlive a killed supervisor by a moment
            time.sleep(0.02)
        return code

    def _listens(self) -> bool:
        listeners = (self.settings.host, self.settings.port), (self.settings.admin_host, self.settings.admin_port)
        for host, port in listeners:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
                if port and probe.connect_ex((host, port)) == 0:
                    return True
        return False

    def call(self, method: str, path: str, form: Any = None, *, token: str = "") -> Any:
        """One request of an operator; the JSON of the answer (text as it is)."""
        return OperatorClient(self.admin_url, token).call(method, path, form)

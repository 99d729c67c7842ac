"""A shuffler as a process of its own: start it, wait until it is ready, stop it, kill it, start it again.

What the demo and the fault tests drive. The process is the one `privquant shuffler serve` is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from privquant.aggregator.peer import PeerRefused, PeerSilent, get
from privquant.errors import PrivquantError
from privquant.shuffler.settings import Settings


class ShufflerFailed(PrivquantError):
    """The shuffler process ended, or did not become ready in time."""


class ShufflerProcess:
    """One shuffler with fixed settings, alive or not."""

    def __init__(
        self, settings: Settings, *, log: Path, command: tuple[str, ...] = ("-m", "privquant.shuffler.server")
    ) -> None:
        self.settings = settings
        self.log = log
        self._command = [sys.executable, *command]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, timeout: float = 60.0) -> float:
        """Start it and wait until it is ready; the seconds that took."""
        began = time.perf_counter()
        with open(self.log, "ab") as out:
            environment = os.environ | self.settings.environment()
            self._process = subprocess.Popen(self._command, env=environment, stdout=out, stderr=out)
        while time.perf_counter() - began < timeout:
            if self._process.poll() is not None:
                raise ShufflerFailed(f"the shuffler ended with code {self._process.returncode}; see {self.log}")
            try:
                get(f"http://{self.settings.host}:{self.settings.port}/readyz")
                return time.perf_counter() - began
            except (PeerSilent, PeerRefused):
                time.sleep(0.02)
        raise ShufflerFailed(f"the shuffler was not ready after {timeout:g} seconds; see {self.log}")

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
        return code

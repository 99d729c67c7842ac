"""Several processes on one port: the supervisor that keeps them, and the line each of them has to it.

A worker and its supervisor share a pair of sockets. The worker says over it that it is ready, or in one line why it
cannot be. When the supervisor is gone, however it ended, the line is closed and the worker ends itself.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from prometheus_client import multiprocess

from privquant.aggregator.settings import Settings
from privquant.errors import PrivquantError
from privquant.server import logs

_LISTENING = "PRIVQUANT_LISTENING_FD"
_ADMIN = "PRIVQUANT_ADMIN_FD"
_SUPERVISOR = "PRIVQUANT_SUPERVISOR_FD"
_READY = b"\x00"
_LONGEST_MESSAGE = 500

ATTEMPTS = 10
"""Tries to start a worker anew, in a row and with growing pauses (80 seconds in all), before the server ends."""
_LONGEST_PAUSE = 30.0
_LAST_SECONDS = 30.0  # a worker without supervisor may take to finish the requests in hand


class WorkerFailed(PrivquantError):
    """A worker cannot start, so neither can the server."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """The bound sockets of a server: for devices, and for operators."""

    public: socket.socket
    admin: socket.socket


@dataclass(slots=True)
class Worker:
    """A worker as its supervisor sees it."""

    process: subprocess.Popen[bytes]
    line: socket.socket
    failures: int
    ready: bool = False
    said: bytes = b""
    start_after: float = 0.0

    def listen(self) -> None:
        """Take in what it has said since."""
        with suppress(OSError):
            while data := self.line.recv(_LONGEST_MESSAGE, socket.MSG_DONTWAIT):
                self.ready |= data.startswith(_READY)
                self.said += data.lstrip(_READY)
        if self.ready:
            self.failures = 0


def supervise(settings: Settings, listening: Listeners) -> int:
    """Keep `settings.workers` workers on bound sockets until told to stop; the exit code.

    A worker that ends is started anew. `WorkerFailed` if one of the first cannot start, or if a later one could not
    in `ATTEMPTS` tries.
    """
    logs.configure(settings.log_level)
    with tempfile.TemporaryDirectory(prefix="privquant-metrics-", ignore_cleanup_errors=True) as samples:
        workers = _Workers(settings, listening, samples)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: workers.stop())
        try:
            workers.run()
        finally:
            workers.end()
    return 0


class _Workers:
    def __init__(self, settings: Settings, listening: Listeners, samples: str) -> None:
        self._listening = listening
        self._samples = samples
        self._environment = os.environ | settings.environment()
        self._environment |= {
            "PRIVQUANT_WORKERS": "1",
            "PROMETHEUS_MULTIPROC_DIR": samples,
            _LISTENING: str(listening.public.fileno()),
            _ADMIN: str(listening.admin.fileno()),
        }
        self._stopping = False
        self._workers = [self._start(0) for _ in range(settings.workers)]

    def _start(self, failures: int) -> Worker:
        mine, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "privquant.aggregator.server"]
            environment = self._environment | {_SUPERVISOR: str(theirs.fileno())}
            given = (self._listening.public.fileno(), self._listening.admin.fileno(), theirs.fileno())
            return Worker(subprocess.Popen(command, env=environment, pass_fds=given), mine, failures)

    def stop(self) -> None:
        self._stopping = True
        for worker in self._workers:
            worker.process.terminate()

    def run(self) -> None:
        all_ready_once = False
        while not self._stopping:
            for place, worker in enumerate(self._workers):
                worker.listen()
                if worker.process.poll() is not None and not self._stopping:
                    worker.listen()
                    self._workers[place] = self._instead_of(worker, first=not all_ready_once)
            all_ready_once |= all(worker.ready for worker in self._workers)
            time.sleep(0.05)

    def _instead_of(self, ended: Worker, *, first: bool) -> Worker:
        code = ended.process.returncode
        if not ended.start_after:
            multiprocess.mark_process_dead(ended.process.pid, self._samples)  # type: ignore[no-untyped-call]
            ended.line.close()
            if not ended.ready:
                ended.failures += 1
                why = ended.said.decode(errors="replace") or f"it ended with code {code} before it was ready"
                if first or ended.failures >= ATTEMPTS:
                    raise WorkerFailed(f"a worker cannot start: {why}")
                logs.say("a worker cannot start; it is tried again", reason=why, tries=ended.failures)
            else:
                logs.say("a worker ended and is started anew", code=code)
            ended.start_after = time.monotonic() + min(_LONGEST_PAUSE, 0.2 * 2**ended.failures)
        if time.monotonic() < ended.start_after:
            return ended
        return self._start(ended.failures)

    def end(self) -> None:
        """Wait for all; those that are still there after a failure are told to stop first."""
        self.stop()
        for worker in self._workers:
            worker.process.wait()
            worker.line.close()


class SupervisorLine:
    """A worker's end of the line."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        threading.Thread(target=self._end_with_supervisor, name="supervisor", daemon=True).start()

    def say_ready(self) -> None:
        self._line.sendall(_READY)

    def say_failed(self, why: str) -> None:
        self._line.sendall(why.encode()[:_LONGEST_MESSAGE])

    def _end_with_supervisor(self) -> None:
        # A supervisor killed before it read what was said resets the line instead of closing it.
        with suppress(ConnectionError):
            if self._line.recv(1):
                return
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_LAST_SECONDS)
        os._exit(1)


def is_worker() -> bool:
    """Whether this process shares its port with others."""
    return _LISTENING in os.environ


def inherited() -> tuple[Listeners, SupervisorLine] | None:
    """The listening sockets and the line to the supervisor, if this process is a worker."""
    if not is_worker():
        return None
    listening = Listeners(*(socket.socket(fileno=int(os.environ[name])) for name in (_LISTENING, _ADMIN)))
    return listening, SupervisorLine(socket.socket(fileno=int(os.environ[_SUPERVISOR])))

"""A PostgreSQL cluster of a test's own, from Debian's binaries: loopback only, restarted and killed at will."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time
from pathlib import Path

from privquant.server.process import free_port


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    if found:
        return found[0].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


class PostgresCluster:
    """Lives in `folder`. PostgreSQL refuses to run as root, so root hands the folder to the user postgres."""

    def __init__(self, folder: Path) -> None:
        found = _binaries()
        if found is None:
            raise RuntimeError("these tests need PostgreSQL's binaries: apt-get install -y postgresql")
        self.bin = found
        self.folder = folder / "cluster"
        self.port = free_port()
        self._user: str | None = None
        folder.mkdir(parents=True, exist_ok=True)
        if os.geteuid() == 0:
            try:
                entry = pwd.getpwnam("postgres")
            except KeyError as error:
                raise RuntimeError(
                    "run as root these tests need the user postgres: apt-get install -y postgresql"
                ) from error
            self._user = "postgres"
            os.chown(folder, entry.pw_uid, entry.pw_gid)
        self._run("initdb", "-D", str(self.folder), "-U", "privquant", "--auth=trust", "--no-sync", "-E", "UTF8")
        with open(self.folder / "postgresql.conf", "a") as conf:
            conf.write(
                f"port={self.port}\nlisten_addresses='127.0.0.1'\nunix_socket_directories=''\n"
                "max_connections=100\nshared_buffers=64MB\nlogging_collector=off\n"
            )
        self.start()

    @property
    def pid(self) -> int:
        """Of the postmaster."""
        return int((self.folder / "postmaster.pid").read_text().split()[0])

    def new_database(self, name: str) -> str:
        """Its address."""
        self._run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "privquant", name)
        return f"postgresql://privquant@127.0.0.1:{self.port}/{name}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.bin / program), *arguments]
        if self._user is not None:
            command = ["setpriv", "--reuid", self._user, "--regid", self._user, "--init-groups", *command]
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr or done.stdout}")

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self.folder), "-w", "-t", "60", "-l", str(self.folder / "log"), *arguments)

    def start(self) -> None:
        self._control("start")

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-m", mode)

    def kill(self) -> None:
        """kill -9 of the postmaster and all its children, as when a machine dies but its disk does not."""
        postmaster = self.pid
        children = [
            int(found)
            for found in subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(postmaster)], capture_output=True, text=True, check=False
            ).stdout.split()
        ]
        for pid in (postmaster, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and any(Path(f"/proc/{p}").exists() for p in (postmaster, *children)):
            if all(_is_zombie(p) for p in (postmaster, *children)):
                break
            time.sleep(0.02)
        (self.folder / "postmaster.pid").unlink(missing_ok=True)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True

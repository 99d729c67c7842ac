"""Load on one server: devices a second, latency, memory, and what a restart costs at that size.

    python benchmarks/service/load.py --devices 200000 --connections 64
    python benchmarks/service/load.py --devices 1000000

Starts its own server on SQLite (or --database postgresql://...), builds the load generator with cc, runs it against
loopback, and prints JSON. Everything is removed afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

from privquant.aggregator.operators.accounts import add_operator
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.migrate import opened
from privquant.server.process import ServerProcess, free_port
from privquant.wire import Invite, token_hash

TOP = 999_999
HERE = Path(__file__).parent


async def operator_token(settings: Settings) -> str:
    async with opened(settings) as engine:
        return await add_operator(engine, "load")


def build(folder: Path) -> Path:
    program = folder / "loadgen"
    subprocess.run(["cc", "-O2", "-o", str(program), str(HERE / "loadgen.c")], check=True)
    return program


def write_tokens(server: ServerProcess, campaign: str, token: str, count: int, file: Path) -> None:
    with file.open("w") as out:
        for start in range(0, count, 100_000):
            form = {"count": min(100_000, count - start)}
            path = f"/v1/campaigns/{campaign}/invites"
            for line in server.call("POST", path, form, token=token).splitlines()[1:]:
                secret = str(Invite.parse(line).token)
                out.write(f"{secret} {token_hash(secret)}\n")


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and all that it started and has not ended, and of those that ended."""
    root = psutil.Process(pid)
    living = [process.cpu_times() for process in (root, *root.children(recursive=True))]
    return float(sum(times.user + times.system + times.children_user + times.children_system for times in living))


class Usage(threading.Thread):
    """Samples the memory of a server and all its processes."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._server = psutil.Process(pid)
        self.memory: list[int] = []
        self.going = True

    def run(self) -> None:
        while self.going:
            with contextlib.suppress(psutil.NoSuchProcess):
                processes = (self._server, *self._server.children(recursive=True))
                self.memory.append(sum(process.memory_info().rss for process in processes) >> 20)
            time.sleep(0.5)


def groups(metrics: str) -> dict[str, float]:
    """Mean size of a group and mean time its transaction took, from the server's own counters."""
    found = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    number = max(float(found["privquant_group_asks_count"]), 1.0)
    return {
        "group_mean": round(float(found["privquant_group_asks_sum"]) / number, 1),
        "commit_ms_mean": round(1000 * float(found["privquant_commit_seconds_sum"]) / number, 2),
    }


def measure(
    devices: int,
    connections: int,
    database: str,
    workers: int,
    pace: float | None = None,
    beside: int | None = None,
) -> dict[str, Any]:
    """beside: the database's first process, whose processor time is to be known too."""
    with tempfile.TemporaryDirectory(prefix="privquant-load-") as folder:
        data = Path(folder)
        ports = {"port": free_port(), "admin_port": free_port()}
        settings = Settings(data=data / "data", database=database, workers=workers, **ports)
        server = ServerProcess(settings, log=data / "log")
        token = asyncio.run(operator_token(settings))
        server.start()
        try:
            form = {
                "measurement": "load",
                "question": "How much?",
                "domain": {"kind": "integers", "low": "0", "high": str(TOP)},
                "epsilon": 1.0,
                "planned_users": devices,
            } | ({} if pace is None else {"pace": pace})
            campaign = server.call("POST", "/v1/campaigns", form, token=token)["id"]
            write_tokens(server, campaign, token, devices, data / "tokens")
            program = str(build(data))
            usage = Usage(server.pid)
            pids = [server.pid] + ([] if beside is None else [beside])
            used = [cpu_seconds(pid) for pid in pids]
            usage.start()
            where = [str(settings.port), campaign, str(data / "tokens"), str(connections), str(TOP)]
            found: dict[str, Any] = json.loads(
                subprocess.run([program, *where], check=True, stdout=subprocess.PIPE).stdout
            )
            usage.going = False
            usage.join()
            spent = [round(cpu_seconds(pid) - before, 2) for pid, before in zip(pids, used, strict=True)]
            found |= dict(zip(("server_cpu_seconds", "database_cpu_seconds"), spent, strict=False))
            quarter = usage.memory[len(usage.memory) // 4]
            found["server_memory_mb"] = {"quarter": quarter, "end": usage.memory[-1], "max": max(usage.memory)}
            found |= groups(server.call("GET", "/metrics"))
            server.kill()
            found["restart_seconds"] = round(server.start(), 2)
            server.call("POST", f"/v1/campaigns/{campaign}/close", token=token)
            began = time.perf_counter()
            verified = server.call("GET", f"/v1/campaigns/{campaign}/verify", token=token)
            found["verify_seconds"] = round(time.perf_counter() - began, 2)
            found |= {"verify_ok": verified["ok"], "reports": verified["reports"]}
            estimate = verified["estimates"][0]["value"]
            found["rank_error"] = abs((estimate + 1) / (TOP + 1) - 0.5)
            shown = server.call("GET", f"/v1/campaigns/{campaign}", token=token)
            found["thresholds"] = shown["thresholds"]
        finally:
            server.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=200_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--database", default="")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--pace", type=float, help="0 for none; the service's default unless given")
    given = parser.parse_args()
    found = measure(given.devices, given.connections, given.database, given.workers, given.pace)
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

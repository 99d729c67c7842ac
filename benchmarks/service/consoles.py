"""What consoles cost: devices a second, and per second of the server's processor time, without and with them.

    python benchmarks/service/consoles.py --consoles 200 --devices 8000 --turns 8

One server on SQLite, one campaign, one run: turns of the load generator (load.py) without and with that many
consoles open on the campaign it loads, in the order a b b a b a a b ..., so that neither a growing campaign nor a
busy machine favours one of them. The consoles are connections of another process that read the stream of events as
a page does. Prints JSON; everything is removed afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
from load import TOP, build, operator_token, write_tokens

from privquant.aggregator.settings import Settings
from privquant.server.process import ServerProcess, free_port


async def watch(port: int, campaign: str, token: str, consoles: int) -> None:
    """Keep so many streams open until standard input ends; then say what came."""
    heard = [0, 0]
    first = asyncio.Semaphore(0)
    asked = f"GET /v1/campaigns/{campaign}/live HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"

    async def console() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(asked.encode())
        await reader.readuntil(b"event: picture")
        first.release()
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                heard[0] += data.count(b"event: picture")
                heard[1] += len(data)

    tasks = [asyncio.create_task(console()) for _ in range(consoles)]
    for _ in tasks:
        await first.acquire()
    heard[:] = [0, 0]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps({"pictures": heard[0], "megabytes": round(heard[1] / 1e6, 1)}))


class Consoles:
    """The watching process."""

    def __init__(self, settings: Settings, campaign: str, token: str, consoles: int) -> None:
        where = [str(settings.admin_port), campaign, token, str(consoles)]
        command = [sys.executable, __file__, "--watch", *where]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"  # all are connected and have their first picture

    def close(self) -> dict[str, Any]:
        said, _ = self._process.communicate()
        return dict(json.loads(said))


def measure(consoles: int, devices: int, turns: int, connections: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="privquant-consoles-") as folder:
        data = Path(folder)
        settings = Settings(data=data / "data", port=free_port(), admin_port=free_port())
        server = ServerProcess(settings, log=data / "log")
        token = asyncio.run(operator_token(settings))
        server.start()
        try:
            form = {
                "measurement": "load",
                "question": "How much?",
                "domain": {"kind": "integers", "low": "0", "high": str(TOP)},
                "epsilon": 1.0,
                "planned_users": 10 * devices * turns,
            }
            campaign = server.call("POST", "/v1/campaigns", form, token=token)["id"]
            program = str(build(data))
            watched_turns = [(turn ^ turn >> 1 ^ turn >> 2) & 1 == 1 for turn in range(turns)]  # a b b a b a a b
            rows = []
            for watched in watched_turns:
                write_tokens(server, campaign, token, devices, data / "tokens")
                watchers = Consoles(settings, campaign, token, consoles) if watched else None
                process = psutil.Process(server.pid)  # not its child, which computes the pictures and yields to it
                used = sum(process.cpu_times()[:2])
                where = [str(settings.port), campaign, str(data / "tokens"), str(connections), str(TOP)]
                found = json.loads(subprocess.run([program, *where], check=True, stdout=subprocess.PIPE).stdout)
                spent = sum(process.cpu_times()[:2]) - used
                row = {"consoles": consoles if watched else 0, "cpu_seconds": round(spent, 2), **found}
                rows.append(row | ({} if watchers is None else watchers.close()))
                print(json.dumps(rows[-1]), file=sys.stderr)
        finally:
            server.stop()
    return summary(rows, devices)


def summary(rows: list[dict[str, Any]], devices: int) -> dict[str, Any]:
    """Medians over the turns of each kind, and the share that consoles take."""

    def median(watched: bool, value: Any) -> float:
        return statistics.median(value(row) for row in rows if bool(row["consoles"]) == watched)

    speed = [median(watched, lambda row: row["devices_per_second"]) for watched in (False, True)]
    each = [median(watched, lambda row: devices / row["cpu_seconds"]) for watched in (False, True)]
    return {
        "turns": len(rows),
        "devices_per_second": {"without": round(speed[0]), "with": round(speed[1])},
        "devices_per_cpu_second": {"without": round(each[0]), "with": round(each[1])},
        "lost_per_second": round(1 - speed[1] / speed[0], 3),
        "lost_per_cpu_second": round(1 - each[1] / each[0], 3),
        "pictures": sum(row.get("pictures", 0) for row in rows),
        "megabytes": round(sum(row.get("megabytes", 0) for row in rows), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--consoles", type=int, default=200)
    parser.add_argument("--devices", type=int, default=8_000)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--watch", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.watch is not None:
        port, campaign, token, consoles = given.watch
        asyncio.run(watch(int(port), campaign, token, int(consoles)))
        return
    json.dump(measure(given.consoles, given.devices, given.turns, given.connections), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

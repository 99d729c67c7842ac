"""Who means harm, as a process of its own, so that its work is not the honest devices' generator's.

    python abuser.py PORT MODE CAMPAIGN CONNECTIONS

Runs until it is killed. Prints a line when all its connections are open, and one for every answer it gets.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from privquant import wire

BATCH = 10_000


def forged_batch() -> bytes:
    """As many reports as a batch may have, each well formed, none with a ticket that was ever given."""
    reports = [{"token": wire.token_from_bytes(os.urandom(16)), "ticket": "A" * 40, "bit": 1} for _ in range(BATCH)]
    return json.dumps({"reports": reports}).encode()


def head(path: str, length: int) -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n".encode()


async def batches(port: int, campaign: str) -> None:
    """Forged batches, one after the other, as quickly as they are answered."""
    body = forged_batch()
    request = head(wire.path_of(campaign, "reports:batch"), len(body)) + body
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while True:
                writer.write(request)
                await writer.drain()
                lines = await reader.readuntil(b"\r\n\r\n")
                status = lines.split()[1].decode()
                length = int(lines.lower().partition(b"content-length:")[2].split()[0])
                await reader.readexactly(length)
                print(status, flush=True)
        except (OSError, asyncio.IncompleteReadError):
            print("cut", flush=True)


async def slow(port: int, campaign: str) -> None:
    """Nearly the whole of a large body, and then a byte a second."""
    size = wire.MAX_BATCH_REQUEST
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head(wire.path_of(campaign, "reports:batch"), size))
            writer.write(b" " * (size - 100))
            await writer.drain()
            for _ in range(100):
                await asyncio.sleep(1)
                writer.write(b" ")
                await writer.drain()
        except OSError:
            print("cut", flush=True)
            await asyncio.sleep(0.2)


async def main(port: int, mode: str, campaign: str, connections: int) -> None:
    work = {"batches": batches, "slow": slow}[mode]
    tasks = [asyncio.create_task(work(port, campaign)) for _ in range(connections)]
    print("begun", flush=True)
    await asyncio.gather(*tasks)


@contextmanager
def abuse(port: int, mode: str, campaign: str, connections: int, log: Path) -> Iterator[int]:
    """It goes on for the length of a block, which is told its process id; what it was answered is in `log`."""
    command = [sys.executable, __file__, str(port), mode, campaign, str(connections)]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out)
    try:
        while not log.read_bytes():
            if process.poll() is not None:
                raise AssertionError("the abuser ended")
        yield process.pid
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))

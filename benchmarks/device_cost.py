"""What an answer costs the device: processor time, syncs and bytes, beside the bare requests without a device.

    python benchmarks/device_cost.py [--devices 1000]

The same three requests are made twice against one real aggregator over one kept connection each: by the shipped
device with a ledger of its own for every answer, and by http.client alone. Processor time of this process only.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from privquant import wire
from privquant.aggregator.operators.accounts import add_operator
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.migrate import opened
from privquant.device import Device, Policy, Rule, Transport, ledger
from privquant.domain import Integers
from privquant.server.process import ServerProcess, free_port

BLOCK = 50
FORM = {
    "measurement": "commute",
    "question": "How long is your way to work, in minutes?",
    "domain": {"kind": "integers", "low": "0", "high": "999"},
    "epsilon": 1.0,
}


async def operator(settings: Settings) -> str:
    async with opened(settings) as engine:
        return await add_operator(engine, "bench")


def side_by_side(invites: list[str], ways: list[Callable[[int, str], None]]) -> list[float]:
    """Milliseconds of processor an answer, each way: the median over blocks that take turns."""
    found: list[list[float]] = [[] for _ in ways]
    for start in range(0, len(invites) - BLOCK + 1, BLOCK):
        way = start // BLOCK % len(ways)
        began = time.process_time()
        for number in range(start, start + BLOCK):
            ways[way](number, invites[number])
        found[way].append((time.process_time() - began) * 1000 / BLOCK)
    return [statistics.median(times) for times in found]


def by_device(folder: Path, transport: Transport) -> Callable[[int, str], None]:
    policy = Policy({"commute": Rule(Integers(0, 999), 1)})

    def answer(number: int, invite: str) -> None:
        Device(policy, ledger=folder / f"{number}", transport=transport).answer(invite, number % 1000)

    return answer


def by_hand(settings: Settings) -> Callable[[int, str], None]:
    connection = http.client.HTTPConnection(settings.host, settings.port)

    def request(method: str, path: str, body: bytes | None = None) -> bytes:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return connection.getresponse().read()

    def answer(number: int, text: str) -> None:
        invite = wire.Invite.parse(text)
        token, campaign = str(invite.token), invite.campaign_id
        request("GET", wire.path_of(campaign, "manifest"))
        ticket = wire.Ticket.parse(request("POST", wire.path_of(campaign, "query"), wire.query_request(token)))
        report = wire.WireReport(token, ticket.ticket, number % 2)
        wire.COUNTED.parse(request("POST", wire.path_of(campaign, "reports"), report.to_bytes()))

    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--devices", type=int, default=1000)
    count = parser.parse_args().devices
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(data=folder / "data", port=free_port(), admin_port=free_port())
        server = ServerProcess(settings, log=folder / "log")
        token = asyncio.run(operator(settings))
        server.start()
        try:
            campaign = server.call("POST", "/v1/campaigns", FORM | {"planned_users": 4 * count}, token=token)["id"]
            path = f"/v1/campaigns/{campaign}/invites"
            lines = server.call("POST", path, {"count": 2 * count}, token=token).splitlines()[1:]
            syncs = [0]

            class Counting:
                def __getattr__(self, wanted: str) -> object:
                    syncs[0] += wanted == "fsync"
                    return getattr(os, wanted)

            ledger.os = Counting()  # type: ignore[attr-defined]
            ledgers = folder / "ledgers"
            ledgers.mkdir()
            with Transport() as transport:
                device, hand = side_by_side(lines, [by_device(ledgers, transport), by_hand(settings)])
        finally:
            server.stop()
        sizes = [file.stat().st_size for file in ledgers.iterdir()]
    print(f"device      {device:6.2f} ms of processor an answer")
    print(f"bare HTTP   {hand:6.2f} ms of processor an answer")
    print(f"ratio       {device / hand:6.2f}")
    print(f"an answer   {syncs[0] / len(sizes):.2f} syncs, {sum(sizes) / len(sizes):.0f} bytes of ledger")


if __name__ == "__main__":
    main()

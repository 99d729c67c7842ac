"""Many devices at once, as far as the server can tell: bare HTTP over kept connections, any fault on demand.

The device's own code is tested elsewhere; here speed counts, and being able to do what no honest device does.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from privquant import wire


class Connection:
    """One kept-open HTTP/1.1 connection; opened again after any failure."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: bytes = b"", extra: str = "") -> tuple[int, bytes]:
        """(status, body). Raises OSError when the connection fails on the way."""
        try:
            return await asyncio.wait_for(self._request(method, path, body, extra), 30)
        except (OSError, asyncio.IncompleteReadError, ValueError, TimeoutError) as error:
            self.close()
            raise ConnectionError(type(error).__name__) from error

    async def _request(self, method: str, path: str, body: bytes, extra: str) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._address)
        reader, writer = self._streams
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        status, length, closing = int(lines[0].split()[1]), 0, False
        for line in lines[1:]:
            name, _, value = line.lower().partition(b":")
            if name == b"content-length":
                length = int(value)
            closing |= name == b"connection" and b"close" in value
        found = await reader.readexactly(length)
        if closing:
            self.close()
        return status, found

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass
class Tally:
    """What the devices know: which reports were acknowledged, which were sent without an answer so far."""

    acknowledged: dict[str, tuple[int, int]] = field(default_factory=dict)
    pending: dict[str, tuple[int, int]] = field(default_factory=dict)
    statuses: Counter[int] = field(default_factory=Counter)
    replays: int = 0
    recounted: int = 0  # replays of acknowledged reports that the server took for new
    failures: int = 0


class Fleet:
    """Devices that each hold a token and answer once, in `width` at a time, resending until acknowledged."""

    def __init__(
        self, host: str, port: int, campaign: str, tokens: list[str], *, seed: int = 1, headers: str = ""
    ) -> None:
        self._address = (host, port)
        self._campaign = campaign
        self._tokens = list(tokens)
        self._random = random.Random(seed)
        self._headers = headers
        self.tally = Tally()
        self.stopping = False

    async def run(self, width: int = 32, *, replays: float = 0.02, rate_of_ones: float = 0.5) -> Tally:
        """Until all tokens are used or `stopping` is set."""
        await asyncio.gather(*[self._devices(replays, rate_of_ones) for _ in range(width)])
        return self.tally

    async def _devices(self, replays: float, rate_of_ones: float) -> None:
        line = Connection(*self._address)
        sent: list[bytes] = []
        while self._tokens and not self.stopping:
            token = self._tokens.pop()
            answer = await self._until_final(line, "query", wire.query_request(token))
            if answer is None:
                break
            assert answer[0] == 200, answer
            ticket = wire.Ticket.parse(answer[1])
            bit = int(self._random.random() < rate_of_ones)
            report = wire.WireReport(token, ticket.ticket, bit).to_bytes()
            self.tally.pending[token] = (ticket.threshold, bit)
            answer = await self._until_final(line, "reports", report)
            if answer is None:
                break
            assert answer[0] in (200, 201), answer
            self.tally.acknowledged[token] = self.tally.pending.pop(token)
            sent.append(report)
            if self._random.random() < replays:
                self.tally.replays += 1
                again = await self._until_final(line, "reports", self._random.choice(sent))
                assert again is None or again[0] in (200, 201), again
                self.tally.recounted += again is not None and again[0] == 201
        line.close()

    async def _until_final(self, line: Connection, route: str, body: bytes) -> tuple[int, bytes] | None:
        """Send until there is a final answer; None when told to stop before there was one."""
        while True:
            try:
                path = wire.path_of(self._campaign, route)
                status, found = await line.request("POST", path, body, self._headers)
            except ConnectionError:
                self.tally.failures += 1
                status, found = 0, b""
            self.tally.statuses[status] += 1
            if status not in (0, 425, 503):
                return status, found
            if self.stopping:
                return None
            await asyncio.sleep(0.02 + 0.05 * self._random.random())


def per_answer(reports: dict[str, tuple[int, int]]) -> Counter[tuple[int, int]]:
    """How many reports there are per (threshold, bit)."""
    return Counter(reports.values())


def tokens_of(csv: str) -> list[str]:
    return [str(wire.Invite.parse(line).token) for line in csv.splitlines()[1:]]


def campaign_form(**changes: Any) -> dict[str, Any]:
    return {
        "measurement": "commute-minutes",
        "question": "How long is your way to work, in minutes?",
        "domain": {"kind": "integers", "low": "0", "high": "999"},
        "epsilon": 1.0,
        "planned_users": 100_000,
    } | changes

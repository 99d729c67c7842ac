"""Both servers of the shuffle model as processes, campaigns between them, and many bare devices at once.

The device's own code is tested elsewhere; here speed counts, and being able to do what no honest device does.
"""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet import Connection, campaign_form, tokens_of
from scene import Scene

from privquant import wire
from privquant.server.keys import KeyFolder
from privquant.server.process import ServerProcess, free_port
from privquant.shuffler.campaigns import check_manifest, find, invite, join, read_manifest, shown
from privquant.shuffler.settings import Settings
from privquant.shuffler.store import opened


class Parties:
    """An aggregator (`scene`) and a shuffler, each with its own folder, key and database."""

    def __init__(
        self, folder: Path, *, command: tuple[str, ...] | None = None, database: str = "", **changes: Any
    ) -> None:
        """database: of the aggregator, in PostgreSQL; SQLite without."""
        self.folder = folder
        (folder / "aggregator-side").mkdir(parents=True, exist_ok=True)
        self.scene = Scene(folder / "aggregator-side", database)
        port = free_port()
        self.settings = Settings(data=folder / "shuffler", port=port, retry_seconds=1, **changes)
        more = {} if command is None else {"command": command}
        self.shuffler = ServerProcess(self.settings, log=folder / "shuffler.log", **more)
        self.keys = KeyFolder(self.settings.keys)
        self.aggregator = self.scene.server.url  # what the shuffler is told; a test may put a wiretap there

    def start(self) -> None:
        self.scene.server.start()
        self.shuffler.start()

    def kill(self) -> None:
        self.shuffler.kill()
        self.scene.server.kill()

    def form(self, **changes: Any) -> dict[str, Any]:
        """A small campaign whose coins are better than the plain local one."""
        shuffle = {
            "delta": 1e-4,
            "address": self.settings.url,
            "key": wire.public_key_of(self.keys.current),
        } | changes.pop("shuffle", {})
        return campaign_form(planned_users=1_400, shuffle=shuffle) | changes

    def create(self, **changes: Any) -> dict[str, Any]:
        return dict(self.scene.call("POST", "/v1/campaigns", self.form(**changes)))

    def campaign(self, *, round_seconds: int = 600, **changes: Any) -> wire.Manifest:
        """A campaign that both parties have agreed to."""
        made = self.create(**changes)
        return self.join(made["id"], made["key_fingerprint"], round_seconds)

    def join(self, identity: str, mark: str, round_seconds: int = 600) -> wire.Manifest:
        status, envelope = asyncio.run(
            Connection("127.0.0.1", self.scene.settings.port).request("GET", wire.path_of(identity, "manifest"))
        )
        assert status == 200
        manifest = read_manifest(envelope, campaign_id=identity, key_fingerprint=mark)
        check_manifest(manifest, self.keys.current, self.settings.url)
        with opened(self.settings.file) as db:
            join(
                db,
                envelope,
                manifest,
                self.keys.current,
                aggregator=self.aggregator,
                round_seconds=round_seconds,
            )
        return manifest

    def tokens(self, campaign: str, count: int) -> list[str]:
        with opened(self.settings.file) as db:
            urls = invite(db, self.keys, find(db, campaign), count)
        return tokens_of("invite\n" + "\n".join(urls))

    def books(self, campaign: str) -> dict[str, Any]:
        """What the shuffler's operator is shown."""
        with opened(self.settings.file) as db:
            return shown(db, find(db, campaign))

    def shown(self, campaign: str) -> dict[str, Any]:
        return dict(self.scene.call("GET", f"/v1/campaigns/{campaign}"))

    def verified(self, campaign: str) -> dict[str, Any]:
        return dict(self.scene.call("GET", f"/v1/campaigns/{campaign}/verify"))

    def query(self, statement: str, *values: object) -> list[Any]:
        db = sqlite3.connect(self.settings.file)
        try:
            return db.execute(statement, values).fetchall()
        finally:
            db.close()

    def until(self, condition: Any, seconds: float = 30.0) -> None:
        """Wait until something is so."""
        ends = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < ends, f"still not so after {seconds:g} s"
            time.sleep(0.05)


@dataclass
class Sent:
    """What a device knows of its report."""

    round: int
    threshold: int
    bit: int
    sealed: bytes
    acknowledged: bool = False


@dataclass
class Sealing:
    """Devices that each hold a token and answer once, `width` at a time, resending until they know the end."""

    parties: Parties
    manifest: wire.Manifest
    tokens: list[str]
    seed: int = 1
    headers: str = ""
    sent: dict[str, Sent] = field(default_factory=dict)
    late: int = 0  # reports that found their round closed
    failures: int = 0
    replays: int = 0
    retaken: int = 0  # replays of acknowledged reports that the shuffler took for new
    stopping: bool = False
    order: list[bytes] = field(default_factory=list)  # sealed bytes as they were acknowledged

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._waiting = list(self.tokens)

    async def run(self, width: int = 24, *, replays: float = 0.0, rate_of_ones: float = 0.5) -> None:
        """Until all tokens are used, the campaign is complete, or `stopping` is set."""
        await asyncio.gather(*[self._devices(replays, rate_of_ones) for _ in range(width)])

    async def _devices(self, replays: float, rate_of_ones: float) -> None:
        line = Connection("127.0.0.1", self.parties.settings.port)
        mine: list[bytes] = []
        while self._waiting and not self.stopping:
            token = self._waiting.pop()
            answer = await self._until_final(line, "query", wire.query_request(token))
            if answer is None or answer[0] == 410:
                continue
            assert answer[0] == 200, answer
            found = wire.RoundAnswer.parse(answer[1], self.manifest).announcement
            report = self._sealed(token, found, int(self._random.random() < rate_of_ones))
            answer = await self._until_final(line, "reports", report)
            if answer is None:
                continue
            if answer[0] == 410:
                self.late += 1
                continue
            assert answer[0] in (200, 201), answer
            self.sent[token].acknowledged = True
            self.order.append(self.sent[token].sealed)
            mine.append(report)
            if self._random.random() < replays:
                self.replays += 1
                again = await self._until_final(line, "reports", self._random.choice(mine))
                assert again is None or again[0] in (200, 201), again
                self.retaken += again is not None and again[0] == 201
        line.close()

    def _sealed(self, token: str, found: wire.Announcement, bit: int) -> bytes:
        assert self.manifest.shuffle is not None
        coin = self.manifest.shuffle.rounds[found.round].coin
        info = wire.report_info(self.manifest.id, found.round, found.threshold, coin)
        sealed = wire.seal(bit, self.manifest.shuffle.seal, info)
        self.sent[token] = Sent(found.round, found.threshold, bit, sealed)
        return wire.SealedReport(token, found.round, sealed).to_bytes()

    async def _until_final(self, line: Connection, route: str, body: bytes) -> tuple[int, bytes] | None:
        path = wire.path_of(self.manifest.id, route)
        while True:
            try:
                status, found = await line.request("POST", path, body, self.headers)
            except ConnectionError:
                self.failures += 1
                status, found = 0, b""
            if status not in (0, 425, 503):
                return status, found
            if self.stopping:
                return None
            await asyncio.sleep(0.02 + 0.03 * self._random.random())

    @property
    def acknowledged(self) -> list[Sent]:
        return [each for each in self.sent.values() if each.acknowledged]

"""A server with an operator, campaigns and a look into its store: what most tests of the service start from."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from fleet import Tally, campaign_form, per_answer, tokens_of
from sqlalchemy import select

from privquant import wire
from privquant.aggregator.devices.campaign_cache import Tickets
from privquant.aggregator.operators.accounts import add_operator
from privquant.aggregator.settings import Settings
from privquant.aggregator.store import schema
from privquant.aggregator.store.migrate import open_engine, opened
from privquant.aggregator.store.operator_queries import find_campaign, reading
from privquant.domain import Integers
from privquant.privacy.coin import flip_threshold
from privquant.server.http_client import OperatorClient
from privquant.server.keys import KeyFolder
from privquant.server.process import ServerProcess, free_port


def manifest(**changes: Any) -> wire.Manifest:
    """A manifest that only a test could publish; its coin is that of its epsilon."""
    form = {
        "measurement": "pay.2026",
        "question": "How much?",
        "domain": Integers(0, 999),
        "quantiles": (0.5,),
        "epsilon": 1.0,
        "protocol": "isotonic",
        "options": (),
        "interval": None,
        "planned_users": 500,
        "waves": wire.Waves(),
        "opens": 0,
        "deadline": 2**53 - 1,
        "issuer": "0" * 64,
        "nonce": "0" * 32,
    }
    form |= changes
    return wire.Manifest(**form, flip_threshold=flip_threshold(form["epsilon"]))


@dataclasses.dataclass
class Stored:
    """What the store itself says about a campaign."""

    spent: set[bytes]
    pinned: set[bytes]
    answers: Counter[tuple[int, int]]
    counted: int


PAGE = 4_096


def damage(file: Path, table: str) -> None:
    """Overwrite the first page of one table."""
    with sqlite3.connect(file) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("r+b") as raw:
        raw.seek((page - 1) * PAGE)
        raw.write(b"\xa5" * PAGE)


def address_of(server: ServerProcess, path: str) -> str:
    """The listener that serves this path."""
    public = wire.route_of(path) is not None or path.startswith("/c/")
    return server.url if public else server.admin_url


class Scene:
    """`database` empty for SQLite. The server is started by `start`, as often as wanted."""

    def __init__(self, folder: Path, database: str = "", **changes: Any) -> None:
        command = changes.pop("command", None)
        changes = {"port": free_port(), "admin_port": free_port()} | changes
        self.settings = Settings(data=folder / "data", database=database, **changes)
        more = {} if command is None else {"command": command}
        self.log = folder / "server.log"
        self.server = ServerProcess(self.settings, log=self.log, **more)
        self.token = asyncio.run(self._operator())

    async def _operator(self) -> str:
        async with opened(self.settings) as engine:
            return await add_operator(engine, "tester")

    def call(self, method: str, path: str, form: Any = None) -> Any:
        return self.server.call(method, path, form, token=self.token)

    def campaign(self, **changes: Any) -> str:
        return str(self.call("POST", "/v1/campaigns", campaign_form(**changes))["id"])

    def tokens(self, campaign: str, count: int) -> list[str]:
        found: list[str] = []
        while len(found) < count:
            form = {"count": min(100_000, count - len(found))}
            found += tokens_of(self.call("POST", f"/v1/campaigns/{campaign}/invites", form))
        return found

    def tickets(self, campaign: str) -> Tickets:
        envelope = OperatorClient(self.server.url).call("GET", wire.path_of(campaign, "manifest"))
        manifest = wire.Manifest.from_dict(envelope["manifest"])
        secret = KeyFolder(self.settings.keys).campaign_secret(manifest.issuer, campaign)
        return Tickets(secret, manifest.flip_threshold)

    def stored(self, campaign: str) -> Stored:
        return asyncio.run(self._stored(campaign))

    async def _stored(self, campaign: str) -> Stored:
        engine = open_engine(self.settings)
        answers: Counter[tuple[int, int]] = Counter()
        counted = 0
        try:
            async with reading(engine) as db:
                number = (await find_campaign(db, campaign))[0].no

                async def rows(table: Any, *names: str) -> Any:
                    columns = [table.c[name] for name in names]
                    return (await db.execute(select(*columns).where(table.c.campaign == number))).all()

                spent = {bytes(row[0]) for row in await rows(schema.spent, "id")}
                pinned = {bytes(row[0]) for row in await rows(schema.pin, "id")}
                for table in (schema.log, schema.tail):
                    answers.update((t, b) for t, b in await rows(table, "threshold", "bit"))
                counted = sum(row[0] for row in await rows(schema.count, "answered"))
                counted += len(await rows(schema.tail, "no"))
        finally:
            await engine.dispose()
        return Stored(spent, pinned, answers, counted)

    def audit(self, campaign: str, tally: Tally) -> dict[str, int]:
        """Compare what devices know with what the store has. All three differences are 0 if all is well."""
        tickets, stored = self.tickets(campaign), self.stored(campaign)

        def at_rest(token: str) -> bytes:
            return tickets.id(bytes.fromhex(wire.token_hash(token)))

        acknowledged = {at_rest(token) for token in tally.acknowledged}
        least = per_answer(tally.acknowledged)
        most = least + per_answer(tally.pending)
        rows = sum(stored.answers.values())
        return {
            "acknowledged": len(acknowledged),
            "lost": len(acknowledged - stored.spent),
            "doubled": max(0, rows - len(stored.spent)) + sum((stored.answers - most).values()),
            "missing": sum((least - stored.answers).values()),
            "uncounted": abs(stored.counted - rows),
        }

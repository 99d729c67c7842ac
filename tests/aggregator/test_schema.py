"""Upgrade and rollback: older tables are upgraded, newer ones refused in words, and both can be turned back."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from test_service_commands import out, privquant

from privquant.aggregator.campaign.campaigns import Campaigns
from privquant.aggregator.campaign.mode import Draft
from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.base import Spend
from privquant.aggregator.store.migrate import HEAD, SchemaTooNew, migrate, open_engine, schema_of, turn_back
from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.server.keys import KeyFolder
from privquant.server.process import free_port


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_campaign_survives_the_way_back_and_forth(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Down to the first schema and up again; campaigns, reports and counts stay."""
    database = request.getfixturevalue("fresh_database") if store == "postgresql" else ""
    settings = Settings(data=tmp_path / "data", database=database)

    async def run() -> None:
        engine = open_engine(settings)
        assert (await schema_of(engine))[0] is None
        await migrate(engine)
        found, known = await schema_of(engine)
        assert (found, known[0], known[-1]) == (HEAD, "0001", HEAD)
        store = open_device_store(settings)
        campaigns = Campaigns(engine, store, KeyFolder(settings.keys), "http://127.0.0.1:1")
        draft = Draft("m", "?", Integers(0, 99), epsilon=1.0, planned_users=10)
        identity = await campaigns.create(draft, "tester")
        query = (await store.published(1)).queries[0][0]
        await store.commit([Spend(1, b"%d" % k, query, 1) for k in range(7)])
        await turn_back(engine, "0001")
        assert (await schema_of(engine))[0] == "0001"
        with pytest.raises(InvalidInput, match="turned back to nothing older"):
            await turn_back(engine, "0001")
        await migrate(engine)
        assert (await campaigns.verify(identity))["ok"]
        await campaigns.close(identity, "tester")
        assert (await campaigns.show(identity))["heard"] == 7
        await store.close()
        await engine.dispose()

    asyncio.run(run())


def test_tables_of_a_newer_version_are_refused_in_words(tmp_path: Path) -> None:
    data = tmp_path / "data"
    out(privquant("operator", "add", "ada", "--data", data))
    assert "which is this version's" in out(privquant("operator", "schema", "--data", data))

    def set_to(revision: str) -> None:
        with sqlite3.connect(data / "store.sqlite3") as db:
            db.execute("UPDATE alembic_version SET version_num = ?", (revision,))

    set_to("0999_later")
    looked = privquant("operator", "schema", "--data", data)
    assert (looked.returncode, "made by a newer version" in looked.stdout) == (1, True)
    for command in (("serve", "--port", free_port(), "--admin-port", free_port()), ("operator", "list")):
        done = privquant(*command, "--data", data)
        lines = [line for line in done.stderr.splitlines() if line.startswith("privquant: ")]
        assert (done.returncode, len(lines)) == (2, 1)
        assert "schema 0999_later, which this version does not know" in lines[0]

    async def start() -> Any:
        engine = open_engine(Settings(data=data))
        try:
            await migrate(engine)
        finally:
            await engine.dispose()

    with pytest.raises(SchemaTooNew, match="start that one, or turn them back"):
        asyncio.run(start())
    set_to(HEAD)
    back = privquant("operator", "schema", "--to", "0001", "--yes", "--data", data)
    assert (back.returncode, "its start upgrades them" in back.stdout) == (1, True)
    wrong = privquant("operator", "schema", "--to", HEAD, "--yes", "--data", data)
    assert (wrong.returncode, "turned back to nothing older" in wrong.stderr) == (2, True)
    assert "ada" in out(privquant("operator", "list", "--data", data))  # a command upgrades them too

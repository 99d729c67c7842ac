"""What `delete` leaves on disk: the ids of a deleted campaign are looked for in every file of the database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import typer
from fleet import Fleet
from postgres_cluster import PostgresCluster
from scene import Scene

from privquant import wire
from privquant.aggregator.store.postgres_erase import TABLES, rewrite

PEOPLE = 300
SAMPLES = "pg_toast.pg_toast_2619"  # where the planner's statistics keep samples of a column


def sql(database: str, *statements: str) -> Any:
    """Run them; the value of the last."""

    async def run() -> Any:
        db = await asyncpg.connect(database)
        try:
            for statement in statements[:-1]:
                await db.execute(statement)
            return await db.fetchval(statements[-1])
        finally:
            await db.close()

    return asyncio.run(run())


@pytest.fixture
def on_postgres(tmp_path: Path, fresh_database: str) -> Iterator[Scene]:
    scene = Scene(tmp_path, fresh_database)
    scene.server.start()
    yield scene
    scene.server.kill()


def answered(scene: Scene) -> tuple[str, list[bytes]]:
    """A campaign that some answered, and the ids at rest of all its tokens."""
    campaign = scene.campaign()
    tokens = scene.tokens(campaign, PEOPLE)
    asyncio.run(Fleet("127.0.0.1", scene.settings.port, campaign, tokens[: PEOPLE * 2 // 3]).run(8))
    tickets = scene.tickets(campaign)
    return campaign, [tickets.id(bytes.fromhex(wire.token_hash(token))) for token in tokens]


def files_of(cluster: PostgresCluster, database: str) -> dict[str, bytes]:
    """Every file of a database as it lies on disk: tables, indexes, catalogs."""
    number = sql(database, "CHECKPOINT", "SELECT oid FROM pg_database WHERE datname = current_database()")
    folder = cluster.folder / "base" / str(number)
    return {place.name: place.read_bytes() for place in folder.iterdir() if place.is_file()}


def holding(files: dict[str, bytes], ids: list[bytes]) -> set[str]:
    return {name for name, data in files.items() if any(each in data for each in ids)}


def path_of(database: str, relation: str) -> str:
    return str(sql(database, f"SELECT pg_relation_filenode('{relation}')"))


def test_a_deleted_campaign_is_in_no_file_of_the_database(
    on_postgres: Scene, postgres: PostgresCluster, fresh_database: str
) -> None:
    scene = on_postgres
    gone, ids = answered(scene)
    stays, others = answered(scene)
    sql(fresh_database, "ANALYZE token", "ANALYZE spent", "SELECT 1")
    before = holding(files_of(postgres, fresh_database), ids)
    for relation in ("token", "token_pkey", "spent", "spent_pkey", SAMPLES):
        assert path_of(fresh_database, relation) in before  # the scan finds what is there
    scene.call("POST", f"/v1/campaigns/{gone}/close")
    found = scene.call("DELETE", f"/v1/campaigns/{gone}")
    assert (found["id"], found["erased"]) == (gone, True)
    assert "write-ahead log" in found["left"]
    assert "backups" in found["left"]
    after = files_of(postgres, fresh_database)
    assert holding(after, ids) == set()
    assert holding(after, [gone.encode()]) == {
        path_of(fresh_database, "audit")
    }  # which remembers that it was deleted
    assert path_of(fresh_database, "spent_pkey") in holding(after, others)
    assert scene.call("GET", f"/v1/campaigns/{stays}/verify")["ok"]
    sql(fresh_database, "ANALYZE token", "ANALYZE spent", "SELECT 1")
    assert path_of(fresh_database, SAMPLES) not in holding(files_of(postgres, fresh_database), others)
    token = scene.tokens(stays, 1)
    asyncio.run(Fleet("127.0.0.1", scene.settings.port, stays, token).run(1))  # devices go on
    assert scene.stored(stays).counted == PEOPLE * 2 // 3 + 1


def test_a_plain_vacuum_would_leave_it_there(
    on_postgres: Scene, postgres: PostgresCluster, fresh_database: str
) -> None:
    """The twin: what the store did before is found out by the same scan."""
    scene = on_postgres
    _, ids = answered(scene)
    answered(scene)  # rows behind those that are deleted, or the file would be cut short
    erase = [f"DELETE FROM {table} WHERE campaign = 1" for table in ("token", "spent", "pin")]
    sql(fresh_database, *erase, "VACUUM token", "VACUUM spent", "VACUUM pin", "SELECT 1")
    left = holding(files_of(postgres, fresh_database), ids)
    assert {path_of(fresh_database, "token"), path_of(fresh_database, "spent")} <= left


def test_an_older_transaction_that_keeps_the_rows_is_said(
    on_postgres: Scene, postgres: PostgresCluster, fresh_database: str
) -> None:
    scene = on_postgres
    campaign, ids = answered(scene)
    scene.call("POST", f"/v1/campaigns/{campaign}/close")

    async def run() -> tuple[tuple[str, ...], tuple[str, ...]]:
        reader = await asyncpg.connect(fresh_database)
        writer = await asyncpg.connect(fresh_database)
        await reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await reader.fetchval("SELECT count(*) FROM operator")
        await writer.execute("DELETE FROM spent")
        held = await rewrite(fresh_database, TABLES, 0.5)
        await reader.execute("COMMIT")
        free = await rewrite(fresh_database, TABLES, 20.0)
        await reader.close()
        await writer.close()
        return held, free

    held, free = asyncio.run(run())
    assert "spent" in held
    assert free == ()
    assert path_of(fresh_database, "spent") not in holding(files_of(postgres, fresh_database), ids)


def test_on_sqlite_too(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.server.start()
    try:
        gone, ids = answered(scene)
        stays, others = answered(scene)
        scene.call("POST", f"/v1/campaigns/{gone}/close")
        places = list(scene.settings.data.glob("store.sqlite3*"))
        assert holding({place.name: place.read_bytes() for place in places}, ids)
        found = scene.call("DELETE", f"/v1/campaigns/{gone}")
        assert found["erased"]
        assert "backups" in found["left"]
        files = {place.name: place.read_bytes() for place in scene.settings.data.glob("store.sqlite3*")}
        assert holding(files, ids) == set()
        assert holding(files, others)
        assert scene.call("GET", f"/v1/campaigns/{stays}/verify")["ok"]
    finally:
        scene.server.kill()


def test_the_command_does_not_say_erased_when_it_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from privquant.cli import campaign

    answers = {"GET": {"state": "closed"}, "DELETE": {"erased": False, "left": "bytes may remain"}}
    monkeypatch.setattr(campaign, "call", lambda _server, method, _path: answers[method])
    monkeypatch.setattr(campaign, "_whole", lambda _server, identity: identity)
    with pytest.raises(typer.Exit) as end:
        campaign.delete("ab", yes=True)
    assert end.value.exit_code == 1
    assert capsys.readouterr().err == "deleted, not erased: bytes may remain\n"


def test_a_user_who_does_not_own_the_database_is_told_what_is_left(fresh_database: str, tmp_path: Path) -> None:
    """The planner's samples are the owner's to rewrite; PostgreSQL skips them with a warning, and that is heard."""
    name = f"guest_{fresh_database.rpartition('_')[2]}"
    sql(fresh_database, f"CREATE ROLE {name} LOGIN", f"GRANT ALL ON SCHEMA public TO {name}", "SELECT 1")
    theirs = fresh_database.replace("//privquant@", f"//{name}@")
    Scene(tmp_path, theirs)  # makes the tables, as this user
    assert asyncio.run(rewrite(theirs, TABLES, 0.1)) == ("pg_catalog.pg_statistic",)
    assert asyncio.run(rewrite(fresh_database, TABLES, 0.1)) == ()

"""A shuffler restored from a backup: no round is forwarded in a second mixture, no token is taken twice."""

from __future__ import annotations

import asyncio
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from fleet import Connection
from parties import Parties, Sealing

from privquant import wire
from privquant.errors import InvalidInput
from privquant.shuffler.campaigns import backup, restore
from privquant.shuffler.store import opened


def answered(parties: Parties, manifest: wire.Manifest, tokens: list[str], seed: int) -> Sealing:
    fleet = Sealing(parties, manifest, tokens, seed=seed)
    asyncio.run(fleet.run(8))
    return fleet


def post(parties: Parties, campaign: str, route: str, body: bytes) -> tuple[int, bytes]:
    line = Connection("127.0.0.1", parties.settings.port)
    return asyncio.run(line.request("POST", wire.path_of(campaign, route), body))


def test_a_restored_shuffler_forwards_nothing_anew_and_takes_no_token_twice(tmp_path: Path) -> None:
    parties = Parties(tmp_path)
    parties.start()
    try:
        manifest = parties.campaign()
        first = manifest.shuffle.rounds[0].batch
        tokens = parties.tokens(manifest.id, manifest.planned_users)
        early, late = tokens[: first + 20], tokens[first + 20 :]
        before = answered(parties, manifest, early, seed=1)  # round 0 is forwarded, 20 reports wait in round 1
        parties.until(lambda: parties.books(manifest.id)["forwarded"] == first)
        copy = tmp_path / "copy"
        backup(parties.settings, copy)
        whole = b"".join(path.read_bytes() for path in copy.iterdir() if path.is_file())
        held = [each.sealed for each in before.acknowledged if each.round == 1]
        assert len(held) == 20
        assert not any(sealed in whole for sealed in held)
        assert stat.S_IMODE(copy.stat().st_mode) == 0o700
        assert stat.S_IMODE((copy / parties.settings.file.name).stat().st_mode) == 0o600

        after = answered(parties, manifest, late[:300], seed=2)  # what the copy does not know
        known = parties.books(manifest.id)
        parties.until(lambda: parties.shown(manifest.id)["shuffle"]["counted_rounds"] >= 2)
        counted = parties.verified(manifest.id)["rounds"]
        parties.shuffler.kill()
        shutil.move(parties.settings.data, tmp_path / "lost")
        restore(parties.settings, copy)
        parties.shuffler.start()

        books = parties.books(manifest.id)
        assert books["state"] == "closed"
        assert [row["state"] for row in books["rounds"]] == ["forwarded", "dropped"]
        assert books["rounds"][0]["batch"] == known["rounds"][0]["batch"]
        spent_since = next(token for token, sent in after.sent.items() if sent.acknowledged)
        for token in (spent_since, late[-1], early[0]):
            assert post(parties, manifest.id, "query", wire.query_request(token))[0] == 410
        sent = after.sent[spent_since]
        again = wire.SealedReport(spent_since, sent.round, sent.sealed).to_bytes()
        assert post(parties, manifest.id, "reports", again)[0] == 409
        assert parties.query("SELECT count(*) FROM held") == [(0,)]
        still = {row["round"]: row for row in parties.verified(manifest.id)["rounds"]}
        assert all(still[row["round"]] == row for row in counted if row["state"] == "counted")
        assert parties.verified(manifest.id)["ok"]
    finally:
        parties.kill()


def test_a_batch_that_lay_ready_is_forwarded_from_the_copy_under_its_id(tmp_path: Path) -> None:
    """The aggregator is away while the round fills; the copy has the batch and sends it when both are there."""
    parties = Parties(tmp_path)
    parties.start()
    try:
        manifest = parties.campaign()
        first = manifest.shuffle.rounds[0].batch
        tokens = parties.tokens(manifest.id, first)
        parties.until(lambda: parties.query("SELECT count(*) FROM round") == [(1,)])
        parties.scene.server.kill()
        answered(parties, manifest, tokens, seed=4)
        parties.until(lambda: parties.query("SELECT state FROM round") == [("closed",)])
        ((batch,),) = parties.query("SELECT batch FROM round")
        backup(parties.settings, tmp_path / "copy")
        parties.shuffler.kill()
        shutil.move(parties.settings.data, tmp_path / "lost")
        restore(parties.settings, tmp_path / "copy")
        parties.shuffler.start()
        parties.scene.server.start()
        parties.until(lambda: parties.shown(manifest.id)["heard"] == first)
        counted = [row for row in parties.verified(manifest.id)["rounds"] if row["state"] == "counted"]
        assert [(row["batch"], row["reports"]) for row in counted] == [(batch, first)]
    finally:
        parties.kill()


def test_what_is_no_backup_is_refused_and_nothing_half_made_is_left(tmp_path: Path) -> None:
    parties = Parties(tmp_path)
    parties.start()
    try:
        manifest = parties.campaign()
        parties.until(lambda: parties.query("SELECT count(*) FROM round") == [(1,)])
        assert parties.books(manifest.id)["state"] == "open"
    finally:
        parties.kill()
    settings, empty = parties.settings, replace(parties.settings, data=tmp_path / "new")
    with opened(settings.file) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    shutil.copytree(settings.data, tmp_path / "plain")
    with pytest.raises(InvalidInput, match="a plain copy of a shuffler that ran on"):
        restore(empty, tmp_path / "plain")
    with pytest.raises(InvalidInput, match="is not a backup of a shuffler"):
        restore(empty, tmp_path)
    backup(settings, tmp_path / "copy")
    with pytest.raises(InvalidInput, match="exists already"):
        backup(settings, tmp_path / "copy")
    with pytest.raises(InvalidInput, match="has a shuffler already"):
        restore(settings, tmp_path / "copy")
    whole = bytearray(settings.file.read_bytes())
    whole[4096 : 4096 + 200] = b"\xff" * 200
    settings.file.write_bytes(whole)
    with pytest.raises(InvalidInput, match="the shuffler is not copied"):
        backup(settings, tmp_path / "another")
    assert not (tmp_path / "another").exists()
    assert not empty.data.exists()

"""Two hosts on one database: they share keys or they say which one they lack, and nobody outside learns a path."""

from __future__ import annotations

import asyncio
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from fleet import Fleet
from postgres_cluster import PostgresCluster
from scene import Scene, address_of

from privquant import wire
from privquant.errors import InvalidInput
from privquant.server import causes
from privquant.server.keys import SIGNING_KEYS, GivenKeys, KeyFolder, KeyMissing
from privquant.server.process import ServerFailed, ServerProcess, free_port


@pytest.fixture
def first(tmp_path: Path, fresh_database: str) -> Iterator[Scene]:
    """The host that was there before, with a campaign."""
    scene = Scene(tmp_path / "first", fresh_database)
    scene.server.start()
    yield scene
    scene.server.kill()


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()


def beside(first: Scene, folder: Path, **changes: object) -> ServerProcess:
    settings = replace(first.settings, data=folder / "data", port=free_port(), admin_port=free_port(), **changes)
    return ServerProcess(settings, log=folder / "log")


def get(server: ServerProcess, path: str) -> tuple[int, str]:
    request = urllib.request.Request(address_of(server, path) + path, headers={"accept": "text/html"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until_ready_is(server: ServerProcess, status: int) -> str:
    give_up = time.monotonic() + 60
    while (found := get(server, "/readyz"))[0] != status:
        assert time.monotonic() < give_up, found
        time.sleep(0.1)
    return found[1]


def answer_all(first: Scene, campaign: str, tokens: list[str], ports: list[int]) -> None:
    """Every device asks and reports at one of the hosts; all are counted once."""
    fleets = [
        Fleet("127.0.0.1", port, campaign, tokens[place :: len(ports)], seed=place)
        for place, port in enumerate(ports)
    ]

    async def run() -> None:
        await asyncio.gather(*[fleet.run(8) for fleet in fleets])

    asyncio.run(run())
    assert first.call("GET", f"/v1/campaigns/{campaign}/verify")["ok"]
    assert first.stored(campaign).counted == len(tokens)


def test_hosts_that_share_a_folder_serve_one_campaign(first: Scene, tmp_path: Path) -> None:
    campaign = first.campaign()
    tokens = first.tokens(campaign, 120)
    second = beside(first, tmp_path / "second", keys_folder=str(first.settings.keys))
    second.start()
    try:
        answer_all(first, campaign, tokens, [first.settings.port, second.settings.port])
        assert not (second.settings.data / "keys").exists()
    finally:
        second.kill()


def test_a_host_that_is_given_the_keys_in_its_environment_serves_them(first: Scene, tmp_path: Path) -> None:
    campaign = first.campaign()
    tokens = first.tokens(campaign, 60)
    text = "".join(file.read_text() for file in first.settings.keys.glob("*.pem"))
    with mock.patch.dict(os.environ, {SIGNING_KEYS: text}):
        second = beside(first, tmp_path / "second")
        second.start()
    try:
        answer_all(first, campaign, tokens, [second.settings.port])
        assert not (second.settings.data / "keys").exists()
    finally:
        second.kill()


def test_a_host_without_keys_does_not_invent_one_beside_a_campaign(first: Scene, tmp_path: Path) -> None:
    first.campaign()
    (key,) = KeyFolder(first.settings.keys).fingerprints()
    second = beside(first, tmp_path / "second")
    with pytest.raises(ServerFailed, match="code 2"):
        second.start()
    (line,) = second.log.read_text().splitlines()
    assert line.startswith(f"privquant: this database has campaigns signed by the key {key}")
    assert not list(second.settings.keys.glob("*.pem"))


def test_a_host_with_another_key_is_not_ready_and_tells_no_path(first: Scene, tmp_path: Path) -> None:
    campaign = first.campaign()
    (key,) = KeyFolder(first.settings.keys).fingerprints()
    second = beside(first, tmp_path / "second")
    KeyFolder(second.settings.keys)
    try:
        with pytest.raises(ServerFailed, match="not ready"):
            second.start(timeout=5)
        said = until_ready_is(second, 503)
        assert json.loads(said)["detail"] == f"the key {key} of a running campaign is not among this server's keys"
        paths = (f"/c/{campaign}", wire.path_of(campaign, "manifest"), f"/v1/campaigns/{campaign}")
        for status, body in (get(second, path) for path in paths):
            assert status in (401, 503)
            assert str(tmp_path) not in body
            assert "/keys" not in body
        file = first.settings.keys / f"{key}.pem"
        copy = second.settings.keys / file.name
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o644)
        give_up = time.monotonic() + 60
        while "or others can" not in (said := until_ready_is(second, 503)):
            assert time.monotonic() < give_up, said
            time.sleep(0.1)
        assert str(tmp_path) not in said + get(second, f"/c/{campaign}")[1]
        copy.chmod(0o600)
        until_ready_is(second, 200)
        assert get(second, f"/c/{campaign}")[0] == 200
    finally:
        second.kill()


def test_a_database_that_is_gone_is_not_ready_until_it_is_back(first: Scene, postgres: PostgresCluster) -> None:
    until_ready_is(first.server, 200)
    postgres.stop("immediate")
    try:
        assert json.loads(until_ready_is(first.server, 503))["detail"] in (causes.GONE, causes.RESTARTING)
    finally:
        postgres.start()
    until_ready_is(first.server, 200)


def test_keys_given_as_text(tmp_path: Path) -> None:
    ring = KeyFolder(tmp_path / "keys")
    old = ring.current
    new_name = ring.rotate()
    texts = {file.stem: file.read_text() for file in (tmp_path / "keys").glob("*.pem")}
    (old_name,) = set(texts) - {new_name}
    given = GivenKeys(texts[new_name] + "\n\n" + texts[old_name])
    assert given.fingerprints() == ring.fingerprints()
    assert wire.public_key_of(given.current) == wire.public_key_of(ring.current)
    issuer = wire.public_key_of(old)
    assert given.campaign_secret(issuer, "0" * 64) == ring.campaign_secret(issuer, "0" * 64)
    with pytest.raises(KeyMissing):
        GivenKeys(texts[new_name]).campaign_secret(issuer, "0" * 64)
    with pytest.raises(InvalidInput, match="on every host"):
        given.rotate()
    for wrong in ("no key", texts[old_name].replace("M", "!", 1)):
        with pytest.raises(InvalidInput, match=SIGNING_KEYS):
            GivenKeys(wrong)

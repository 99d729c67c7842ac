"""Databases, keys, ledgers and policies that an earlier release left midway are opened, and the campaigns go on.

What the present code makes of them is compared with what the release's own code made of them (`expected.json`).
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from continuing import audit, continue_local, continue_shuffled
from postgres_cluster import PostgresCluster
from running import Servers

from privquant import wire

FILES = Path(__file__).parent / "files" / "ecfc2aa"


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def servers(kind: str, tmp_path: Path) -> Iterator[Servers]:
    """Both servers on a copy of the stored files. Their ports are fixed, so one test at a time has them."""
    with (Path(tempfile.gettempdir()) / "privquant-formats.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = tmp_path / "deployment"
        shutil.copytree(FILES / kind, folder)
        for key in folder.glob("*/keys/*"):
            key.chmod(0o600)  # which version control does not keep
        cluster_folder = Path(tempfile.mkdtemp(prefix="privquant-postgres-"))
        cluster = PostgresCluster(cluster_folder) if kind == "postgres" else None
        running = Servers(folder, "" if cluster is None else restored(cluster, folder / "dump.sql"))
        try:
            running.start()
            yield running
        finally:
            running.stop()
            if cluster is not None:
                cluster.stop("immediate")
            shutil.rmtree(cluster_folder, ignore_errors=True)


def restored(cluster: PostgresCluster, dump: Path) -> str:
    """The address of a database with the tables of the dump."""
    address = cluster.new_database("restored")
    words = [str(cluster.bin / "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-f", str(dump), address]
    subprocess.run(words, check=True, capture_output=True)
    return address


def test_a_deployment_left_midway_goes_on_as_it_would_have(servers: Servers) -> None:
    known, expected = form_of(servers.folder / "known.json"), form_of(servers.folder / "expected.json")
    assert continue_local(known, servers) == expected["local"]
    assert continue_shuffled(known, servers) == expected["shuffled"]
    assert audit(known, servers) == expected["audit"]


def test_invites_that_were_given_out_are_read_and_spelled_as_before(kind: str) -> None:
    known = form_of(FILES / kind / "known.json")
    invites = [each for of_trust in known["devices"].values() for each in of_trust.values()]
    assert len(invites) == 7
    assert [wire.Invite.parse(invite).to_url() for invite in invites] == invites


def form_of(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text()))

"""Fixtures of the service: a running server on SQLite, and a PostgreSQL cluster of our own."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_cluster import PostgresCluster
from scene import Scene


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One server on SQLite for a whole module."""
    made = Scene(tmp_path_factory.mktemp("scene"))
    made.server.start()
    yield made
    made.server.kill()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresCluster]:
    """One cluster for the whole run. It is a failure, not a skip, when PostgreSQL is not installed."""
    # Not in pytest's own folder: that one belongs to who runs the tests, and PostgreSQL may be another user.
    folder = Path(tempfile.mkdtemp(prefix="privquant-postgres-"))
    try:
        try:
            cluster = PostgresCluster(folder)
        except RuntimeError as error:
            pytest.fail(str(error))
        yield cluster
        cluster.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fresh_database(postgres: PostgresCluster) -> str:
    """An empty database in the cluster."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    return postgres.new_database(name)

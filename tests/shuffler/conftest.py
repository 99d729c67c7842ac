"""The shuffler's tests drive the aggregator's scene too; its helpers lie beside the aggregator's tests."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "aggregator"))

from parties import Parties
from postgres_cluster import PostgresCluster

from privquant.server.process import free_port


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    """An aggregator and a shuffler, both running, for a whole module."""
    made = Parties(tmp_path_factory.mktemp("parties"), admin_port=free_port())
    made.start()
    yield made
    made.kill()


@pytest.fixture
def database() -> Iterator[str]:
    """An empty database in a PostgreSQL cluster of its own. Not installed, it is a failure and no skip."""
    folder = Path(tempfile.mkdtemp(prefix="privquant-postgres-"))  # which another user may have to own
    try:
        cluster = PostgresCluster(folder)
        yield cluster.new_database("campaigns")
        cluster.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)

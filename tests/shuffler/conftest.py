"""The shuffler's tests drive the aggregator's scene too; its helpers lie beside the aggregator's tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "aggregator"))

from parties import Parties


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    """An aggregator and a shuffler, both running, for a whole module."""
    made = Parties(tmp_path_factory.mktemp("parties"))
    made.start()
    yield made
    made.kill()

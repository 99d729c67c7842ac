"""The pages in a real Chromium, on a real server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))
sys.path.insert(0, str(Path(__file__).parents[1] / "js"))
sys.path.insert(0, str(Path(__file__).parents[1] / "aggregator"))

from browser import Browser
from scene import Scene


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    running = Browser(tmp_path_factory.mktemp("chromium")).start()
    yield running
    running.kill()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One server on SQLite for a whole module."""
    made = Scene(tmp_path_factory.mktemp("scene"))
    made.server.start()
    yield made
    made.server.kill()

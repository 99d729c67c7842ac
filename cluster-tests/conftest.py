"""These need Ray and Dask, and so an environment of their own: `make test-engines` makes it and runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def ray_here() -> Iterator[object]:
    """A real Ray of two processors on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray", reason="`make test-engines` installs it")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    yield ray
    ray.shutdown()


def command(*words: object) -> subprocess.CompletedProcess[str]:
    """The privquant command beside this interpreter."""
    found = shutil.which("privquant")
    assert found is not None
    return subprocess.run([found, *map(str, words)], capture_output=True, text=True, timeout=300)

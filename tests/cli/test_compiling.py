"""The line that says that numba compiles: once where its cache is empty, never where it is warm.

Real processes, each with a cache folder of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from privquant._compiling import COMPILING, announce, compiling

SWEEP = (
    *("sweep", "--data", "pareto:n=300:B=4^4", "--protocol", "hierarchical:answer=argmin", "--epsilon", "1,2"),
    *("--trials", "20", "--workers", "2"),
)


def run(cache: Path, *command: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, *map(str, command)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_it_is_said_once_by_all_workers_and_not_when_the_cache_is_warm(tmp_path: Path) -> None:
    """Two workers compile the same functions at the same moment; without what they share, both would say so."""
    for name, lines in (("cold", 1), ("warm", 0)):
        done = run(tmp_path / "cache", "-m", "privquant", *SWEEP, "--out", tmp_path / f"{name}.csv")
        assert done.stderr.count(f"privquant: {COMPILING}\n") == lines, done.stderr
        assert COMPILING not in done.stdout


def test_the_library_logs_it_and_only_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    code = "from privquant.protocols.isotonic.rules import batch_size; print(batch_size(100), batch_size(100.0))"
    done = run(tmp_path / "one", "-c", code)
    assert (done.stdout, done.stderr) == ("2 2.0\n", f"{COMPILING}\n")
    told = run(tmp_path / "two", "-c", f"from privquant._compiling import announce; announce(print); {code}")
    assert (told.stdout, told.stderr) == (f"{COMPILING}\n2 2.0\n", "")
    code = "import privquant._numba as n; print(n.njit(lambda x: x + 1)(1))"
    other = run(tmp_path / "three", "-c", code)
    assert (other.stdout, other.stderr) == ("2\n", "")


def test_each_announcement_is_for_one_line() -> None:
    said: list[str] = []
    for _ in range(2):
        announce(said.append)
        compiling()
        compiling()
    assert said == [COMPILING] * 2


@pytest.mark.full
def test_the_demo_passes_on_that_its_server_compiles(tmp_path: Path) -> None:
    for lines in (1, 0):
        done = run(tmp_path / "cache", "-m", "privquant", "demo", "--devices", 20, "--json")
        assert done.stderr.count(COMPILING) == lines
        assert json.loads(done.stdout)["exact"]

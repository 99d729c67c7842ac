"""`python -m studies published` as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "studies", "published", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


def test_it_prints_the_record_beside_ours() -> None:
    done = run("--mechanism", "DpNaiveNBS", "--trials", "10", "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr
    form = json.loads(done.stdout)
    assert len(form["rows"]) == 45
    assert form["agrees"] is True
    assert {"success", "ours_published", "ours_text", "z", "epsilon", "size"} <= set(form["rows"][0])


def test_an_unknown_mechanism_ends_in_one_line() -> None:
    done = run("--mechanism", "Laplace")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "DpBayeSS" in done.stderr

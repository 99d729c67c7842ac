"""`python -m studies paper` as a person uses it: real processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def paper(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "studies", "paper", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


def test_figures_are_listed_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    listed = paper("--list")
    assert listed.returncode == 0
    assert listed.stdout.splitlines()[0].startswith("pareto-n2500-B4e8")
    refused = paper("--figure", "nope", "--out", tmp_path)
    assert refused.returncode == 2
    assert "there is no figure 'nope'; there are pareto-n2500-B4e8" in refused.stderr


def test_one_figure_from_the_command_line(tmp_path: Path) -> None:
    done = paper("--figure", "uniform-eps1", "--quick", "--out", tmp_path / "new" / "folder")
    assert done.returncode == 0, done.stderr
    assert "0 of 10 recorded rows are more than 3 standard errors from ours" in done.stdout
    assert (tmp_path / "new" / "folder" / "uniform-eps1.png").exists()

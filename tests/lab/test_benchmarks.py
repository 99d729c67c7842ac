"""The benchmarks' page: what was measured, where, and nothing that names the machine."""

from __future__ import annotations

import platform
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    made = import_module("run")
    yield made
    for name in [n for n, m in sys.modules.items() if str(getattr(m, "__file__", "")).startswith(str(FOLDER))]:
        del sys.modules[name]


def test_every_section_has_its_module(benchmarks: ModuleType) -> None:
    for name in benchmarks.SECTIONS:
        assert callable(import_module(name).rows), name


def test_the_page_says_what_was_measured(benchmarks: ModuleType) -> None:
    row = import_module("measure").row("dense over ours", "B = 4^9", 2e-3, 4e-8, "user")
    text = benchmarks.page({"bayes": [row], "unary": []})
    assert "| dense over ours | B = 4^9 | 2 ms | 40 ns | user | 50,000 |" in text
    assert "could not be installed" in text
    assert platform.node() not in text or not platform.node()
    again = benchmarks.page({"unary": [row]}, text)
    assert again.count("| dense over ours |") == 2
    assert "could not be installed" not in again
    assert benchmarks.page({"bayes": [row], "unary": [row]}) == again


@pytest.mark.parametrize(("more", "written"), [([], False), (["--keep"], True)])
def test_some_sections_alone_leave_the_page_as_it_is(
    benchmarks: ModuleType,
    more: list[str],
    written: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    row = import_module("measure").row("dense over ours", "B = 4^9", 2e-3, 4e-8, "user")
    monkeypatch.setattr(benchmarks, "ROOT", tmp_path)
    monkeypatch.setattr(benchmarks, "measured", lambda sections: {name: [row] for name in sections})
    page = tmp_path / "docs" / "benchmarks.md"
    page.parent.mkdir()
    page.write_text("# Benchmarks\n\n## Start\n\nas it was\n")
    out = str(tmp_path / "rows.csv")
    monkeypatch.setattr(sys, "argv", ["run.py", "--only", "bayes", "--out", out, *more])
    benchmarks.main()
    assert "| dense over ours |" in capsys.readouterr().out
    assert "as it was" in page.read_text()
    assert ("| dense over ours |" in page.read_text()) is written


def test_two_ways_are_timed_turn_by_turn(benchmarks: ModuleType) -> None:
    order: list[str] = []
    import_module("measure").side_by_side(lambda: order.append("theirs"), lambda: order.append("ours"), turns=2)
    assert order == ["ours", "theirs", "ours", "theirs", "ours"]

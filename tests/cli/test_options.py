"""No option of any verb is there for show: what a command takes, its code reads."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import privquant.cli

VERBS = sorted(Path(privquant.cli.__file__).parent.glob("[a-z]*.py"))


def unread(source: str) -> list[str]:
    """Parameters with an annotation that the body of their function never reads."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            read = {node.id for part in function.body for node in ast.walk(part) if isinstance(node, ast.Name)}
            taken = [arg.arg for arg in (*function.args.args, *function.args.kwonlyargs) if arg.annotation]
            found += [f"{function.name}: {name}" for name in taken if name not in read]
    return found


@pytest.mark.parametrize("file", VERBS, ids=lambda file: file.stem)
def test_every_option_is_read(file: Path) -> None:
    assert unread(file.read_text()) == []


def test_an_option_that_is_not_read_is_found() -> None:
    assert unread("def demo(devices: int, browser: bool = True):\n    run(devices)") == ["demo: browser"]
    assert len(VERBS) > 10

"""No option of any verb is there for show: what a command takes, its code reads."""

from __future__ import annotations

import ast
from dataclasses import fields
from inspect import signature
from pathlib import Path

import pytest

import privquant.cli
from privquant.aggregator.settings import Settings as AggregatorSettings
from privquant.plans import plan
from privquant.shuffler.settings import Settings as ShufflerSettings

VERBS = sorted(Path(privquant.cli.__file__).parent.glob("[a-z]*.py"))
SETTINGS = {
    "plan": set(signature(plan).parameters),
    "serve": {"config", *(field.name for field in fields(AggregatorSettings))},
    "shuffler": {field.name for field in fields(ShufflerSettings)},
}
"""What a command of this file may hand on all together, by `locals()`."""


def unread(source: str, settings: set[str]) -> list[str]:
    """Parameters with an annotation that the body of their function never reads, nor hands on as a setting."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            read = {node.id for part in function.body for node in ast.walk(part) if isinstance(node, ast.Name)}
            read |= settings if "locals" in read else set()
            taken = [arg.arg for arg in (*function.args.args, *function.args.kwonlyargs) if arg.annotation]
            found += [f"{function.name}: {name}" for name in taken if name not in read]
    return found


@pytest.mark.parametrize("file", VERBS, ids=lambda file: file.stem)
def test_every_option_is_read(file: Path) -> None:
    assert unread(file.read_text(), SETTINGS.get(file.stem, set())) == []


def test_an_option_that_is_not_read_is_found() -> None:
    assert unread("def demo(devices: int, browser: bool = True):\n    run(devices)", set()) == ["demo: browser"]
    given = "def serve(port: int, prot: int):\n    given = locals()"
    assert unread(given, SETTINGS["serve"]) == ["serve: prot"]
    assert len(VERBS) > 10

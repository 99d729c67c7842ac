"""What the studies' tables have in common: the name of a cell, and Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Runs(NamedTuple):
    """trials: of a cell. redraw: trials on one drawn data set."""

    trials: int
    redraw: int


def name(*parts: object) -> str:
    """A cell's name within its study: the note "cell" by which its report finds it."""
    return " ".join(map(str, parts))


def size_text(size: int) -> str:
    return {4**9: "4^9", 10**6: "10^6"}.get(size, f"2^{size.bit_length() - 1}")


def markdown(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = list(head)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(entry) for entry in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def ratio_text(other: float, ours: float) -> str:
    """With few runs an error can be 0."""
    return f"{other / ours:.2f}" if ours > 0 else "-"

"""Tables as every verb prints them: numbers to the right, texts to the left."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


def table_of(
    title: str, columns: Mapping[str, Sequence[str]], *, texts: Container[str] = (), wrap: bool = True
) -> Table:
    """texts: the heads of columns that are no numbers. wrap: whether what is too long goes on in the next line."""
    from rich.table import Table

    table = Table(title=title)
    for head in columns:
        table.add_column(head, justify="left" if head in texts else "right", overflow="fold", no_wrap=not wrap)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    return table

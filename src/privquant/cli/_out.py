"""What commands write: files, checked before the work starts, and tables."""

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from privquant.error_words import Rank, error_statement
from privquant.errors import InvalidInput


@contextmanager
def new_private_file(path: Path) -> Iterator[TextIO]:
    """A file that must not exist, readable by its owner alone; after an error it is removed if it is empty."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be made: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w") as out:
            yield out
    except BaseException:
        if path.stat().st_size == 0:
            path.unlink()  # a second try must find its name free
        raise


def check_out(path: Path, endings: tuple[str, ...] = ()) -> None:
    """A file of one of these endings (any, if none is given) in a folder that can be written to."""
    if endings and path.suffix not in endings:
        raise InvalidInput(f"the file must end in {' or '.join(endings)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise InvalidInput(f"{path} cannot be written: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidInput(f"{path} cannot be written")


def print_table(
    title: str,
    columns: Mapping[str, Sequence[str]],
    below: Iterable[str] = (),
    *,
    texts: Container[str] = (),
    wrap: bool = True,
) -> None:
    """A table, its numbers to the right, and the lines below it.

    texts: the heads of columns that are no numbers. wrap: whether what is too long goes on in the next line.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for head in columns:
        table.add_column(head, justify="left" if head in texts else "right", overflow="fold", no_wrap=not wrap)
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    console = Console()
    for shown in (table, *below):
        console.print(shown)


def error_statements(estimate: Mapping[str, Any]) -> list[str]:
    """What an estimate's JSON says about its error, in words."""
    rank = Rank(**estimate["rank"]) if estimate["rank"] else None
    said = (error_statement(estimate["certain"]), error_statement(estimate["typical"]), rank)
    return [str(statement) for statement in said if statement is not None]

"""A progress bar with the time left, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

Advance = Callable[[bool], None]
"""Called after every block: whether it finished a cell."""


@contextmanager
def bar(shown: bool, blocks: int, cells: int, kept: int) -> Iterator[Advance]:
    """kept: cells that were finished before. Nothing is shown where rich is not installed."""
    if not shown or find_spec("rich") is None:
        yield lambda finished: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    text = "{task.description}", BarColumn(), MofNCompleteColumn(), "blocks"
    columns = *text, TimeElapsedColumn(), "left", TimeRemainingColumn()
    done = kept
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"{kept} of {cells} cells", total=blocks)

        def advance(finished: bool) -> None:
            nonlocal done
            done += finished
            progress.update(task, advance=1, description=f"{done} of {cells} cells")

        yield advance

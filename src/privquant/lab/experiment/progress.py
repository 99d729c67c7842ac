"""A progress bar with the time left, on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[bool], None]
"""Called after every block: whether it finished a cell."""


@contextmanager
def bar(shown: bool, blocks: int, cells: int, kept: int) -> Iterator[Advance]:
    """kept: cells that were finished before. Nothing is shown where rich is not installed."""
    if not shown:
        yield lambda finished: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.progress import TimeRemainingColumn as TimeLeft
    except ImportError:
        yield lambda finished: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("blocks"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeLeft(),
    )
    done = kept
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"{kept} of {cells} cells", total=blocks)

        def advance(finished: bool) -> None:
            nonlocal done
            done += finished
            progress.update(task, advance=1, description=f"{done} of {cells} cells")

        yield advance

"""The files that a command writes, checked before it starts its work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

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

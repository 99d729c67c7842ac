"""Where a long run is to write: looked at before it starts, not after."""

from __future__ import annotations

import os
from pathlib import Path

from privquant.errors import InvalidInput


def check_out(path: Path, endings: tuple[str, ...] = ()) -> None:
    """A file of one of these endings (any, if none is given) in a folder that can be written to."""
    if endings and path.suffix not in endings:
        raise InvalidInput(f"the file must end in {' or '.join(endings)}, got {str(path)!r}")
    if not path.parent.is_dir():
        raise InvalidInput(f"{path} cannot be written: there is no folder {path.parent}")
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidInput(f"{path} cannot be written")

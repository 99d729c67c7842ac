"""The journal of a run: one line a finished cell, appended and synced as it finishes.

A run that is killed at any moment loses only the cells it was in the middle of. A last line cut short by the kill
is dropped; any other damage, or a journal of another run (seed or versions differ), is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from privquant.errors import InvalidInput
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome

_FORMAT = 2


class Journal:
    """Finished cells of the run that writes to `path`."""

    def __init__(self, path: Path, header: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self._header = {"format": _FORMAT, **header}
        self.finished: dict[tuple[str, int], Outcome] = {}
        if path.exists():
            if not resume:
                raise InvalidInput(
                    f"{path} holds finished cells of an interrupted sweep: say resume (--resume) to go on with it, "
                    "or delete it to start anew"
                )
            self._read()
        self._file: TextIO = path.open("a", encoding="utf-8")
        if path.stat().st_size == 0:
            self._append(self._header)

    def add(self, cell: Cell, outcome: Outcome) -> None:
        self.finished[cell.run] = outcome
        self._append({"cell": cell.key, **outcome.to_dict()})

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """The run is finished and its results are written."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _append(self, record: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        whole = text.rfind("\n") + 1
        if whole < len(text):
            os.truncate(self.path, len(text[:whole].encode()))
        lines = text[:whole].splitlines()
        if not lines:
            return
        try:
            header, *records = (json.loads(line) for line in lines)
        except ValueError as error:
            raise InvalidInput(f"{self.path} is damaged and cannot be resumed: {error}") from error
        if header != self._header:
            changed = sorted(k for k in {*header, *self._header} if header.get(k) != self._header.get(k))
            raise InvalidInput(
                f"{self.path} is of another sweep: "
                + ", ".join(f"{k} was {header.get(k)!r}, is now {self._header.get(k)!r}" for k in changed)
            )
        for record in records:
            self.finished[record["cell"], len(record["answers"])] = Outcome.from_dict(record)

"""What a partition writes down before it answers: one line a round, synced, in a folder beside the data.

    secret          32 random bytes that never leave this folder: the key of every coin thrown for these rows
    COLUMN.ledger   JSON lines: first what data this is about, then each campaign that began, then its rounds

A line counts once its newline is on disk; what an append left unfinished is cut off by the next one. Every step
reads, checks and writes under an exclusive lock, so that a process that was thought dead cannot take the same rows.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privquant.device.ledger import sync_directory
from privquant.engines.partitions import Asked, PartitionRefused
from privquant.errors import InvalidInput
from privquant.messages import Query, TreeQuery, query_to_dict

VERSION = 1
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Round:
    """Questions of one round, and which users (places in the partition's order) each was put to."""

    asked: Asked
    start: int
    taken: tuple[int, ...]

    @property
    def stop(self) -> int:
        return self.start + sum(self.taken)


@dataclass
class Book:
    """The whole ledger as read."""

    about: dict[str, Any]
    opened: dict[str, int] = field(default_factory=dict)
    rounds: dict[tuple[str, int], Round] = field(default_factory=dict)
    length: int = 0

    @property
    def used(self) -> int:
        """Users asked so far: the first places of the order."""
        return max((entry.stop for entry in self.rounds.values()), default=0)


class PartitionLedger:
    """The ledger of one column of one partition.

    about: what tells this data from other data (its rows and a digest); a ledger about other data is refused.
    """

    def __init__(self, folder: str | os.PathLike[str], column: str, about: dict[str, Any]) -> None:
        if not re.fullmatch(r"[\w .-]{1,100}", column) or column.startswith("."):
            raise InvalidInput(f"a column's name goes into a file's name: letters, digits, . and -, got {column!r}")
        self.folder = Path(folder)
        self.path = self.folder / f"{column}.ledger"
        self._about = {"version": VERSION, **about}
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.secret = self._secret()

    def book(self) -> Book:
        with self._locked() as file:
            return self._read(file)

    def open(self, campaign: str) -> int:
        """How many users a campaign found when it began; written down the first time."""
        with self._locked() as file:
            book = self._read(file)
            if campaign not in book.opened:
                free = int(self._about["rows"]) - book.used
                self._append(file, book, {"campaign": campaign, "opened": free})
                return free
            return book.opened[campaign]

    def take(self, campaign: str, number: int, asked: Asked) -> Round:
        """The users of a round: those written down for it, or else the next that nobody has asked."""
        with self._locked() as file:
            book = self._read(file)
            known = book.rounds.get((campaign, number))
            if known is not None:
                if known.asked != asked:
                    raise PartitionRefused(
                        f"round {number} of {campaign!r} was asked other questions before: a round's users are "
                        "asked once, so only those questions are answered again"
                    )
                return known
            if campaign not in book.opened:
                raise PartitionRefused(f"campaign {campaign!r} was not opened on this partition")
            left = int(self._about["rows"]) - book.used
            taken = []
            for _, count in asked:
                taken.append(min(count, left))
                left -= taken[-1]
            found = Round(asked, book.used, tuple(taken))
            line = {
                "campaign": campaign,
                "round": number,
                "asked": [[query_to_dict(query), count] for query, count in asked],
                "start": found.start,
                "taken": taken,
            }
            self._append(file, book, line)
            return found

    # -- the file ------------------------------------------------------------------------------------------------

    def _secret(self) -> bytes:
        path = self.folder / "secret"
        if not path.exists():
            # Whole before it has its name: whoever finds the name finds all of it, also after a crash.
            made = self.folder / f".secret.{os.getpid()}.{secrets.token_hex(4)}"
            with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secrets.token_bytes(SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another process was first: its secret is the one
                os.link(made, path)
            os.unlink(made)
            self._sync_folder()
        found = path.read_bytes()
        if len(found) != SECRET_BYTES:
            raise PartitionRefused(f"{path} has {len(found)} bytes instead of {SECRET_BYTES}: it is damaged")
        return found

    def _sync_folder(self) -> None:
        for place in (self.folder, self.folder.parent):
            sync_directory(place)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        new = not self.path.exists()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if new:
                self._sync_folder()
            yield file
        finally:
            os.close(file)

    def _read(self, file: int) -> Book:
        raw = os.pread(file, os.fstat(file).st_size, 0)
        whole = raw[: raw.rfind(b"\n") + 1]
        book = Book({})
        try:
            for line in whole.splitlines():
                _enter(book, json.loads(line))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise PartitionRefused(f"the ledger {self.path} cannot be understood: {error!r}") from error
        book.length = len(whole)
        if not whole:
            self._append(file, book, self._about)
        elif book.about != self._about:
            raise PartitionRefused(
                f"the ledger {self.path} is about {_words(book.about)}, this data has {_words(self._about)}: the "
                "data changed after users were asked, and who of them is who can no longer be told"
            )
        return book

    def _append(self, file: int, book: Book, form: dict[str, Any]) -> None:
        line = json.dumps(form, separators=(",", ":")).encode() + b"\n"
        os.ftruncate(file, book.length)
        if os.pwrite(file, line, book.length) != len(line):
            raise PartitionRefused(f"the ledger {self.path} could not be written whole: is the disk full?")
        os.fsync(file)
        book.length += len(line)


def _enter(book: Book, form: dict[str, Any]) -> None:
    if not book.about:
        book.about = form
    elif "opened" in form:
        book.opened[form["campaign"]] = int(form["opened"])
    else:
        asked = tuple(
            (Query(**query) if "threshold" in query else TreeQuery(**query), int(count))
            for query, count in form["asked"]
        )
        entry = Round(asked, int(form["start"]), tuple(int(k) for k in form["taken"]))
        book.rounds[form["campaign"], int(form["round"])] = entry


def _words(about: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in about.items())

"""A partition whose rows are users: keyed coins beside the data, and a ledger of who was asked.

The order in which users are taken and every coin are a keyed function (AES-256 in counter mode) of the folder's
secret, so a task that runs twice, on whatever worker, throws the same coin for the same user and question, and
nobody without the secret can tell the coins. A user's 64-bit draw flips the answer iff it is below the question's
flip threshold, as on a device. Draws are read at the user's place in the order, so a round is one slice.

What a partition writes down before it answers is one line a round, synced, in a folder beside the data:

    secret          32 random bytes that never leave this folder: the key of every coin thrown for these rows
    COLUMN.ledger   JSON lines: first what data this is about, then each campaign that began, then its rounds

A line counts once its newline is on disk; what an append left unfinished is cut off by the next one. Every step
reads, checks and writes under an exclusive lock, so that a process that was thought dead cannot take the same rows.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant.columns import to_indices
from privquant.device import spending
from privquant.device.ledger import sync_directory
from privquant.device.policy import Rule
from privquant.engines.partitions import Answered, Asked, PartitionRefused, Reply, Signs, check_threshold, summed
from privquant.errors import InvalidInput, MissingDependency
from privquant.lab.data.files import read_column
from privquant.messages import AnyQuery, Query, TreeQuery, query_to_dict
from privquant.protocols.tree.encodings import rows as hadamard_rows
from privquant.protocols.tree.hierarchical import odd_bits

VERSION = 1
SECRET_BYTES = 32
# Rows worked on at once: 8 MiB of draws.
_CHUNK = 1 << 20


class KeptPartition:
    """Rows of one column, in this process's memory, with their ledger in a folder.

    indices: the column as domain indices, one a user.
    digest:  tells this data, with its number of rows, from other data.
    folder:  for the secret and the ledger; reachable from wherever this partition may be opened again.
    column:  its name: a ledger is about one column.
    rule:    what its owner allows: the domain, and the most one answer may reveal.
    """

    def __init__(
        self, indices: NDArray[np.int64], *, digest: str, folder: str | os.PathLike[str], column: str, rule: Rule
    ) -> None:
        self._rule = rule
        self._ledger = PartitionLedger(folder, column, {"rows": int(indices.size), "digest": digest})
        # The users as they will be taken: an order that their values have no part in, the same for ever.
        keys = draws(self._key("order"), 0, indices.size)
        self._users: NDArray[np.int64] = indices[np.argsort(keys, kind="stable")]

    @classmethod
    def of_file(
        cls, path: str | os.PathLike[str], column: str, rule: Rule, missing: str = "refuse"
    ) -> KeptPartition:
        """A column of a Parquet or CSV file; the folder is FILE.privquant beside it.

        missing: "refuse" or "drop" rows without a value.
        """
        place = Path(path)
        indices = to_indices(read_column(place, column), rule.domain, missing=missing).indices
        folder = place.with_name(place.name + ".privquant")
        with place.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls(indices, digest=digest, folder=folder, column=column, rule=rule)

    def open(self, campaign: str) -> int:
        return self._ledger.open(campaign)

    def answer(self, campaign: str, number: int, asked: Asked) -> list[Reply]:
        for query, _ in asked:
            self._check(query)
        found = self._ledger.take(campaign, number, asked)  # on disk before any coin is thrown
        return self._replies(campaign, found)

    def kept(self) -> list[dict[str, Any]]:
        return [
            {
                "campaign": campaign,
                "round": number,
                "start": entry.start,
                "stop": entry.stop,
                "asked": [(query_to_dict(query), taken) for (query, _), taken in zip(entry.asked, entry.taken)],
            }
            for (campaign, number), entry in self._ledger.book().rounds.items()
        ]

    def _check(self, query: AnyQuery) -> None:
        if not spending.keeps(self._rule.max_units, query.coin):
            raise PartitionRefused(
                f"an answer would cost epsilon {spending.shown(spending.cost(query.coin))}, this partition's owner "
                f"allows {spending.shown(self._rule.max_units)}"
            )
        if isinstance(query, Query):
            check_threshold(query, self._rule.domain)
        elif query.encoding != "hadamard":
            raise PartitionRefused(f"a partition answers trees by the Hadamard encoding, got {query.encoding!r}")

    def _replies(self, campaign: str, entry: Round) -> list[Reply]:
        place = entry.start
        replies: list[Reply] = []
        for (query, count), taken in zip(entry.asked, entry.taken, strict=True):
            spans = [(at, min(at + _CHUNK, place + taken)) for at in range(place, place + taken, _CHUNK)]
            if isinstance(query, Query):
                ones = sum(self._ones(campaign, query, start, stop) for start, stop in spans)
                replies.append(Answered(query, count, taken, ones))
            else:
                whole = Signs.none(query, count - taken)
                for start, stop in spans:
                    whole = whole.plus(self._signs(campaign, query, start, stop))
                replies.append(whole)
            place += taken
        return replies

    def _ones(self, campaign: str, query: Query, start: int, stop: int) -> int:
        flipped = self._draws(campaign, query, "coin", start, stop) < np.uint64(query.coin)
        return int(np.count_nonzero((self._users[start:stop] <= query.threshold) ^ flipped))

    def _signs(self, campaign: str, query: TreeQuery, start: int, stop: int) -> Signs:
        """Each user's level, row and coin from draws of their own; levels by the high part of a product."""
        count = stop - start
        levels = 1 + _scaled(self._draws(campaign, query, "level", start, stop), query.height)
        picks = self._draws(campaign, query, "row", start, stop)
        flipped = self._draws(campaign, query, "coin", start, stop) < np.uint64(query.coin)
        users, rows, sums = [], [], []
        for level in range(1, query.height + 1):
            mine = np.flatnonzero(levels == level)
            nodes = self._users[start:stop][mine] // query.branching ** (query.height - level)
            # the number of rows is a power of two: the low bits of a uniform draw are uniform
            row = (picks[mine] & np.uint64(hadamard_rows(query, level) - 1)).astype(np.int64)
            sign = 1 - 2 * (odd_bits(row & nodes) ^ flipped[mine]).astype(np.int64)
            found, total = summed(row, sign)
            users.append(int(mine.size))
            rows.append(found)
            sums.append(total)
        return Signs(query, count, tuple(users), tuple(rows), tuple(sums))

    def _draws(self, campaign: str, query: AnyQuery, use: str, start: int, stop: int) -> NDArray[np.uint64]:
        named = json.dumps([use, campaign, query_to_dict(query)], sort_keys=True)
        return draws(self._key(named), start, stop)

    def _key(self, use: str) -> bytes:
        named = f"privquant/partition/1 {self._ledger.path.name} {use}"
        return hmac.digest(self._ledger.secret, named.encode(), hashlib.sha256)


def draws(key: bytes, start: int, stop: int) -> NDArray[np.uint64]:
    """The 64-bit draws of places start .. stop - 1: the key's stream of AES-256 in counter mode, 8 bytes each."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        raise MissingDependency("a partition's coins", "cryptography", "device") from None
    first = start // 2
    blocks = -(-stop // 2) - first
    stream = Cipher(algorithms.AES(key), modes.CTR(first.to_bytes(16, "big"))).encryptor()
    raw = stream.update(bytes(16 * blocks))
    return np.frombuffer(raw, ">u8")[start - 2 * first :][: stop - start].astype(np.uint64)


def _scaled(draw: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """Uniform in 0 .. count - 1 up to 2^-58: the high half of draw times count, for count below 64."""
    return ((draw >> np.uint64(6)) * np.uint64(count) >> np.uint64(58)).astype(np.int64)


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
        with self._opened() as (_, book):
            return book

    def open(self, campaign: str) -> int:
        """How many users a campaign found when it began; written down the first time."""
        with self._opened() as (file, book):
            if campaign not in book.opened:
                free = int(self._about["rows"]) - book.used
                self._append(file, book, {"campaign": campaign, "opened": free})
                return free
            return book.opened[campaign]

    def take(self, campaign: str, number: int, asked: Asked) -> Round:
        """The users of a round: those written down for it, or else the next that nobody has asked."""
        with self._opened() as (file, book):
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
    def _opened(self) -> Iterator[tuple[int, Book]]:
        """The open file under an exclusive lock, and what it says."""
        new = not self.path.exists()
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if new:
                self._sync_folder()
            yield file, self._read(file)
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

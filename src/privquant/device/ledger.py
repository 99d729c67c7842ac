"""The ledger: what was drawn about each measurement, kept so that it is never drawn again.

It promises:

- Before any byte of an answer leaves, the answer and the file it stands in will survive a power cut: SEND is
  synced, and with it all that was written before it; the first SEND also syncs the file's directory entry. DRAW
  and ACK are written without a sync of their own: a power cut that takes back a DRAW takes back a bit that never
  left, one that takes back an ACK costs one resend of the same bit.
- Steps are atomic. A process killed at any instruction leaves the step made or not made, never half made.
- Any number of processes and threads may use one ledger: every step reads, checks and writes under an
  exclusive lock, which is never held across a network call, so that a server that stalls one answer cannot
  stall another.
- A ledger that cannot be read, understood or written refuses; it never starts afresh.

It is keyed by the measurement's name: a campaign that is published again under a new id meets the same
entries. The file is only ever appended to; an answer costs one sync, the first of a ledger two.
"""

import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from privquant.device import ledger_format as records
from privquant.device.answer_states import Event, State, step
from privquant.device.ledger_format import Answer
from privquant.device.refusals import LedgerRefused, TryLater

# A lifetime limit allows a few answers, of three records below 1 KiB each. This holds thousands of them.
LARGEST = 16 << 20
LOCK_PAUSE = 0.01


class Ledger:
    """The ledger in the file at `path`.

    make_directory: make the directory it lies in. Off by default: a directory that is not there may be a disk
    that is not mounted, and a fresh ledger in its place would forget what was already answered. patience: how
    many seconds to wait for the lock before giving up.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, make_directory: bool = False, patience: float = 10.0
    ) -> None:
        self.path = Path(path)
        self._make_directory = make_directory
        self._patience = patience

    def answers(self, measurement: str) -> tuple[Answer, ...]:
        """All answers about a measurement in the order they were drawn. Refuses what could not be written later."""
        with self._opened() as (_, book):
            return tuple(book.answers.get(measurement, {}).values())

    def find(self, campaign: str) -> Answer | None:
        """The answer to this campaign, whatever measurement it was about."""
        with self._opened() as (_, book):
            found = (of.get(campaign) for of in book.answers.values())
            return next((answer for answer in found if answer is not None), None)

    def secret(self) -> bytes:
        """32 bytes that are always the same for this ledger; on disk before they are returned."""
        with self._opened() as (file, book):
            if book.length == 0:
                self._write(file, book.length, book.start())
                self._sync(file, new=True)
            return book.secret

    def prepare(self, measurement: str, campaign: str, draw: Callable[[tuple[Answer, ...]], Answer]) -> Answer:
        """The answer to this campaign: the one in the ledger or, if there is none, the one `draw` makes.

        `draw` is given all answers about the measurement so far. It runs under the lock, at most once, and
        may refuse by raising, which leaves the ledger as it was.
        """
        with self._opened() as (file, book):
            so_far = book.answers.get(measurement, {})
            if campaign in so_far:
                return so_far[campaign]
            answer = replace(draw(tuple(so_far.values())), state=step(State.UNDRAWN, Event.DRAW))
            if (answer.measurement, answer.campaign) != (measurement, campaign):
                raise AssertionError("an answer was drawn for another question")
            self._write(file, book.length, book.append(Event.DRAW, answer))
            return answer

    def note_round(self, campaign: str, thresholds: Sequence[int]) -> int | None:
        """Remember how rounds were announced; the first round that was announced to this device otherwise before.

        thresholds: of all rounds from 0 to the one that is asked. None: nothing contradicts.
        """
        with self._opened() as (file, book):
            seen = book.announced.get(campaign, {})
            for round, threshold in seen.items():
                if round < len(thresholds) and thresholds[round] != threshold:
                    return round
            last = len(thresholds) - 1
            if last not in seen:
                self._write(file, book.length, book.append_announced(campaign, last, thresholds[last]))
            return None

    def advance(self, answer: Answer, event: Event) -> Answer:
        """Record that `answer` is about to be sent, or that it was acknowledged; returns it in its new state.

        The state in the ledger counts, not the one `answer` carries: another process may have gone further.
        """
        with self._opened() as (file, book):
            known = book.answers.get(answer.measurement, {}).get(answer.campaign)
            if known is None or replace(known, state=answer.state) != answer:
                raise LedgerRefused("ledger-corrupt", "the ledger no longer holds an answer that it held before")
            after = replace(known, state=step(known.state, event))
            if after.state is not known.state:
                self._write(file, book.length, book.append(event, after))
                if event is Event.SEND:
                    self._sync(file, new=not book.has_sent)
            return after

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, records.Book]]:
        """The open file under an exclusive lock, and what it says."""
        with self._refusing("opened for writing", "ledger-unreadable"):
            if self._make_directory:
                _make_directories(self.path.parent)
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise LedgerRefused("ledger-unreadable", f"the ledger {self.path} is not a regular file")
            self._lock(file)
            yield file, _read(file)
        finally:
            os.close(file)  # and with it the lock

    def _lock(self, file: int) -> None:
        give_up = time.monotonic() + self._patience
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= give_up:
                    raise TryLater(
                        "ledger-busy", f"another process has held the ledger {self.path} for {self._patience:g} s"
                    ) from None
                time.sleep(LOCK_PAUSE)
            except OSError as error:
                raise LedgerRefused(
                    "ledger-unreadable", f"the ledger {self.path} cannot be locked: {error.strerror}"
                ) from error

    def _write(self, file: int, place: int, data: bytes) -> None:
        with self._refusing("written"):
            os.ftruncate(file, place)  # what an unfinished append left behind
            if os.pwrite(file, data, place) != len(data):
                raise OSError(None, "the disk took only a part of the record")

    def _sync(self, file: int, new: bool) -> None:
        """Make all that was written last; `new`: also the directory entry of a file that may be new."""
        with self._refusing("synced"):
            os.fsync(file)
            if new:
                directory = self.path.resolve().parent  # of the file itself, where the path is a link to it
                sync_directory(directory)
                if self._make_directory:
                    # A crash may have come between making the directory and syncing its own entry.
                    sync_directory(directory.parent)

    @contextmanager
    def _refusing(self, what: str, reason: str = "ledger-unwritable") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LedgerRefused(reason, f"the ledger {self.path} cannot be {what}: {error.strerror}") from error


def _read(file: int) -> records.Book:
    try:
        size = os.fstat(file).st_size
        if size > LARGEST:
            raise LedgerRefused("ledger-corrupt", f"the ledger is larger than {LARGEST} bytes")
        raw = os.pread(file, size, 0)
    except OSError as error:
        raise LedgerRefused("ledger-unreadable", f"the ledger cannot be read: {error.strerror}") from error
    if len(raw) != size:
        raise LedgerRefused("ledger-unreadable", "the ledger cannot be read to its end")
    return records.read(raw)


def sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_directories(directory: Path) -> None:
    """Make what is missing of a path, each new directory entry synced."""
    if directory.is_dir():
        return
    _make_directories(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)
    sync_directory(directory.parent)

"""The ledger's bytes: one line a record, each bound to all before it by a hash.

    <sha256 of (previous hash, record)> <record as JSON>\\n

The first record says what the file is and in which version. What can be read back is exactly what was
written: a changed, missing or foreign byte anywhere but in an unfinished last line makes the whole ledger
corrupt.

An unfinished last line is what a crash in the middle of an append leaves. The append was not yet synced, so
nothing that depends on it has left the device, and the record counts as never made. A last line that lacks
nothing but its newline is a whole record and counts: to take a bit for undrawn is the one mistake that must
not be made. An unfinished first line is only accepted as the beginning of a ledger's own first line, so that
no other file is ever overwritten.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from privquant.device.answer_states import Event, IllegalStep, State, step
from privquant.device.refusals import LedgerRefused
from privquant.errors import InvalidInput
from privquant.privacy.coin import check_flip_threshold
from privquant.wire import MAX_ROUNDS, WireError, check_address, is_hex, sealed_from_wire

VERSION = 1
_START = "0" * 64
_FILE = "privquant ledger"
_OPENING = b'{"file":"privquant ledger",'
_HASH = re.compile(rb"[0-9a-f]{1,64}")


@dataclass(frozen=True, slots=True)
class Shuffled:
    """What a shuffled answer has besides: the sealed bytes, to be sent again as they are, and what it cost.

    sealed: as it travels. shuffler: the one address it may be sent to. epsilon, delta: what the campaign promises,
    in the units of `spending`. batch: the honest reports that this was checked with.
    """

    round: int
    sealed: str
    shuffler: str
    epsilon: int
    delta: int
    batch: int


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer about one measurement: everything that is needed to send it again, and nothing of the value.

    campaign: the manifest's hash. coin: the flip threshold it was drawn with. bit: after the coin. ticket: of the
    local trust model; a shuffled answer has none.
    """

    measurement: str
    campaign: str
    coin: int
    threshold: int
    bit: int
    token: str
    ticket: str
    state: State = State.PREPARED
    shuffled: Shuffled | None = None


# What a DRAW writes down, and of which kind it is.
_SHUFFLED = get_type_hints(Shuffled)
_DRAWN = {name: kind for name, kind in get_type_hints(Answer).items() if name not in ("state", "shuffled")}
_ANNOUNCED = "announced"

Answers = dict[str, dict[str, Answer]]
"""By measurement, then by campaign, in the order they were drawn."""


@dataclass(frozen=True, slots=True)
class Book:
    """What a ledger's bytes say: the answers, how many bytes of it count, and the hash to go on from.

    secret: 32 bytes that never leave the device, from which it makes its tokens for open links.
    announced: by campaign, the thresholds that rounds were announced to this device with.
    """

    answers: Answers
    announced: dict[str, dict[int, int]]
    secret: bytes
    length: int
    last: str
    open_line: bool

    @property
    def has_sent(self) -> bool:
        """Whether a SEND was recorded, and with it the file's directory entry synced."""
        return any(
            answer.state in (State.SENT, State.ACKED)
            for of_measurement in self.answers.values()
            for answer in of_measurement.values()
        )

    def start(self) -> bytes:
        """The bytes of a new ledger before its first answer."""
        return self._first()[0]

    def append(self, event: Event, answer: Answer) -> bytes:
        """The bytes to write at `length` for this event."""
        if event is not Event.DRAW:
            record = {"event": event.value, "measurement": answer.measurement, "campaign": answer.campaign}
            return self._next(record)
        record = {"event": event.value} | {name: getattr(answer, name) for name in _DRAWN}
        if answer.shuffled is not None:
            del record["ticket"]
            record |= {name: getattr(answer.shuffled, name) for name in _SHUFFLED}
        return self._next(record)

    def append_announced(self, campaign: str, round: int, threshold: int) -> bytes:
        """The bytes to write at `length` for an announcement that was seen."""
        record = {"event": _ANNOUNCED, "campaign": campaign, "round": round, "threshold": threshold}
        return self._next(record)

    def _next(self, record: dict[str, Any]) -> bytes:
        first, last = self._first()
        return first + _line(last, record)[0]

    def _first(self) -> tuple[bytes, str]:
        """What must come before the next record, and the hash that record goes on from."""
        if self.length == 0:
            return _line(_START, {"file": _FILE, "secret": self.secret.hex(), "version": VERSION})
        return b"\n" if self.open_line else b"", self.last


def read(raw: bytes) -> Book:
    """The book these bytes hold; `LedgerRefused` if they are not a whole, known, lawful ledger."""
    answers: Answers = {}
    announced: dict[str, dict[int, int]] = {}
    secret, last, length, open_line = b"", _START, 0, False
    for number, (line, ended) in enumerate(_lines(raw)):
        found = _open(last, line)
        if found is None:
            if not ended and (number > 0 or _cut_header(line)):
                break
            raise LedgerRefused("ledger-corrupt", f"the ledger is corrupt at record {number}: its hash is wrong")
        last, record = found
        if number == 0:
            secret = _read_header(record)
        else:
            _replay(answers, announced, record, number)
        length += len(line) + ended
        open_line = not ended
    return Book(answers, announced, secret or secrets.token_bytes(32), length, last, open_line)


def _lines(raw: bytes) -> Iterator[tuple[bytes, bool]]:
    """Every line without its newline, and whether it had one."""
    *whole, rest = raw.split(b"\n")
    for line in whole:
        yield line, True
    if rest:
        yield rest, False


def _cut_header(line: bytes) -> bool:
    """Whether this can be all that is left of a first line: an append that was cut short.

    Some file systems leave a file that grew but was not filled; otherwise it is a part of a hash, or a hash and a
    part of the record.
    """
    mark, space, text = line.partition(b" ")
    if not line.strip(b"\0"):
        return True
    if not _HASH.fullmatch(mark) or (space and len(mark) != 64):
        return False
    return _OPENING.startswith(text) or text.startswith(_OPENING)


def _line(last: str, record: dict[str, Any]) -> tuple[bytes, str]:
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    mark = hashlib.sha256(f"{last} {text}".encode("ascii")).hexdigest()
    return f"{mark} {text}\n".encode("ascii"), mark


def _open(last: str, line: bytes) -> tuple[str, Any] | None:
    mark, _, text = line.partition(b" ")
    if hashlib.sha256(last.encode("ascii") + b" " + text).hexdigest().encode("ascii") != mark:
        return None
    try:
        return mark.decode("ascii"), json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_header(record: Any) -> bytes:
    if not isinstance(record, dict) or record.get("file") != _FILE:
        raise LedgerRefused("ledger-corrupt", "the file is not a privquant ledger")
    if type(record.get("version")) is not int or record["version"] != VERSION:
        raise LedgerRefused(
            "ledger-version",
            f"the ledger has version {record.get('version')!r} and this device reads version {VERSION}",
        )
    secret = record.get("secret")
    if len(record) != 3 or not is_hex(secret, 64):
        raise LedgerRefused("ledger-corrupt", "the ledger's first record has unknown fields")
    return bytes.fromhex(secret)


def _replay(answers: Answers, announced: dict[str, dict[int, int]], record: Any, number: int) -> None:
    """Let a record that was read happen again, through the one table of transitions."""
    try:
        if record["event"] == _ANNOUNCED:
            _replay_announced(announced, record)
            return
        event = Event(record["event"])
        of_measurement = answers.setdefault(record["measurement"], {})
        before = of_measurement.get(record["campaign"])
        state = step(State.UNDRAWN if before is None else before.state, event)
        if before is None:
            after = _drawn(record)
        else:
            after = replace(before, state=state)
            if len(record) != 3:
                raise ValueError("unknown field")
        of_measurement[after.campaign] = after
    except (KeyError, TypeError, ValueError, IllegalStep, InvalidInput, WireError) as error:
        raise LedgerRefused("ledger-corrupt", f"the ledger is corrupt at record {number}: {error}") from error


def _drawn(record: Any) -> Answer:
    """The answer that a DRAW wrote down: with a ticket, or with what a shuffled answer has in its place."""
    shuffled = None
    extra: dict[str, Any] = {}
    if "sealed" in record:
        shuffled = Shuffled(**{name: _typed(record[name], kind) for name, kind in _SHUFFLED.items()})
        sealed_from_wire(shuffled.sealed)
        check_address(shuffled.shuffler)
        if not 0 <= shuffled.round < MAX_ROUNDS or min(shuffled.epsilon, shuffled.delta, shuffled.batch) < 1:
            raise ValueError("a round, an epsilon, a delta or a batch is out of range")
        extra = {"ticket": "", "shuffled": shuffled}
    names = [name for name in _DRAWN if name not in extra]
    answer = Answer(**{name: _typed(record[name], _DRAWN[name]) for name in names}, **extra)
    if answer.bit not in (0, 1) or answer.threshold < 0:
        raise ValueError("a bit is 0 or 1 and a threshold at least 0")
    check_flip_threshold(answer.coin)
    if len(record) != 1 + len(names) + (len(_SHUFFLED) if shuffled else 0):
        raise ValueError("unknown field")
    return answer


def _replay_announced(announced: dict[str, dict[int, int]], record: Any) -> None:
    campaign, round, threshold = (
        _typed(record[name], kind) for name, kind in (("campaign", str), ("round", int), ("threshold", int))
    )
    seen = announced.setdefault(campaign, {})
    if len(record) != 4 or not 0 <= round < MAX_ROUNDS or threshold < 0 or round in seen:
        raise ValueError("not an announcement that this device could have noted")
    seen[round] = threshold


def _typed(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is not of type {kind.__name__}")
    return value

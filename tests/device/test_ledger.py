"""The ledger on a real disk: whatever befalls the file, a bit is never taken for undrawn."""

import fcntl
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from privquant.device import Ledger, LedgerRefused, TryLater
from privquant.device import ledger_format as records
from privquant.device.answer_states import Event, State
from privquant.device.ledger_format import Answer, Shuffled
from privquant.privacy.coin import flip_threshold

ANSWER = Answer("steps", "c" * 64, flip_threshold(1.0), 50, 1, "token", "ticket")


def prepared(path) -> Ledger:
    ledger = Ledger(path)
    ledger.prepare("steps", ANSWER.campaign, lambda so_far: ANSWER)
    return ledger


def finished(path) -> Ledger:
    ledger = prepared(path)
    ledger.advance(ANSWER, Event.SEND)
    ledger.advance(ANSWER, Event.ACK)
    return ledger


def test_every_step_is_read_back_by_another_ledger(ledger):
    prepared(ledger)
    assert Ledger(ledger).answers("steps") == (ANSWER,)
    assert Ledger(ledger).advance(ANSWER, Event.SEND).state is State.SENT
    assert Ledger(ledger).find(ANSWER.campaign) == replace(ANSWER, state=State.SENT)
    assert Ledger(ledger).advance(ANSWER, Event.ACK).state is State.ACKED
    assert Ledger(ledger).answers("steps") == (replace(ANSWER, state=State.ACKED),)
    assert Ledger(ledger).answers("weight") == ()
    assert Ledger(ledger).find("d" * 64) is None
    assert ledger.stat().st_mode & 0o777 == 0o600


def test_what_was_drawn_is_not_drawn_again(ledger):
    prepared(ledger)

    def draw(so_far):
        raise AssertionError("drawn twice")

    assert Ledger(ledger).prepare("steps", ANSWER.campaign, draw) == ANSWER


def test_draw_sees_all_answers_about_the_measurement_and_may_refuse(ledger):
    book = finished(ledger)
    before = ledger.read_bytes()

    def draw(so_far):
        assert [answer.campaign for answer in so_far] == [ANSWER.campaign]
        raise TryLater("not-yet", "no")

    with pytest.raises(TryLater):
        book.prepare("steps", "d" * 64, draw)
    assert ledger.read_bytes() == before


def test_steps_repeated_by_a_second_process_write_nothing(ledger):
    book = finished(ledger)
    size = ledger.stat().st_size
    assert book.advance(ANSWER, Event.SEND).state is State.ACKED
    assert book.advance(ANSWER, Event.ACK).state is State.ACKED
    assert ledger.stat().st_size == size


def test_an_answer_the_ledger_does_not_hold_cannot_advance(ledger):
    book = prepared(ledger)
    with pytest.raises(LedgerRefused, match="no longer holds"):
        book.advance(replace(ANSWER, bit=0), Event.SEND)


def test_the_secret_stays_the_same(ledger):
    secret = Ledger(ledger).secret()
    assert len(secret) == 32
    prepared(ledger)
    assert Ledger(ledger).secret() == secret
    assert Ledger(ledger.with_name("other")).secret() != secret


# -- what a crash or a fault leaves behind ------------------------------------------------------------------


def test_cut_at_any_byte_the_ledger_is_an_earlier_one_and_goes_on(ledger):
    """A crash in the middle of an append. A whole record counts even without its newline."""
    finished(ledger)
    raw = ledger.read_bytes()
    ends = [i for i, byte in enumerate(raw) if byte == 10]
    for cut in range(len(raw) + 1):
        done = sum(cut >= end for end in ends)  # records that lack at most their newline
        expected = [[], [], [State.PREPARED], [State.SENT], [State.ACKED]][done]
        answers = records.read(raw[:cut]).answers.get("steps", {})
        assert [answer.state for answer in answers.values()] == expected, cut
        if cut in (*ends, *(end - 1 for end in ends), *(end + 1 for end in ends), 0, 5, 100):
            ledger.write_bytes(raw[:cut])
            finished(ledger)  # goes on from there
            assert Ledger(ledger).answers("steps")[0].state is State.ACKED


def test_any_changed_byte_refuses(ledger):
    finished(ledger)
    raw = ledger.read_bytes()
    for place in range(len(raw) - 1):
        for wrong in (raw[place] ^ 1, raw[place] ^ 0x80, 10):
            if wrong == raw[place]:
                continue
            with pytest.raises(LedgerRefused):
                records.read(raw[:place] + bytes([wrong]) + raw[place + 1 :])
    assert records.read(raw).answers["steps"]  # the whole one is read, so the check above can fail


@pytest.mark.parametrize("drop", [0, 1, 2])
def test_a_missing_record_refuses(ledger, drop):
    finished(ledger)
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:drop] + lines[drop + 1 :]))
    with pytest.raises(LedgerRefused, match="corrupt"):
        Ledger(ledger).answers("steps")


def written(*forms) -> bytes:
    raw, last = b"", records._START
    for form in forms:
        line, last = records._line(last, form)
        raw += line
    return raw


HEADER = {"file": "privquant ledger", "secret": "ab" * 32, "version": 1}
DRAW = {"event": "draw"} | {name: getattr(ANSWER, name) for name in records._DRAWN}
SEND = {"event": "send", "measurement": "steps", "campaign": ANSWER.campaign}


@pytest.mark.parametrize(
    ("forms", "reason"),
    [
        ([{**HEADER, "version": 2}], "ledger-version"),
        ([{**HEADER, "version": True}], "ledger-version"),
        ([{**HEADER, "version": 2, "new": 1}], "ledger-version"),
        ([{**HEADER, "new": 1}], "ledger-corrupt"),
        ([{**HEADER, "secret": "x"}], "ledger-corrupt"),
        ([{"file": "diary"}], "ledger-corrupt"),
        ([[]], "ledger-corrupt"),
        ([DRAW], "ledger-corrupt"),
        ([HEADER, SEND], "ledger-corrupt"),
        ([HEADER, DRAW, DRAW], "ledger-corrupt"),
        ([HEADER, {**DRAW, "bit": 2}], "ledger-corrupt"),
        ([HEADER, {**DRAW, "bit": True}], "ledger-corrupt"),
        ([HEADER, {**DRAW, "coin": 0}], "ledger-corrupt"),
        ([HEADER, {**DRAW, "coin": 1.5}], "ledger-corrupt"),
        ([HEADER, {**DRAW, "threshold": -1}], "ledger-corrupt"),
        ([HEADER, {**DRAW, "new": 1}], "ledger-corrupt"),
        ([HEADER, {k: v for k, v in DRAW.items() if k != "ticket"}], "ledger-corrupt"),
        ([HEADER, DRAW, {**SEND, "new": 1}], "ledger-corrupt"),
        ([HEADER, DRAW, {**SEND, "event": "forget"}], "ledger-corrupt"),
        ([HEADER, DRAW, 7], "ledger-corrupt"),
    ],
)
def test_well_hashed_nonsense_refuses(ledger, forms, reason):
    ledger.write_bytes(written(*forms))
    with pytest.raises(LedgerRefused) as refusal:
        Ledger(ledger).answers("steps")
    assert refusal.value.reason == reason


def test_the_hand_written_forms_above_are_otherwise_right(ledger):
    ledger.write_bytes(written(HEADER, DRAW, SEND))
    assert Ledger(ledger).answers("steps")[0].state is State.SENT


@pytest.mark.parametrize("text", [b"my diary", b"my diary\n", b"\n", b"0" * 65, b"{}", b"\x00\n"])
def test_another_file_is_refused_and_left_alone(ledger, text):
    ledger.write_bytes(text)
    with pytest.raises(LedgerRefused):
        prepared(ledger)
    assert ledger.read_bytes() == text


def test_a_directory_that_is_not_there_refuses(tmp_path):
    """It may be a disk that is not mounted; a fresh ledger would forget what was answered."""
    with pytest.raises(LedgerRefused, match="cannot be opened") as refusal:
        Ledger(tmp_path / "disk" / "ledger").answers("steps")
    assert refusal.value.reason == "ledger-unreadable"
    assert Ledger(tmp_path / "disk" / "ledger", make_directory=True).answers("steps") == ()


@pytest.mark.parametrize("kind", ["directory", "fifo", "device"])
def test_what_is_no_regular_file_refuses(tmp_path, kind):
    path = tmp_path / "ledger"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/null")
    with pytest.raises(LedgerRefused):
        Ledger(path).answers("steps")


def test_a_full_disk_refuses_and_nothing_is_lost(ledger):
    """A real write that fails in the middle: the kernel stops a process at its file size limit."""
    size = 400  # the first record fits, the second does not
    script = f"""
import resource, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
from test_ledger import prepared
from privquant.device import LedgerRefused
try:
    prepared({str(ledger)!r})
except LedgerRefused as refusal:
    print(refusal.reason)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "ledger-unwritable"
    assert ledger.stat().st_size <= size
    assert Ledger(ledger).answers("steps") == ()
    assert finished(ledger).answers("steps")[0].state is State.ACKED
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_a_ledger_of_absurd_size_refuses(ledger):
    with ledger.open("wb") as file:
        file.truncate(17 << 20)
    with pytest.raises(LedgerRefused, match="larger"):
        Ledger(ledger).answers("steps")


# -- several at a time --------------------------------------------------------------------------------------


def race(path, start, answers, number) -> None:
    start.wait()
    mine = replace(ANSWER, bit=number % 2, token=f"token {number}")
    answers.put(Ledger(path).prepare("steps", ANSWER.campaign, lambda so_far: mine).token)


def test_of_processes_that_race_one_draws_and_all_get_its_answer(ledger):
    context = multiprocessing.get_context("fork")
    for _ in range(5):
        ledger.unlink(missing_ok=True)
        start, answers = context.Barrier(8), context.Queue()
        racers = [context.Process(target=race, args=(ledger, start, answers, number)) for number in range(8)]
        for racer in racers:
            racer.start()
        found = {answers.get(timeout=30) for _ in racers}
        for racer in racers:
            racer.join(30)
        assert len(found) == 1
        assert ledger.read_bytes().count(b'"event":"draw"') == 1


def test_a_held_lock_is_waited_for_and_then_given_up(ledger):
    prepared(ledger)
    with ledger.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        began = time.monotonic()
        with pytest.raises(TryLater, match="held the ledger") as refusal:
            Ledger(ledger, patience=0.1).answers("steps")
        assert time.monotonic() - began >= 0.1
        assert refusal.value.reason == "ledger-busy"
    assert Ledger(ledger, patience=0.1).answers("steps") == (ANSWER,)


# -- shuffled answers ---------------------------------------------------------------------------------------

SEALED = Shuffled(3, "A" * 66, "https://shuffle.example.org", 10**12, 10**12, 5000)
SHUFFLED = replace(ANSWER, campaign="d" * 64, ticket="", shuffled=SEALED)


def test_a_shuffled_answer_is_read_back_whole(ledger):
    book = finished(ledger)
    book.prepare("steps", SHUFFLED.campaign, lambda so_far: SHUFFLED)
    assert Ledger(ledger).answers("steps")[1] == SHUFFLED
    assert Ledger(ledger).advance(SHUFFLED, Event.SEND).shuffled == SEALED
    assert Ledger(ledger).advance(SHUFFLED, Event.ACK).state is State.ACKED
    record = ledger.read_bytes().split(b"\n")[4]
    assert b'"sealed":"AAAA' in record
    assert b"ticket" not in record


@pytest.mark.parametrize(
    "change",
    [
        {"round": -1}, {"round": 1000}, {"round": True}, {"sealed": "A" * 65}, {"sealed": 5}, {"shuffler": "h"},
        {"epsilon": 0}, {"delta": 0}, {"delta": "1"}, {"batch": 0}, {"ticket": "t"}, {"more": 1},
    ],
)  # fmt: skip
def test_a_shuffled_record_is_read_strictly(ledger, change):
    book = records.read(b"")
    record = {"event": "draw", "measurement": "steps", "campaign": "d" * 64, "coin": ANSWER.coin, "threshold": 50,
              "bit": 1, "token": "token", "round": 3, "sealed": "A" * 66, "shuffler": "https://h", "epsilon": 1,
              "delta": 1, "batch": 1}  # fmt: skip
    assert records.read(book._next(record)).answers["steps"]["d" * 64].shuffled.round == 3
    with pytest.raises(LedgerRefused):
        records.read(book._next(record | change))
    for name in record:
        with pytest.raises(LedgerRefused):
            records.read(book._next({key: value for key, value in record.items() if key != name}))


def test_rounds_are_remembered_as_they_were_announced(ledger):
    book = Ledger(ledger)
    assert book.note_round("c" * 64, (50, 25)) is None
    size = ledger.stat().st_size
    assert Ledger(ledger).note_round("c" * 64, (50, 25)) is None
    assert ledger.stat().st_size == size
    assert Ledger(ledger).note_round("c" * 64, (50, 10)) == 1
    assert Ledger(ledger).note_round("c" * 64, (50, 10, 5)) == 1
    assert Ledger(ledger).note_round("c" * 64, (50, 25, 5)) is None
    assert Ledger(ledger).note_round("c" * 64, (50,)) is None
    assert Ledger(ledger).note_round("c" * 64, (49, 25)) == 0
    assert Ledger(ledger).note_round("d" * 64, (50, 10)) is None
    assert Ledger(ledger).answers("steps") == ()


@pytest.mark.parametrize(
    "change", [{"round": -1}, {"threshold": -1}, {"round": "1"}, {"more": 1}, {"campaign": None}, {"round": 1000}]
)
def test_a_noted_round_is_read_strictly(change):
    book = records.read(b"")
    record = {"event": "announced", "campaign": "c" * 64, "round": 1, "threshold": 5}
    assert records.read(book._next(record)).announced == {"c" * 64: {1: 5}}
    with pytest.raises(LedgerRefused):
        records.read(book._next(record | change))

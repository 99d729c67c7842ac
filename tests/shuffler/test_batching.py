"""Rounds in the shuffler's own store: filled, mixed, one short, extended, dropped; no order of arrival is left."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from held_rounds import FOR_EVER, IDENTITY, Rounds, bytes_of, token
from scipy.stats import chi2

from privquant.errors import InvalidInput
from privquant.shuffler import rounds
from privquant.shuffler.rounds import OpenRound, event_due
from privquant.shuffler.store import Outcome, opened, prepare, transaction
from privquant.wire import batch_id


def keep(held: Rounds, number: int, round: int = 0, sealed: bytes | None = None) -> Outcome:
    sealed = bytes_of(number) if sealed is None else sealed
    return asyncio.run(held.store.commit([partial(held.store.keep, 1, token(number), round, sealed)]))[0].outcome


def place(held: Rounds, number: int, until: int = FOR_EVER) -> Outcome:
    return asyncio.run(held.store.commit([partial(held.store.place, 1, token(number), held.batches, until)]))[
        0
    ].outcome


def test_a_full_round_becomes_one_batch_and_is_erased_where_it_lay(tmp_path: Path) -> None:
    held = Rounds(tmp_path, 50)
    held.tokens(*range(50))
    held.open(0)
    assert {each.outcome for each in asyncio.run(held.answer(0, *range(50)))} == {Outcome.KEPT}
    assert held.settle(0) == "close"
    assert sorted(held.batch(0)) == sorted(bytes_of(n) for n in range(50))
    assert held.batch(0) != [bytes_of(n) for n in range(50)]
    (name,) = held.db.execute("SELECT batch FROM round").fetchone()
    assert name == batch_id(IDENTITY, 0, held.batch(0))
    assert held.sizes() == {"held": 0, "outbox": 1, "place": 0, "spent": 50, "notice": 0}
    with transaction(held.db):
        rounds.forwarded(held.db, 1, 0)
    assert held.state(0) == "forwarded"
    held.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not any(bytes_of(n) in raw for n in range(50))


def test_one_report_below_the_number_yields_nothing_for_ever(tmp_path: Path) -> None:
    held = Rounds(tmp_path, 50, 50)
    held.tokens(*range(120))
    held.open(0, closes=1_000)
    asyncio.run(held.answer(0, *range(49)))
    assert held.settle(0, now=999) == ""
    assert held.settle(0, now=1_000) == "extend"
    assert held.settle(0, now=1_599) == ""
    assert held.settle(0, now=1_600) == "drop"
    assert held.state(0) == "dropped"
    assert held.db.execute("SELECT round, status, reports FROM notice").fetchall() == [(0, "dropped", 49)]
    # Neither a late report, nor the next round, nor time brings it back.
    assert place(held, 49) is Outcome.NONE
    assert keep(held, 0) is Outcome.SPENT
    held.open(1)
    asyncio.run(held.answer(1, *range(50, 100)))
    assert held.settle(1, now=10**9) == "close"
    assert set(held.batch(1)) == {bytes_of(n) for n in range(50, 100)}
    assert held.batch(0) == []
    held.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    raw = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not any(bytes_of(n) in raw for n in range(49))


def test_a_round_is_closed_only_with_its_number_whoever_asks(tmp_path: Path) -> None:
    held = Rounds(tmp_path, 10)
    held.tokens(*range(9))
    held.open(0)
    asyncio.run(held.answer(0, *range(9)))
    with transaction(held.db):
        assert not rounds.close(held.db, 1, 0, 10)
    assert held.state(0) == "open"


@pytest.mark.parametrize(
    ("held", "extended", "now", "over", "expected"),
    [
        (10, False, 0, 100, "close"),
        (10, True, 999, 100, "close"),  # full at the last moment is full
        (9, False, 49, 100, None),
        (9, False, 50, 100, "extend"),
        (9, True, 50, 100, "drop"),
        (9, False, 100, 100, "drop"),  # at the campaign's end there is no extension
        (0, True, 50, 100, "drop"),
    ],
)
def test_what_is_done_with_a_round(
    held: int, extended: bool, now: float, over: float, expected: str | None
) -> None:
    assert event_due(OpenRound(0, held, 50, extended), 10, now, over) == expected


def test_no_more_places_are_given_out_than_the_round_needs(tmp_path: Path) -> None:
    held = Rounds(tmp_path, 3, 3)
    held.tokens(*range(9))
    assert place(held, 0) is Outcome.NONE  # nothing is announced
    held.open(0)
    assert [place(held, n) for n in range(4)] == [Outcome.PLACED] * 3 + [Outcome.NONE]
    assert place(held, 1) is Outcome.HAS
    assert keep(held, 1) is Outcome.KEPT
    assert place(held, 3) is Outcome.NONE
    assert (place(held, 1), keep(held, 1)) == (Outcome.SPENT, Outcome.SPENT)
    assert place(held, 77) is Outcome.UNKNOWN


def test_a_lease_that_ran_out_gives_its_place_away_and_a_late_report_is_kept_while_the_round_is_open(
    tmp_path: Path,
) -> None:
    held = Rounds(tmp_path, 2, 2)
    held.tokens(*range(5))
    held.open(0)
    now = int(time.time())
    assert [place(held, 0, until=now - 1), place(held, 1)] == [Outcome.PLACED] * 2
    held.store._in_flight.clear()  # as a second later
    assert place(held, 2) is Outcome.PLACED
    assert [keep(held, n) for n in (1, 2, 0)] == [Outcome.KEPT] * 3
    assert held.settle(0) == "close"
    assert len(held.batch(0)) == 3  # overfull: all of it is forwarded
    assert place(held, 4) is Outcome.NONE


def test_a_token_has_one_round_ever(tmp_path: Path) -> None:
    held = Rounds(tmp_path, 1, 1)
    held.tokens(0, 1, 2)
    held.open(0)
    now = int(time.time())
    assert place(held, 0, until=now - 1) is Outcome.PLACED
    held.store._in_flight.clear()
    assert place(held, 1) is Outcome.PLACED
    assert keep(held, 1) is Outcome.KEPT
    assert held.settle(0) == "close"
    with transaction(held.db):
        rounds.forwarded(held.db, 1, 0)
    held.open(1)
    assert (place(held, 0), keep(held, 0), keep(held, 0, round=1)) == (Outcome.OVER, Outcome.OVER, Outcome.STRAY)
    assert keep(held, 2, round=1) is Outcome.STRAY


def test_somebody_elses_sealed_bytes_are_refused(tmp_path: Path) -> None:
    held = Rounds(tmp_path, 3)
    held.tokens(0, 1)
    held.open(0)
    place(held, 0)
    place(held, 1)
    assert keep(held, 0) is Outcome.KEPT
    assert keep(held, 1, sealed=bytes_of(0)) is Outcome.COPY
    assert keep(held, 1) is Outcome.KEPT  # a refused copy does not spend the token


def chi_square_of_order(folder: Path, batches: int, order, size: int = 16) -> float:  # type: ignore[no-untyped-def]
    """How far the places in the batches are from independent of the places of arrival: a chi-square statistic.

    `size` - 1 squared degrees of freedom, as of a table of place of arrival by place in the batch with fixed sums.
    """
    counts = [[0] * size for _ in range(size)]
    held = Rounds(folder, *([size] * batches))
    held.tokens(*range(batches * size))
    arrived: list[bytes] = []
    for number in range(batches):
        devices = range(number * size, (number + 1) * size)
        held.open(number)
        asyncio.run(held.answer(number, *devices))
        assert held.settle(number, order=order) == "close"
        arrived = [bytes_of(n) for n in devices]
        for place_in_batch, sealed in enumerate(held.batch(number)):
            counts[arrived.index(sealed)][place_in_batch] += 1
        with transaction(held.db):
            rounds.forwarded(held.db, 1, number)
    expected = batches / size
    # Of a random permutation the cells of a row are not independent: (size - 1) / size makes up for it.
    return sum((cell - expected) ** 2 / expected for row in counts for cell in row) * (size - 1) / size


def test_the_order_of_a_batch_says_nothing_of_the_order_of_arrival(tmp_path: Path) -> None:
    """200 batches; a false alarm once in a million runs. The twin does not permute and is found."""
    limit = chi2.isf(1e-6, 15**2)
    assert chi_square_of_order(tmp_path / "a", 200, rounds.permute) < limit
    # Not permuted, reports lie by their own bytes, which are independent of arrival: as good as mixed, by design
    # of the table. A table in the order of arrival is what would be seen.
    arrival = {bytes_of(n): n for n in range(200 * 16)}
    assert (
        chi_square_of_order(tmp_path / "b", 200, lambda sealed: sealed.sort(key=arrival.__getitem__)) > 10 * limit
    )


def test_the_table_itself_has_no_order_of_arrival(tmp_path: Path) -> None:
    """The second line of defence: held by their own bytes, reports lie in the same order however they came."""
    files = []
    for name, devices in (("a", range(100)), ("b", reversed(range(100)))):
        held = Rounds(tmp_path / name, 100)
        held.tokens(*range(100))
        held.open(0)
        asyncio.run(held.answer(0, *devices, group=7))
        rows = held.db.execute("SELECT * FROM held").fetchall()
        files.append(rows)
    assert files[0] == files[1]


def test_permute_reaches_every_order() -> None:
    """4! orders in 2,400 draws: chi-square with 23 degrees of freedom, a false alarm once in a million runs."""
    seen: dict[tuple[bytes, ...], int] = {}
    for _ in range(2_400):
        four = [b"a", b"b", b"c", b"d"]
        rounds.permute(four)
        seen[tuple(four)] = seen.get(tuple(four), 0) + 1
    assert len(seen) == 24
    assert sum((count - 100) ** 2 / 100 for count in seen.values()) < chi2.isf(1e-6, 23)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.sqlite3"
    prepare(file)
    with opened(file) as db:
        db.execute("PRAGMA application_id=7")
    with pytest.raises(InvalidInput, match="not a shuffler's database"):
        prepare(file)


@pytest.mark.full
def test_a_million_devices_through_the_batching(tmp_path: Path) -> None:
    """One round of 10^6: kept in groups of 1,000, mixed, and made 20 parts; every report once."""
    count = 10**6
    held = Rounds(tmp_path, count)
    held.tokens(*range(count))
    held.open(0)
    began = time.perf_counter()
    asyncio.run(held.answer(0, *range(count)))
    kept = time.perf_counter()
    assert held.settle(0) == "close"
    mixed = time.perf_counter()
    batch = held.batch(0)
    assert len(batch) == len(set(batch)) == count
    assert held.sizes()["outbox"] == 20
    with transaction(held.db):
        rounds.forwarded(held.db, 1, 0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"10^6 devices: {count / (kept - began):,.0f}/s placed and kept, mixed in {mixed - kept:.1f} s, "
        f"erased in {time.perf_counter() - mixed:.1f} s, {memory} MiB at most",
        file=sys.stderr,
    )

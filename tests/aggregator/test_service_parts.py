"""The parts of the aggregator by themselves: tickets, keys, group commit, campaign protocol, settings, logs."""

from __future__ import annotations

import asyncio
import hmac
import io
import json
import logging
import random
import stat
from pathlib import Path
from typing import Any

import pytest
from scene import manifest

from privquant.aggregator.campaign.alarms import alarms, poisoning
from privquant.aggregator.campaign.mode import estimates_as_json
from privquant.aggregator.campaign.protocol import (
    CampaignProtocol,
    build_protocol,
    campaign_options,
    estimates_of,
)
from privquant.aggregator.devices.campaign_cache import CampaignView, Tickets, Unreadable
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.base import (
    Ask,
    AskResult,
    CampaignRow,
    Counts,
    Outcome,
    Pin,
    Published,
    Unavailable,
)
from privquant.domain import Grid
from privquant.errors import InvalidInput, ProtocolError
from privquant.messages import Query
from privquant.privacy.coin import flip_threshold
from privquant.server import logs
from privquant.server.group_commit import GroupCommit
from privquant.server.keys import KeyFolder, KeyMissing, KeyUnusable
from privquant.server.token_ids import TokenIds
from privquant.wire import public_key_of, sign_manifest

COIN = flip_threshold(1.0)
TICKETS = Tickets(b"s" * 32, COIN)
HASH, OTHER = b"h" * 32, b"o" * 32


# -- tickets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", [Query(0, COIN), Query(2**63 - 2, COIN, 2**32 - 1, 2**16 - 1)])
def test_a_ticket_reads_back_for_its_token_alone(query: Query) -> None:
    ticket = TICKETS.ticket(HASH, query)
    assert TICKETS.read(HASH, ticket) == query
    assert TICKETS.read(OTHER, ticket) is None
    assert Tickets(b"t" * 32, COIN).read(HASH, ticket) is None
    for bad in ("", "A", "A" * 200, ticket[:-4], ticket + "AAAA", "!" * 40):
        assert TICKETS.read(HASH, bad) is None


def test_every_changed_character_of_a_ticket_is_found() -> None:
    ticket = TICKETS.ticket(HASH, Query(5, COIN))
    for place, old in enumerate(ticket):
        changed = ticket[:place] + ("A" if old != "A" else "B") + ticket[place + 1 :]
        assert TICKETS.read(HASH, changed) is None


def test_a_box_opens_for_its_token_alone_and_has_one_size() -> None:
    boxes = [TICKETS.seal(HASH, Query(threshold, COIN)) for threshold in (0, 2**62)]
    assert TICKETS.unseal(HASH, boxes[1]).threshold == 2**62
    assert len(boxes[0]) == len(boxes[1]) == 42
    for tickets, hashed, box in ((TICKETS, OTHER, boxes[0]), (Tickets(b"t" * 32, COIN), HASH, boxes[0])):
        with pytest.raises(Unreadable):
            tickets.unseal(hashed, box)


@pytest.mark.parametrize("size", [0, 1, 32, 64, 65, 200])
def test_a_key_taken_in_once_gives_the_library_s_hmac(size: int) -> None:
    key, message = random.Random(size).randbytes(size), random.Random(-size).randbytes(3 * size)
    keyed = TokenIds(key)
    for text in (message, b"", message):  # what it was asked before leaves no trace in it
        assert keyed.digest(text) == hmac.digest(key, text, "sha256")


def test_waves_are_even() -> None:
    """10,000 tokens over 4 waves: each has 2,500 +- 5 standard deviations (217); false-alarm rate below 1e-5."""
    drawn = [TICKETS.wave(random.Random(k).randbytes(32), 4) for k in range(10_000)]
    assert all(abs(drawn.count(wave) - 2_500) < 217 for wave in range(4))


# -- keys --------------------------------------------------------------------------------------------------


def test_keys_are_made_once_and_read_by_their_owner_alone(tmp_path: Path) -> None:
    ring = KeyFolder(tmp_path / "keys")
    (file,) = (tmp_path / "keys").glob("*.pem")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert public_key_of(KeyFolder(tmp_path / "keys").current) == public_key_of(ring.current)
    file.chmod(0o644)
    with pytest.raises(KeyUnusable, match="chmod 600"):
        _ = KeyFolder(tmp_path / "keys").current


def test_rotation_keeps_what_older_campaigns_need(tmp_path: Path) -> None:
    ring = KeyFolder(tmp_path / "keys")
    old = public_key_of(ring.current)
    secret = ring.campaign_secret(old, "0" * 64)
    ring.rotate()
    again = KeyFolder(tmp_path / "keys")
    assert public_key_of(again.current) != old
    assert again.campaign_secret(old, "0" * 64) == secret
    assert again.campaign_secret(old, "1" * 64) != secret
    assert len(again.fingerprints()) == 2
    with pytest.raises(KeyMissing):
        again.campaign_secret("ab" * 32, "0" * 64)


def test_a_key_folder_that_lost_its_pointer_is_not_started_afresh(tmp_path: Path) -> None:
    KeyFolder(tmp_path / "keys")
    (tmp_path / "keys" / "current").unlink()
    with pytest.raises(InvalidInput, match="backup"):
        KeyFolder(tmp_path / "keys")


# -- group commit ------------------------------------------------------------------------------------------


def test_an_ask_is_answered_after_its_group_is_committed() -> None:
    async def run() -> list[str]:
        events: list[str] = []
        groups: list[int] = []

        async def commit(asks: list[Ask]) -> list[AskResult]:
            groups.append(len(asks))
            await asyncio.sleep(0.01)
            events.append("committed")
            return [AskResult(Outcome.PINNED, ask.id) for ask in asks]

        group = GroupCommit(commit)
        group.start()

        async def one(k: int) -> None:
            outcome = await group.put(Pin(1, b"%d" % k, None, 0))
            assert outcome.box == b"%d" % k  # its own outcome, not a neighbour's
            events.append("answered")

        await asyncio.gather(*[one(k) for k in range(50)])
        await group.stop()
        assert groups[0] <= 50
        assert sum(groups) == 50
        return events

    events = asyncio.run(run())
    assert events[0] == "committed"
    assert events.count("answered") == 50


@pytest.mark.parametrize(("moment", "sizes"), [(0.05, [4, 4]), (0.0, [4, 1, 3])])
def test_a_group_smaller_than_the_last_waits_a_moment_where_it_is_told_to(moment: float, sizes: list[int]) -> None:
    async def run() -> list[int]:
        groups: list[int] = []

        async def commit(asks: list[Ask]) -> list[AskResult]:
            groups.append(len(asks))
            await asyncio.sleep(0.01)
            return [AskResult(Outcome.COUNTED) for _ in asks]

        group = GroupCommit(commit, moment=moment)
        asks = [group.put(Pin(1, b"x", None, 0)) for _ in range(4)]
        group.start()
        await asyncio.gather(*asks)
        first = group.put(Pin(1, b"x", None, 0))
        await asyncio.sleep(0.005)  # the others come a little later
        await asyncio.gather(first, *[group.put(Pin(1, b"x", None, 0)) for _ in range(3)])
        await group.stop()
        return groups

    assert asyncio.run(run()) == sizes


def test_a_group_the_store_did_not_take_is_refused_ask_by_ask_and_the_next_one_goes_on() -> None:
    async def run() -> None:
        failures: list[Exception] = [Unavailable("down"), RuntimeError("a bug")]

        async def commit(asks: list[Ask]) -> list[AskResult]:
            if failures:
                raise failures.pop(0)
            return [AskResult(Outcome.COUNTED) for _ in asks]

        group = GroupCommit(commit, depth=2)
        group.start()
        for _ in range(2):
            with pytest.raises(Unavailable):
                await group.put(Pin(1, b"x", None, 0))
        assert (await group.put(Pin(1, b"x", None, 0))).outcome is Outcome.COUNTED
        waiting = [group.put(Pin(1, b"x", None, 0)) for _ in range(2)]
        with pytest.raises(Unavailable, match="too many"):
            group.put(Pin(1, b"x", None, 0))
        await asyncio.gather(*waiting)
        await group.stop()
        with pytest.raises(Unavailable):
            group.put(Pin(1, b"x", None, 0))

    asyncio.run(run())


# -- campaign protocol -------------------------------------------------------------------------------------------


def reports(count: int, seed: int) -> list[Counts]:
    """What a simulated campaign stores, as single reports in the order they came."""
    rng, search, told = random.Random(seed), CampaignProtocol(manifest()), []
    for _ in range(count):
        query = rng.choice(search.next_queries())[0]
        bit = int(rng.random() < 0.2 + 0.6 * query.threshold / 999)
        told.append(Counts(query, 1, bit))
        search.update(summed(told))
    return told


def summed(rows: list[Counts]) -> list[Counts]:
    found: dict[Query, tuple[int, int]] = {}
    for row in rows:
        answered, ones = found.get(row.query, (0, 0))
        found[row.query] = (answered + row.answered, ones + row.ones)
    return [Counts(query, *pair) for query, pair in found.items()]


def test_the_protocol_depends_on_counts_alone() -> None:
    """The slow twin: told one by one in two orders, summed at once, and step by step: one and the same estimate."""
    told = reports(120, seed=11)
    shuffled = random.Random(12).sample(told, len(told))
    one_by_one, grown = CampaignProtocol(manifest()), CampaignProtocol(manifest())
    for row in shuffled:
        one_by_one.protocol.tell_counts(row.query, row.answered, row.ones)
    for size in range(1, len(shuffled) + 1):
        grown.update(summed(shuffled[:size]))
    expected = estimates_of(manifest(), summed(told))
    assert one_by_one.estimates() == grown.estimates() == expected
    assert grown.next_queries() == one_by_one.next_queries()


def test_an_estimate_follows_the_reports() -> None:
    """The other twin: flip every bit and the estimate is another one."""
    told = reports(120, seed=13)
    flipped = [Counts(row.query, 1, 1 - row.ones) for row in told]
    assert estimates_of(manifest(), summed(told)) != estimates_of(manifest(), summed(flipped))


def test_who_was_asked_and_is_not_heard_takes_no_place_of_the_plan() -> None:
    """Asked over and over, with nobody heard, the plan is never used up; the twin that remembers runs out."""
    search, twin = CampaignProtocol(manifest()), CampaignProtocol(manifest()).protocol
    first = search.next_queries()
    assert all(search.next_queries() == first for _ in range(20))
    assert search.protocol.in_flight == sum(users for _, users in first)
    assert not [twin.ask_counts(64) for _ in range(20)][-1]


def test_counts_that_went_down_are_found() -> None:
    search = CampaignProtocol(manifest())
    query = search.next_queries()[0][0]
    assert search.update([Counts(query, 2, 1)])
    assert not search.update([Counts(query, 2, 1)])
    with pytest.raises(ProtocolError, match="went down"):
        search.update([Counts(query, 1, 1)])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"protocol": "naive"}, "count per threshold"),
        ({"protocol": "hierarchical"}, "count per threshold"),
        ({"protocol": "bayess"}, "count per threshold"),
        ({"protocol": "isotonic", "options": (("lam", "2.5"),)}, "lam"),
    ],
)
def test_what_a_campaign_cannot_run_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        build_protocol(manifest(**change))


def test_isotonic_campaigns_spread_and_are_guarded_unless_told_otherwise() -> None:
    assert dict(campaign_options("isotonic", ())) == {"spread": "0.25", "guard": True}
    assert dict(campaign_options("isotonic", (("spread", "0.0"), ("guard", False)))) == {
        "spread": "0.0",
        "guard": False,
    }
    assert campaign_options("bayeslearn", ()) == ()


def test_an_estimate_without_bound_is_plain_json() -> None:
    told = [Counts(Query(1, COIN, phase=1), 40, 2)]
    (estimate,) = estimates_of(manifest(domain=Grid([1.0, 2.0])), told)
    form = json.loads(json.dumps(estimates_as_json([estimate])[0], allow_nan=False))
    assert (form["value"], form["bin"]) == (None, "(2, inf)")


def test_reports_that_cannot_be_honest_raise_an_alarm() -> None:
    """Honest rates at epsilon 1 lie in 0.27 .. 0.73; false-alarm rate 1e-6."""
    honest = [Counts(Query(c, COIN, phase=1), 10, 7) for c in range(100)]
    assert alarms(manifest(), honest) == []
    assert alarms(manifest(), []) == []
    liars = [Counts(Query(c, COIN, phase=1), 10, 10 if c < 40 else 7) for c in range(100)]
    found = alarms(manifest(), liars)
    assert len(found) == 2
    assert "0 .. 19" in found[0]
    assert "liars can move the answer's rank by -1.1 to +1.1 points. This is for liars" in poisoning(manifest())
    several = poisoning(manifest(quantiles=(0.5, 0.9)))
    assert "-1.1 to +1.1 points at quantile 0.5; " in several
    assert "points at quantile 0.9. This is for liars" in several


# -- campaign cache, settings, logs ------------------------------------------------------------------------


def test_queries_are_handed_out_in_proportion(tmp_path: Path) -> None:
    ring = KeyFolder(tmp_path / "keys")
    signed = manifest(issuer=public_key_of(ring.current))
    view = CampaignView(CampaignRow(1, signed.id, "open", sign_manifest(signed, ring.current), 0.0, 0), ring)
    assert view.next_query() is None
    often, seldom = Query(1, COIN), Query(2, COIN)
    view.set_queries(Published([(often, 30), (seldom, 10)], 0), random.SystemRandom())
    drawn = [view.next_query() for _ in range(80)]
    assert (drawn.count(often), drawn.count(seldom)) == (60, 20)
    view.set_queries(Published([(often, 10**9), (seldom, 1)], 0), random.SystemRandom())
    assert view.next_query() is not None


def test_flags_beat_the_environment_which_beats_defaults() -> None:
    environment = {"PRIVQUANT_PORT": "1234", "PRIVQUANT_HOST": "::1", "PRIVQUANT_REFRESH": "0.5"}
    found = Settings.gather({"port": 99, "host": None}, environment)
    assert (found.port, found.host, found.refresh, found.lease_minutes) == (99, "::1", 0.5, 10)
    assert found.url == "http://[::1]:99"
    assert Settings.gather({}, found.environment()) == found


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"port": "many"}, "port"),
        ({"port": 70_000}, "port"),
        ({"workers": 2}, "postgresql"),
        ({"database": "mysql://x"}, "postgresql"),
        ({"log_level": "loud"}, "log_level"),
        ({"public_url": "https://x/"}, "slash"),
    ],
)
def test_settings_that_cannot_be_used(flags: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        Settings.gather(flags, {})


def test_a_log_line_of_an_error_does_not_quote_it() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs._JsonLines())
    logger = logging.getLogger("privquant.test-logs")
    logger.addHandler(handler)
    logger.propagate = False
    try:
        raise ValueError("a token: secret")
    except ValueError as error:
        logger.error("a request failed", exc_info=error)
    line = json.loads(stream.getvalue())
    assert (line["error"], line["event"]) == ("ValueError", "a request failed")
    assert "secret" not in stream.getvalue()
    assert Settings().sqlite_file.name == "store.sqlite3"

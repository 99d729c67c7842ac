"""Shuffled campaigns in the aggregator: the plan of rounds, the fold, and the rows on both databases."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant import wire
from privquant.aggregator import metrics
from privquant.aggregator.campaign.campaigns import mode_of, new_manifest
from privquant.aggregator.campaign.mode import Draft, ShuffleDraft
from privquant.aggregator.campaign.protocol import RoundFold, folded
from privquant.aggregator.campaign.shuffled import RoundsSoFar, plan_in_words, planned_rounds
from privquant.aggregator.devices.campaign_cache import CampaignCache
from privquant.aggregator.devices.routes import BatchRoutes
from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
from privquant.aggregator.store import rounds as shuffled_rounds
from privquant.aggregator.store import schema
from privquant.aggregator.store.migrate import opened
from privquant.aggregator.store.operator_queries import add_campaign, as_dict, read_counts, reading, writing
from privquant.aggregator.store.rounds import ANNOUNCED, COUNTED, DROPPED, RoundRow
from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.privacy.coin import Coin, real_epsilon
from privquant.privacy.shuffle import delta as exact_delta
from privquant.privacy.shuffle import honest
from privquant.server.keys import KeyFolder, seal_key
from privquant.wire.shuffle_promise import check_rounds, promise

DOMAIN = Integers(0, 999)
DRAFT = ShuffleDraft(1e-4, "https://shuffle.example.org", "ab" * 32)


def manifest(folder: Path, protocol: str = "isotonic", users: int = 1_400, **changes: object) -> wire.Manifest:
    shuffle = replace(DRAFT, **{k: v for k, v in changes.items() if k in ShuffleDraft.__slots__})
    rest = {k: v for k, v in changes.items() if k not in ShuffleDraft.__slots__}
    draft = Draft("m", "How much?", DOMAIN, 1.0, users, protocol=protocol, shuffle=shuffle, **rest)
    return new_manifest(draft, KeyFolder(folder / "keys"))


# -- the plan ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["isotonic", "naive"])
def test_every_round_keeps_the_promise_with_its_colluders_counted_out(protocol: str) -> None:
    draft = replace(DRAFT, delta=1e-6, colluding=0.1)
    rounds = planned_rounds(protocol, DOMAIN, users=20_000, epsilon=1.0, draft=draft)
    assert sum(row.batch for row in rounds) == 20_000
    for row in {*rounds}:
        left = honest(row.batch, 0.1)
        assert exact_delta(epsilon=1.0, local_epsilon=Coin(row.coin).epsilon, batch=left) <= 1e-6
    # The most honest coin that does: one a hundredth better does not, in the largest round.
    last = max(rounds, key=lambda row: row.batch)
    better = 1.01 * real_epsilon(last.coin)
    if protocol == "isotonic":
        assert exact_delta(epsilon=1.0, local_epsilon=better, batch=honest(last.batch, 0.1)) > 1e-6
    else:
        assert len({row.coin for row in rounds}) == 1


def test_drop_outs_are_not_planned_for_and_the_cap_holds() -> None:
    all_of_them = planned_rounds("isotonic", DOMAIN, users=20_000, epsilon=1.0, draft=DRAFT)
    fewer = planned_rounds("isotonic", DOMAIN, users=20_000, epsilon=1.0, draft=replace(DRAFT, drop_outs=0.25))
    assert sum(row.batch for row in fewer) == 15_000
    capped = planned_rounds("isotonic", DOMAIN, users=20_000, epsilon=1.0, draft=replace(DRAFT, cap=2.0))
    assert max(real_epsilon(row.coin) for row in capped) <= 2.0 < max(real_epsilon(r.coin) for r in all_of_them)
    assert "2" in plan_in_words(capped)


def test_where_shuffling_gains_nothing_it_is_refused() -> None:
    with pytest.raises(InvalidInput, match="gains nothing"):
        planned_rounds("isotonic", DOMAIN, users=50, epsilon=1.0, draft=replace(DRAFT, delta=1e-9))
    with pytest.raises(InvalidInput, match="gains nothing"):
        planned_rounds("isotonic", DOMAIN, users=20_000, epsilon=1.0, draft=replace(DRAFT, cap=1.0))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"protocol": "hierarchical"}, "protocol"),
        ({"interval": 0.9}, "certified interval"),
        ({"options": (("spread", "0.25"),)}, "leave interval and spread out"),
        ({"drop_outs": 1.0}, "drop_outs"),
        ({"address": "http://shuffle.example.org"}, "not encrypted"),
    ],
)
def test_what_a_shuffled_campaign_cannot_be(tmp_path: Path, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        mode_of(manifest(tmp_path, **changes)).first_queries()


@pytest.mark.parametrize("protocol", ["isotonic", "naive"])
def test_the_manifest_says_all_of_it_and_reads_back(tmp_path: Path, protocol: str) -> None:
    made = manifest(tmp_path, protocol, colluding=0.05)
    mode_of(made).first_queries()
    assert wire.Manifest.from_dict(made.to_dict()) == made
    keys = KeyFolder(tmp_path / "keys")
    assert made.shuffle.seal == wire.SealKey.of(seal_key(keys, made.issuer, made.nonce))
    said = promise(made)
    assert (said.epsilon, said.delta) == (1.0, 1e-4)
    assert [row.batch for row in said.rounds] == [honest(row.batch, 0.05) for row in made.shuffle.rounds]


def test_a_table_with_one_coin_too_honest_is_found(tmp_path: Path) -> None:
    made = manifest(tmp_path)
    check_rounds(made)
    rows = list(made.shuffle.rounds)
    rows[3] = wire.RoundTerms(rows[3].batch, rows[3].coin * 9 // 10)
    worse = replace(made, shuffle=replace(made.shuffle, rounds=tuple(rows)), flip_threshold=rows[3].coin)
    with pytest.raises(InvalidInput, match="round 3 does not keep"):
        check_rounds(worse)


# -- the fold ------------------------------------------------------------------------------------------------------


def walk(made: wire.Manifest, ends: list[int | None]) -> list[RoundRow]:
    """Rounds that ended with so many reports more than their number; None: dropped."""
    rows: list[RoundRow] = []
    fold = RoundFold(made)
    for number, more in enumerate(ends):
        fold.update(rows)
        threshold = fold.next_threshold()
        assert threshold is not None
        answered = 0 if more is None else made.shuffle.rounds[number].batch + more
        state = DROPPED if more is None else COUNTED
        ones = answered * (threshold + 1) // 1000
        rows.append(RoundRow(number, threshold, b"", state, True, False, f"{number}", answered, answered, ones))
    return rows


@pytest.mark.parametrize("protocol", ["isotonic", "naive"])
def test_folded_at_once_or_step_by_step_it_asks_the_same(tmp_path: Path, protocol: str) -> None:
    made = manifest(tmp_path, protocol)
    rows = walk(made, [0, 7, None, 0, 3, 0])
    step = RoundFold(made)
    for place in range(len(rows)):
        # As after a restart at any moment: a fold from nothing asks what was asked.
        assert folded(made, rows[:place]).next_threshold() == rows[place].threshold
        step.update(rows[: place + 1])
    assert step.estimates() == folded(made, rows).estimates()
    assert step.protocol.heard == sum(row.answered for row in rows)


def test_a_round_that_is_open_is_not_folded(tmp_path: Path) -> None:
    made = manifest(tmp_path)
    rows = walk(made, [0, 0])
    open_row = replace(rows[1], state=ANNOUNCED, answered=0, ones=0)
    assert folded(made, [rows[0], open_row]).protocol.heard == rows[0].answered


def test_a_campaign_in_rounds_finds_the_median(tmp_path: Path) -> None:
    made = manifest(tmp_path, users=20_000, delta=1e-6)
    rows = walk(made, [0] * len(made.shuffle.rounds))
    fold = folded(made, rows)
    assert fold.next_threshold() is None
    (estimate,) = fold.estimates()
    assert estimate.guarantee.trust == "shuffle"
    # Ones came without a coin at the true rate of a uniform population, so de-biased the rate is off by design only
    # away from the middle; the answer lies near the median.
    assert abs(int(estimate.value) - 500) < 20


# -- the rows, on both databases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_round_ends_once_whoever_comes_second(
    tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    dsn = request.getfixturevalue("fresh_database") if database == "postgresql" else ""
    made = manifest(tmp_path)
    key = KeyFolder(tmp_path / "keys").current

    async def story() -> None:
        async with opened(Settings(data=tmp_path / "data", database=dsn)) as engine:
            async with writing(engine) as db:
                await db.execute(
                    schema.campaign.insert().values(
                        no=1, id=made.id, envelope=wire.sign_manifest(made, key), state="open", created=0, pace=0.0
                    )
                )
            thresholds: list[int] = []
            protocol = RoundFold(made).protocol
            for number, ends in enumerate((COUNTED, DROPPED, ANNOUNCED)):
                async with reading(engine) as db:
                    rows = await shuffled_rounds.rounds_in(db, 1)
                threshold = folded(made, rows).next_threshold()
                assert threshold is not None
                said = wire.next_announcement(made.id, thresholds, threshold)
                envelope = wire.sign_announcement(said, made, key)
                assert await shuffled_rounds.announce(engine, 1, number, threshold, envelope)
                assert not await shuffled_rounds.announce(engine, 1, number, threshold + 1, b"another")
                thresholds.append(threshold)
                needed = made.shuffle.rounds[number].batch
                batch = wire.BatchPart(made.id, number, f"{number:064}", needed, 0, 1, ())
                query = protocol.query_of_round(number, threshold)
                if ends == COUNTED:
                    at_once = await asyncio.gather(
                        *[
                            shuffled_rounds.count_batch(engine, 1, batch, query, needed, needed // 3)
                            for _ in range(3)
                        ]
                    )
                    assert sorted(at_once) == [False, False, True]
                    assert not await shuffled_rounds.drop_round(engine, 1, number, 5)
                elif ends == DROPPED:
                    assert await shuffled_rounds.drop_round(engine, 1, number, 5)
                    assert not await shuffled_rounds.count_batch(engine, 1, batch, query, needed, 0)
            async with reading(engine) as db:
                served = as_dict(await read_counts(db, 1))
                found = RoundsSoFar(made, await shuffled_rounds.rounds_in(db, 1))
            assert [row.state for row in found.rows] == [COUNTED, DROPPED, ANNOUNCED]
            assert [row.reports for row in found.rows] == [made.shuffle.rounds[0].batch, 5, 0]
            assert found.verified(served)["ok"]
            # verify finds what was changed: a count, a batch that is short, a threshold that was not asked.
            assert not found.verified({})["ok"]
            first = found.rows[0]
            for wrong in (
                replace(first, reports=first.reports - 1),
                replace(first, ones=first.ones + 50),
                replace(first, batch=None),
                replace(first, threshold=first.threshold + 1),
                replace(first, state=DROPPED),
            ):
                assert not replace(found, rows=[wrong, *found.rows[1:]]).verified(served)["ok"], wrong

    asyncio.run(story())


# -- batches in parts ----------------------------------------------------------------------------------------------


def test_batches_that_are_refused_are_counted_by_their_reason(tmp_path: Path) -> None:
    made, keys = manifest(tmp_path), KeyFolder(tmp_path / "keys")
    local = new_manifest(Draft("m", "How much?", DOMAIN, 1.0, 100), keys)

    def refused(reason: str) -> float:
        return metrics.refusals.labels(reason)._value.get()

    async def story() -> None:
        settings = Settings(data=tmp_path / "data")
        async with opened(settings) as engine:
            async with writing(engine) as db:
                for each in (made, local):
                    envelope = wire.sign_manifest(each, keys.current)
                    await add_campaign(db, [], id=each.id, envelope=envelope, pace=0.0)
            store = open_device_store(settings)
            cache = CampaignCache(store, keys)
            routes = BatchRoutes(engine, cache, keys, lambda: None)
            for identity, method, status, reason in (
                ("no id", "POST", 422, "invalid"),
                ("0" * 64, "POST", 404, "unknown-campaign"),
                (local.id, "POST", 404, "unknown-campaign"),
                (made.id, "GET", 405, "method-not-allowed"),
                (made.id, "POST", 400, "malformed"),
            ):
                for route in (wire.BATCHES, wire.NOTICES):
                    before = refused(reason)
                    reply = await routes.handle(identity, route, method, b"{}", asyncio.Event().wait)
                    assert (reply.status, refused(reason) - before) == (status, 1.0), (identity, route)
            assert metrics.requests.labels("batches", 400)._value.get() >= 1
            view = await cache.view(made.id)
            assert view is not None
            view.refusals.tell()
            # The view was made by the first request that needed it.
            assert metrics.told_refusals(made.id) == {"malformed": 2}
            await store.close()

    asyncio.run(story())


class OneCampaign:
    """What the routes ask a cache for."""

    def __init__(self, made: wire.Manifest) -> None:
        self.found = SimpleNamespace(no=1, id=made.id, manifest=made, state="open")

    async def served(self, _identity: str, _route: wire.Route) -> SimpleNamespace:
        return self.found

    def refused(self, _identity: str, _reason: str) -> None:
        pass


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_batch_in_parts_is_counted_when_the_last_is_there(
    tmp_path: Path, database: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any order, sent again, over a restart, beside parts of another batch; and not a moment before."""
    monkeypatch.setattr(wire.rounds, "PART_LIMIT", 30)
    dsn = request.getfixturevalue("fresh_database") if database == "postgresql" else ""
    made, keys = manifest(tmp_path), KeyFolder(tmp_path / "keys")
    shuffler = Ed25519PrivateKey.generate()
    made = replace(made, shuffle=replace(made.shuffle, key=wire.public_key_of(shuffler)))
    needed, coin = made.shuffle.rounds[0].batch, made.shuffle.rounds[0].coin

    def parts(seed: int) -> list[bytes]:
        info = wire.report_info(made.id, 0, 5, coin)
        sealed = [wire.seal((place + seed) % 2, made.shuffle.seal, info) for place in range(needed)]
        head = (made.id, 0, wire.batch_id(made.id, 0, sealed), needed)
        cut = [tuple(sealed[start : start + 30]) for start in range(0, needed, 30)]
        made_parts = [wire.BatchPart(*head, number, len(cut), part) for number, part in enumerate(cut)]
        return [wire.sign_part(part, made, shuffler) for part in made_parts]

    async def story() -> None:
        async with opened(Settings(data=tmp_path / "data", database=dsn)) as engine:
            async with writing(engine) as db:
                await db.execute(
                    schema.campaign.insert().values(
                        no=1, id=made.id, envelope=b"", state="open", created=0, pace=0.0
                    )
                )
            said = wire.next_announcement(made.id, [], 5)
            await shuffled_rounds.announce(engine, 1, 0, 5, wire.sign_announcement(said, made, keys.current))
            ends: list[int] = []

            async def send(body: bytes) -> tuple[int, bytes]:
                routes = BatchRoutes(engine, OneCampaign(made), keys, lambda: ends.append(1))  # a fresh process
                reply = await routes.handle(made.id, wire.BATCHES, "POST", body, asyncio.Event().wait)
                return reply.status, reply.body

            mine, other = parts(0), parts(1)
            assert len(mine) == 4
            for body in (mine[2], mine[0], mine[0], mine[3]):
                assert await send(body) == (201, wire.status_body(wire.KEPT))
            status, refusal = await send(other[1])
            assert (status, b"second-batch" in refusal) == (409, True)
            assert ends == []
            assert await send(mine[1]) == (201, wire.status_body(wire.BATCH_COUNTED))
            assert ends == [1]
            for body in mine:
                assert await send(body) == (200, wire.status_body(wire.BATCH_ALREADY_COUNTED))
            async with reading(engine) as db:
                (row,) = await shuffled_rounds.rounds_in(db, 1)
                left = (await db.execute(schema.batch_part.select())).all()
            assert (row.state, row.reports, row.answered, row.ones) == (COUNTED, needed, needed, needed // 2)
            assert left == []  # no sealed report is kept

    asyncio.run(story())

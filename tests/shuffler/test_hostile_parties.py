"""A hostile aggregator against the shuffler, a hostile shuffler against the aggregator, and hostile clients."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fleet import Connection
from parties import Parties, Sealing

from privquant import wire
from privquant.cli.campaign import differing_batches
from privquant.errors import InvalidInput
from privquant.server.http_client import Refusal
from privquant.server.keys import KeyFolder
from privquant.shuffler.campaigns import check_manifest, read_manifest
from privquant.wire.signing import ANNOUNCEMENT, BATCH, sign


def at_shuffler(parties: Parties, manifest: wire.Manifest, route: str, body: bytes) -> tuple[int, dict[str, Any]]:
    return _ask(parties.settings.port, manifest, route, body)


def at_aggregator(parties: Parties, manifest: wire.Manifest, route: str, body: bytes) -> tuple[int, dict[str, Any]]:
    return _ask(parties.scene.settings.port, manifest, route, body)


def _ask(port: int, manifest: wire.Manifest, route: str, body: bytes) -> tuple[int, dict[str, Any]]:
    async def ask() -> tuple[int, bytes]:
        line = Connection("127.0.0.1", port)
        try:
            return await line.request("POST", wire.path_of(manifest.id, route), body)
        finally:
            line.close()

    status, found = asyncio.run(ask())
    return status, json.loads(found)


def code(found: tuple[int, dict[str, Any]]) -> tuple[int, str]:
    return found[0], found[1].get("type", found[1].get("status")).rpartition(":")[2]


def issuer_of(parties: Parties, manifest: wire.Manifest) -> Ed25519PrivateKey:
    return KeyFolder(parties.scene.settings.keys).by_fingerprint(wire.fingerprint(manifest.issuer))


def opened_round(parties: Parties, manifest: wire.Manifest) -> int:
    """The threshold of round 0, once the shuffler has it."""
    rows: list[Any] = []

    def there() -> bool:
        nonlocal rows
        rows = parties.query(
            "SELECT threshold FROM round JOIN campaign ON no = campaign WHERE id = ? AND round = 0", manifest.id
        )
        return bool(rows)

    parties.until(there)
    return int(rows[0][0])


@pytest.fixture(scope="module")
def campaign(parties: Parties) -> wire.Manifest:
    manifest = parties.campaign()
    opened_round(parties, manifest)
    return manifest


def sealed_bits(manifest: wire.Manifest, threshold: int, count: int = 5, **other: int) -> list[bytes]:
    assert manifest.shuffle is not None
    about = {"round": 0, "threshold": threshold, "coin": manifest.shuffle.rounds[0].coin} | other
    info = wire.report_info(manifest.id, about["round"], about["threshold"], about["coin"])
    return [wire.seal(place % 2, manifest.shuffle.seal, info) for place in range(count)]


def signed_batch(parties: Parties, manifest: wire.Manifest, sealed: list[bytes], number: int = 0) -> bytes:
    return wire.sign_part(whole_batch(manifest, sealed, number), manifest, parties.keys.current)


def whole_batch(manifest: wire.Manifest, sealed: list[bytes], number: int = 0) -> wire.BatchPart:
    """A batch that has one part."""
    name = wire.batch_id(manifest.id, number, sealed)
    return wire.BatchPart(manifest.id, number, name, len(sealed), 0, 1, tuple(sealed))


# -- a hostile aggregator ------------------------------------------------------------------------------------------


def test_a_second_announcement_is_refused_kept_as_proof_and_shown(
    parties: Parties, campaign: wire.Manifest
) -> None:
    first = opened_round(parties, campaign)
    other = wire.next_announcement(campaign.id, [], first + 1)
    second = wire.sign_announcement(other, campaign, issuer_of(parties, campaign))
    for _ in range(2):
        assert code(at_shuffler(parties, campaign, "announcements", second)) == (409, "second-announcement")
    (incident,) = parties.books(campaign.id)["incidents"]
    assert incident["what"] == "second announcement"
    proof = [wire.announcement_of(each, campaign) for each in incident["evidence"]]  # both signatures verify
    assert [each.threshold for each in proof] == [first, first + 1]
    assert opened_round(parties, campaign) == first


def test_the_same_announcement_again_is_no_second(parties: Parties, campaign: wire.Manifest) -> None:
    same = wire.next_announcement(campaign.id, [], opened_round(parties, campaign))
    body = wire.sign_announcement(same, campaign, issuer_of(parties, campaign))
    assert code(at_shuffler(parties, campaign, "announcements", body)) == (200, "noted")


def test_a_round_before_its_turn_or_outside_the_manifest_is_refused(
    parties: Parties, campaign: wire.Manifest
) -> None:
    key, first = issuer_of(parties, campaign), opened_round(parties, campaign)
    early = wire.sign_announcement(wire.next_announcement(campaign.id, [first], 7), campaign, key)
    assert code(at_shuffler(parties, campaign, "announcements", early)) == (409, "conflict")
    beyond = wire.Announcement(campaign.id, len(campaign.shuffle.rounds), 7, "0" * 64).to_dict()
    body = wire.canonical({"announcement": beyond, "signature": sign(ANNOUNCEMENT, wire.canonical(beyond), key)})
    assert at_shuffler(parties, campaign, "announcements", body)[0] == 400


def test_an_announcement_of_another_key_is_refused(parties: Parties, campaign: wire.Manifest) -> None:
    form = wire.next_announcement(campaign.id, [], 3).to_dict()
    forged = sign(ANNOUNCEMENT, wire.canonical(form), Ed25519PrivateKey.generate())
    body = wire.canonical({"announcement": form, "signature": forged})
    assert code(at_shuffler(parties, campaign, "announcements", body)) == (403, "forged-signature")


def test_an_aggregator_issues_no_tokens_and_answers_no_device(parties: Parties, campaign: wire.Manifest) -> None:
    """It could fill a batch with fakes, or ask a device around the shuffler."""
    with pytest.raises(Refusal, match="issued by its shuffler"):
        parties.scene.call("POST", f"/v1/campaigns/{campaign.id}/invites", {"count": 5})
    with pytest.raises(Refusal, match="issued by its shuffler"):
        parties.scene.call("POST", f"/v1/campaigns/{campaign.id}/link", {"places": 5})
    for route in ("query", "claims", "reports", "reports:batch"):
        body = wire.query_request(wire.new_token())
        assert code(at_aggregator(parties, campaign, route, body)) == (404, "not-found")


def test_a_table_that_does_not_keep_its_promise_is_not_joined(parties: Parties, campaign: wire.Manifest) -> None:
    """A row with a coin one step too honest, signed by the issuer: refused by accounting."""
    form = campaign.to_dict()
    form["trust"]["rounds"][-1]["coin"] = "1000000000000000"
    forged = wire.Manifest.from_dict(form)
    with pytest.raises(InvalidInput, match=f"round {len(forged.shuffle.rounds) - 1} does not keep"):
        check_manifest(forged, parties.keys.current, parties.settings.url)


def test_a_manifest_for_another_shuffler_or_address_is_not_joined(
    parties: Parties, campaign: wire.Manifest
) -> None:
    with pytest.raises(InvalidInput, match="names the shuffler"):
        check_manifest(campaign, Ed25519PrivateKey.generate(), parties.settings.url)
    with pytest.raises(InvalidInput, match="sends devices to"):
        check_manifest(campaign, parties.keys.current, "https://elsewhere.example")


def test_a_manifest_that_is_not_the_one_named_is_not_joined(parties: Parties, campaign: wire.Manifest) -> None:
    envelope = wire.sign_manifest(campaign, issuer_of(parties, campaign))
    mark = wire.fingerprint(campaign.issuer)
    read_manifest(envelope, campaign_id=campaign.id, key_fingerprint=mark)
    with pytest.raises(InvalidInput, match="not the manifest that was named"):
        read_manifest(envelope, campaign_id="0" * 64, key_fingerprint=mark)
    with pytest.raises(InvalidInput, match="not the manifest that was named"):
        read_manifest(envelope, campaign_id=campaign.id, key_fingerprint="0" * 32)


def test_plain_http_to_another_machine_is_refused(parties: Parties) -> None:
    with pytest.raises(Refusal, match="not encrypted"):
        parties.create(shuffle={"address": "http://shuffle.example.org"})


def test_a_batch_for_an_aggregator_that_closed_is_dropped_said_so_and_erased(parties: Parties) -> None:
    """Acknowledged = forwarded + dropped, also when the other side walks away; then both can delete it."""
    manifest = parties.campaign()
    opened_round(parties, manifest)
    parties.scene.call("POST", f"/v1/campaigns/{manifest.id}/close")
    needed = manifest.shuffle.rounds[0].batch
    asyncio.run(Sealing(parties, manifest, parties.tokens(manifest.id, needed)).run(8))
    parties.until(lambda: parties.books(manifest.id)["rounds"][0]["state"] == "dropped")
    books = parties.books(manifest.id)
    assert (books["acknowledged"], books["forwarded"], books["dropped"], books["waiting"]) == (needed, 0, needed, 0)
    assert [each["what"] for each in books["incidents"]] == ["the aggregator refused the batch: campaign-closed"]
    assert parties.query("SELECT (SELECT count(*) FROM held), (SELECT count(*) FROM outbox)")[0][1] == 0
    assert parties.shown(manifest.id)["heard"] == 0
    assert parties.scene.call("DELETE", f"/v1/campaigns/{manifest.id}")["erased"]


# -- a hostile shuffler --------------------------------------------------------------------------------------------


def test_a_batch_one_short_is_refused_and_nothing_of_it_opened(parties: Parties, campaign: wire.Manifest) -> None:
    threshold, needed = opened_round(parties, campaign), campaign.shuffle.rounds[0].batch
    body = signed_batch(parties, campaign, sealed_bits(campaign, threshold, needed - 1))
    assert code(at_aggregator(parties, campaign, "batches", body)) == (422, "short-batch")
    assert parties.shown(campaign.id)["heard"] == 0


def test_a_batch_of_one_report_many_times_is_refused(parties: Parties, campaign: wire.Manifest) -> None:
    """Copies of one report would tell its bit."""
    threshold, needed = opened_round(parties, campaign), campaign.shuffle.rounds[0].batch
    body = signed_batch(parties, campaign, sealed_bits(campaign, threshold, 1) * needed)
    assert code(at_aggregator(parties, campaign, "batches", body)) == (400, "malformed")
    assert parties.shown(campaign.id)["heard"] == 0


def test_a_batch_that_another_signed_or_that_was_changed_is_refused(
    parties: Parties, campaign: wire.Manifest
) -> None:
    threshold, needed = opened_round(parties, campaign), campaign.shuffle.rounds[0].batch
    form = whole_batch(campaign, sealed_bits(campaign, threshold, needed)).to_dict()
    stranger = {"batch": form, "signature": sign(BATCH, wire.canonical(form), Ed25519PrivateKey.generate())}
    assert code(at_aggregator(parties, campaign, "batches", wire.canonical(stranger))) == (403, "forged-signature")
    true = {"batch": form | {"id": "0" * 64}}
    true["signature"] = sign(BATCH, wire.canonical(true["batch"]), parties.keys.current)
    assert code(at_aggregator(parties, campaign, "batches", wire.canonical(true))) == (400, "malformed")


def test_a_round_that_was_not_announced_takes_no_batch(parties: Parties, campaign: wire.Manifest) -> None:
    needed = campaign.shuffle.rounds[2].batch
    body = signed_batch(parties, campaign, sealed_bits(campaign, 5, needed, round=2), 2)
    assert code(at_aggregator(parties, campaign, "batches", body)) == (409, "conflict")


@pytest.mark.parametrize("other", [{"threshold": 1}, {"round": 1}, {"coin": 12345}], ids=str)
def test_what_was_sealed_for_another_question_does_not_open(parties: Parties, other: dict[str, int]) -> None:
    """The reports of round 0 under another threshold, round or coin: counted as unopened, shown, and no answer."""
    manifest = parties.campaign()
    threshold, needed = opened_round(parties, manifest), manifest.shuffle.rounds[0].batch
    good = sealed_bits(manifest, threshold, needed)
    body = signed_batch(parties, manifest, good + sealed_bits(manifest, **({"threshold": threshold} | other)))
    assert code(at_aggregator(parties, manifest, "batches", body)) == (201, "counted")
    shown = parties.shown(manifest.id)
    assert shown["heard"] == needed
    assert shown["shuffle"]["rounds"][0]["reports"] == needed + 5
    assert any("5 reports in the batches did not open" in each for each in shown["alarms"])


def test_what_was_sealed_under_another_manifest_does_not_open(parties: Parties) -> None:
    one, other = parties.campaign(), parties.campaign(question="Another?")
    threshold, needed = opened_round(parties, one), one.shuffle.rounds[0].batch
    body = signed_batch(parties, one, sealed_bits(other, threshold, needed))
    assert code(at_aggregator(parties, one, "batches", body)) == (201, "counted")
    assert parties.shown(one.id)["heard"] == 0


def test_a_replayed_batch_counts_once_and_another_for_the_round_is_refused(parties: Parties) -> None:
    manifest = parties.campaign()
    threshold, needed = opened_round(parties, manifest), manifest.shuffle.rounds[0].batch
    first = signed_batch(parties, manifest, sealed_bits(manifest, threshold, needed))
    second = signed_batch(parties, manifest, sealed_bits(manifest, threshold, needed))
    assert code(at_aggregator(parties, manifest, "batches", first)) == (201, "counted")
    for _ in range(3):
        assert code(at_aggregator(parties, manifest, "batches", first)) == (200, "already counted")
    assert code(at_aggregator(parties, manifest, "batches", second)) == (409, "second-batch")
    notice = wire.sign_notice(
        wire.RoundNotice(manifest.id, 0, wire.DROPPED, needed), manifest, parties.keys.current
    )
    assert code(at_aggregator(parties, manifest, "notices", notice)) == (409, "conflict")
    assert parties.shown(manifest.id)["heard"] == needed
    assert parties.verified(manifest.id)["ok"]
    # What the shuffler's books do not have is found when the two are compared.
    assert differing_batches(parties.verified(manifest.id), parties.books(manifest.id))


def test_a_dropped_round_takes_no_batch_ever(parties: Parties) -> None:
    manifest = parties.campaign()
    threshold, needed = opened_round(parties, manifest), manifest.shuffle.rounds[0].batch
    notice = wire.sign_notice(wire.RoundNotice(manifest.id, 0, wire.DROPPED, 7), manifest, parties.keys.current)
    assert code(at_aggregator(parties, manifest, "notices", notice)) == (201, "noted")
    assert code(at_aggregator(parties, manifest, "notices", notice)) == (200, "noted")
    body = signed_batch(parties, manifest, sealed_bits(manifest, threshold, needed))
    assert code(at_aggregator(parties, manifest, "batches", body)) == (409, "second-batch")
    shown = parties.shown(manifest.id)
    assert (shown["heard"], shown["shuffle"]["dropped_rounds"], shown["shuffle"]["dropped_reports"]) == (0, 1, 7)


# -- hostile clients -----------------------------------------------------------------------------------------------


def test_what_clients_try_at_the_shuffler(parties: Parties) -> None:
    manifest = parties.campaign()
    threshold = opened_round(parties, manifest)
    mine, other = parties.tokens(manifest.id, 2)
    sealed, copy = sealed_bits(manifest, threshold, 2)

    def report(token: str, number: int, body: bytes) -> tuple[int, str]:
        return code(at_shuffler(parties, manifest, "reports", wire.SealedReport(token, number, body).to_bytes()))

    assert report(mine, 0, sealed) == (409, "conflict")  # without a place
    assert at_shuffler(parties, manifest, "query", wire.query_request(mine))[0] == 200
    assert report(mine, 1, sealed) == (409, "conflict")  # a round of its own choosing
    assert report(wire.new_token(), 0, sealed) == (403, "unknown-token")
    assert report(mine, 0, sealed) == (201, "accepted")
    assert report(mine, 0, copy) == (200, "already accepted")  # a second bit changes nothing
    assert at_shuffler(parties, manifest, "query", wire.query_request(other))[0] == 200
    assert report(other, 0, sealed) == (409, "conflict")  # somebody else's report
    short = wire.canonical({"token": other, "round": 0, "sealed": "AA"})
    assert code(at_shuffler(parties, manifest, "reports", short)) == (400, "malformed")
    assert parties.books(manifest.id)["acknowledged"] == 1


def test_a_round_that_does_not_fill_is_extended_once_then_dropped_and_the_next_opens(parties: Parties) -> None:
    """Both parties say so, nothing of it is counted, and the campaign goes on."""
    manifest = parties.campaign(round_seconds=2)
    few = Sealing(parties, manifest, parties.tokens(manifest.id, 10))
    asyncio.run(few.run(4))
    parties.until(lambda: len(parties.books(manifest.id)["rounds"]) == 2)
    first, second = parties.books(manifest.id)["rounds"]
    assert (first["state"], first["extended"], first["reports"]) == ("dropped", True, 10)
    shown = parties.shown(manifest.id)
    assert shown["heard"] == 0
    assert shown["shuffle"]["rounds"][0]["state"] == "dropped"
    assert shown["shuffle"]["rounds"][0]["reports"] == 10
    assert second["state"] in ("open", "dropped")
    assert differing_batches(parties.verified(manifest.id), parties.books(manifest.id)) == []
    assert parties.verified(manifest.id)["ok"]

"""A campaign through both parties, from the first announcement to the last batch."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from fleet import Connection
from parties import Parties, Sealing

from privquant.server.health import Stepped


def test_a_campaign_goes_through_both_parties(parties: Parties) -> None:
    manifest = parties.campaign()
    fleet = Sealing(parties, manifest, parties.tokens(manifest.id, manifest.planned_users))
    asyncio.run(fleet.run(replays=0.02))
    rounds = len(manifest.shuffle.rounds)
    parties.until(lambda: parties.shown(manifest.id)["shuffle"]["counted_rounds"] == rounds)
    shown, verified, books = parties.shown(manifest.id), parties.verified(manifest.id), parties.books(manifest.id)
    assert fleet.late == 0
    assert fleet.retaken == 0
    assert len(fleet.acknowledged) == manifest.planned_users == shown["heard"] == books["forwarded"]
    ones = Counter(each.round for each in fleet.acknowledged if each.bit)
    exported = parties.scene.call("GET", f"/v1/campaigns/{manifest.id}/export")
    assert {row["phase"] - 1: row["ones"] for row in exported["counts"] if row["ones"]} == ones
    assert verified["ok"]
    assert [row["batch"] for row in verified["rounds"]] == [row["batch"] for row in books["rounds"]]
    assert books["waiting"] == books["dropped"] == 0
    assert shown["estimates"][0]["value"] is not None
    assert parties.query("SELECT (SELECT count(*) FROM held), (SELECT count(*) FROM outbox)") == [(0, 0)]


def test_a_shuffler_counts_itself_in_steps_and_not_for_everybody(parties: Parties) -> None:
    def told() -> dict[str, float]:
        lines = str(parties.shuffler.call("GET", "/metrics")).splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    before = told()
    manifest = parties.campaign()
    fleet = Sealing(parties, manifest, parties.tokens(manifest.id, manifest.planned_users))
    asyncio.run(fleet.run())
    rounds = len(manifest.shuffle.rounds)
    parties.until(lambda: parties.shown(manifest.id)["shuffle"]["counted_rounds"] == rounds)

    def more(name: str) -> float:
        return told()[name] - before.get(name, 0)

    parties.until(lambda: more('privquant_shuffler_batches_total{outcome="forwarded"}') == rounds)
    assert more('privquant_shuffler_rounds{state="forwarded"}') == rounds
    assert abs(manifest.planned_users - more("privquant_shuffler_reports_total")) < Stepped.step
    assert told()["privquant_shuffler_reports_total"] % Stepped.step == 0

    def status(method: str, path: str) -> int:
        return asyncio.run(Connection("127.0.0.1", parties.settings.port).request(method, path))[0]

    seen = set()
    for _ in range(2 * Stepped.step):
        assert status("POST", f"/v1/campaigns/{'0' * 64}/reports") == 404
        seen.add(told().get('privquant_shuffler_refusals_total{reason="unknown-campaign"}', 0) % Stepped.step)
    assert seen == {0}
    assert more('privquant_shuffler_refusals_total{reason="unknown-campaign"}') == 2 * Stepped.step
    assert status("GET", "/metrics") == 404


@pytest.mark.parametrize("party", ["shuffler", "aggregator"])
def test_a_person_who_opens_an_address_in_a_browser_gets_a_page(parties: Parties, party: str) -> None:
    manifest = parties.campaign(question="How <b>long</b>?")
    port = parties.settings.port if party == "shuffler" else parties.scene.settings.port

    def get(path: str, accept: str) -> tuple[int, bytes]:
        line = Connection("127.0.0.1", port)
        return asyncio.run(line.request("GET", path, b"", f"accept: {accept}\r\n"))

    status, page = get(f"/c/{manifest.id}", "text/html")
    assert status == 200
    assert b"How &lt;b&gt;long&lt;/b&gt;?" in page
    assert b"<script>" not in page  # of files of its own only: what a question says never becomes one
    assert b"<b>long" not in page
    assert b"differentially private if the shuffler is honest" in page
    assert (b"privquant answer" if party == "shuffler" else parties.settings.url.encode()) in page
    assert get(f"/c/{manifest.id}", "application/json")[0] == 404
    assert get(f"/c/{'0' * 64}", "text/html")[0] == 404

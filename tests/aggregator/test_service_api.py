"""The API over HTTP, on a real server: campaigns through their life, and what devices are told."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from fleet import campaign_form, tokens_of
from scene import Scene, address_of

from privquant import wire
from privquant.aggregator.operators.accounts import add_operator, remove_operator
from privquant.aggregator.server import run
from privquant.aggregator.store.migrate import open_engine
from privquant.device import Device, Policy, Rule, ServerRefused
from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.server.http_client import OperatorClient, Refusal


def send(scene: Scene, method: str, path: str, body: bytes | None = None, token: str = "") -> tuple[int, Any, Any]:
    """(status, body as JSON if it is, headers)."""
    request = urllib.request.Request(address_of(scene.server, path) + path, data=body, method=method)
    request.add_header("content-type", "application/json")
    if token:
        request.add_header("authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            status, found, headers = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        status, found, headers = error.code, error.read(), error.headers
    try:
        return status, json.loads(found), headers
    except ValueError:
        return status, found, headers


def device(scene: Scene, campaign: str, route: str, form: Any) -> tuple[int, Any, Any]:
    body = form if isinstance(form, bytes) else json.dumps(form).encode()
    return send(scene, "POST", wire.path_of(campaign, route), body)


def code(answer: tuple[int, Any, Any]) -> str:
    assert answer[2].get_content_type() == wire.PROBLEM_MEDIA
    assert answer[1]["status"] == answer[0]
    return str(answer[1]["type"]).removeprefix(wire.PROBLEM_TYPE)


def ask(scene: Scene, campaign: str, token: str) -> tuple[int, Any, Any]:
    return device(scene, campaign, "query", wire.query_request(token))


def report(scene: Scene, campaign: str, token: str, ticket: str, bit: int = 1) -> tuple[int, Any, Any]:
    return device(scene, campaign, "reports", wire.WireReport(token, ticket, bit).to_bytes())


@pytest.fixture(scope="module")
def campaign(scene: Scene) -> str:
    return scene.campaign()


def test_the_manifest_is_signed_and_may_be_cached_for_ever(scene: Scene, campaign: str) -> None:
    url = f"{scene.server.url}{wire.path_of(campaign, 'manifest')}"
    with urllib.request.urlopen(url) as answer:
        body, headers = answer.read(), answer.headers
    key = scene.call("GET", "/v1/key")["fingerprint"]
    assert wire.open_envelope(body, campaign_id=campaign, key_fingerprint=key).measurement == "commute-minutes"
    assert "immutable" in headers["cache-control"]
    assert "server" not in headers


def test_every_route_of_the_table_is_served_and_in_the_document(scene: Scene, campaign: str) -> None:
    paths = OperatorClient(scene.server.url).call("GET", "/openapi.json")["paths"]
    for route in wire.ROUTES:
        assert list(paths[wire.path_of("{id}", route.name)]) == [route.method.lower()]
        wrong = send(scene, "PUT", wire.path_of(campaign, route.name), b"")
        assert (code(wrong), wrong[2]["allow"]) == ("method-not-allowed", route.method)
        answer = send(scene, route.method, wire.path_of("3F", route.name), b"{}" if route.most_sent else None)
        assert (answer[0], code(answer)) == (422, "invalid")
        assert answer[2]["cache-control"] == "no-store"
        assert "64 lower-case hex digits" in answer[1]["detail"]
    assert {path for path in paths if path.rpartition("/")[2] in {route.name for route in wire.ROUTES}} == {
        wire.path_of("{id}", route.name) for route in wire.ROUTES
    }


def test_a_token_keeps_the_query_it_was_given_first(scene: Scene, campaign: str) -> None:
    (token,) = scene.tokens(campaign, 1)
    first = ask(scene, campaign, token)
    assert first[0] == 200
    assert all(ask(scene, campaign, token)[1] == first[1] for _ in range(5))


def test_a_report_is_counted_once(scene: Scene, campaign: str) -> None:
    before = scene.stored(campaign).counted
    (token,) = scene.tokens(campaign, 1)
    ticket = ask(scene, campaign, token)[1]["ticket"]
    assert report(scene, campaign, token, ticket, 1)[:2] == (201, {"status": "counted"})
    assert report(scene, campaign, token, ticket, 1)[:2] == (200, {"status": "already counted"})
    assert report(scene, campaign, token, ticket, 0)[:2] == (200, {"status": "already counted"})
    assert code(ask(scene, campaign, token)) == "token-spent"
    assert scene.stored(campaign).counted == before + 1


def test_a_ticket_belongs_to_one_token_and_one_campaign(scene: Scene, campaign: str) -> None:
    mine, yours = scene.tokens(campaign, 2)
    ticket = ask(scene, campaign, mine)[1]["ticket"]
    assert code(report(scene, campaign, yours, ticket)) == "forged-ticket"
    assert code(report(scene, scene.campaign(), mine, ticket)) == "forged-ticket"
    assert code(report(scene, campaign, mine, ticket[:-1] + ("A" if ticket[-1] != "A" else "B"))) == "forged-ticket"
    assert code(report(scene, campaign, wire.new_token(), "A" * 40)) == "forged-ticket"
    assert code(ask(scene, campaign, wire.new_token())) == "unknown-token"
    assert code(device(scene, "0" * 64, "query", b"{}")) == "unknown-campaign"


@pytest.mark.parametrize(
    ("route", "body", "expected"),
    [
        ("query", b"", "malformed"),
        ("query", b"{}", "malformed"),
        ("query", b'{"token_hash":"AA"}', "malformed"),
        ("query", b'{"token_hash":"' + b"0" * 64 + b'","more":1}', "malformed"),
        ("query", b"[" * 4000, "malformed"),
        ("query", b" " * 5000, "too-large"),
        ("reports", b'{"token":"A","ticket":"x","bit":0}', "malformed"),
        ("reports", b'{"bit":2}', "malformed"),
        ("claims", b'{"link":"A"}', "malformed"),
        ("reports:batch", b'{"reports":[]}', "malformed"),
        ("reports:batch", b'{"reports":{}}', "malformed"),
    ],
)
def test_what_has_not_the_form_is_refused(
    scene: Scene, campaign: str, route: str, body: bytes, expected: str
) -> None:
    assert code(device(scene, campaign, route, body)) == expected


def test_wrong_methods_and_places(scene: Scene, campaign: str) -> None:
    assert code(send(scene, "GET", wire.path_of(campaign, "query"))) == "method-not-allowed"
    assert code(send(scene, "DELETE", wire.path_of(campaign, "manifest"))) == "method-not-allowed"
    assert code(send(scene, "GET", "/v2/anything")) == "not-found"
    assert code(send(scene, "PUT", "/v1/campaigns", b"{}")) == "method-not-allowed"
    assert send(scene, "HEAD", wire.path_of(campaign, "manifest"))[0] == 200


def test_a_batch_has_a_result_for_each_report(scene: Scene, campaign: str) -> None:
    tokens = scene.tokens(campaign, 3)
    made = [{"token": t, "ticket": ask(scene, campaign, t)[1]["ticket"], "bit": 0} for t in tokens]
    reports = [*made, made[0], {"token": tokens[0], "ticket": made[1]["ticket"], "bit": 1}, {"bit": 7}]
    status, found, _ = device(scene, campaign, "reports:batch", {"reports": reports})
    assert status == 200
    assert [result["status"] for result in found["results"]] == [201, 201, 201, 200, 403, 400]


def test_an_open_link_lets_in_as_many_as_it_has_places(scene: Scene) -> None:
    campaign = scene.campaign()
    invite = wire.Invite.parse(scene.call("POST", f"/v1/campaigns/{campaign}/link", {"places": 2})["invite"])
    assert invite.link is not None
    tokens = [wire.new_token() for _ in range(3)]

    def claim(token: str, link: str) -> tuple[int, Any, Any]:
        return device(scene, campaign, "claims", wire.Claim(link, wire.token_hash(token)).to_bytes())

    assert [claim(t, invite.link)[0] for t in (tokens[0], tokens[0], tokens[1])] == [201, 200, 201]
    assert code(claim(tokens[2], wire.new_token())) == "wrong-link"
    assert code(claim(tokens[2], invite.link)) == "not-yet"  # those who have the places may never ask
    assert [ask(scene, campaign, token)[0] for token in tokens[:2]] == [200, 200]
    assert code(claim(tokens[2], invite.link)) == "link-exhausted"
    assert code(ask(scene, campaign, tokens[2])) == "unknown-token"


def test_real_devices_answer_through_an_open_link(scene: Scene, tmp_path: Path) -> None:
    campaign = scene.campaign()
    invite = scene.call("POST", f"/v1/campaigns/{campaign}/link", {"places": 2})["invite"]
    rule = Rule(Integers(0, 999), max_epsilon=1.0)
    statuses = []
    for name in ("one", "one", "two"):
        device = Device(Policy({"commute-minutes": rule}, tmp_path / name))
        statuses.append(device.answer(invite, 30).status)
    assert statuses == ["counted", "answered before", "counted"]
    with pytest.raises(ServerRefused, match="places"):
        Device(Policy({"commute-minutes": rule}, tmp_path / "three")).answer(invite, 30)
    assert scene.stored(campaign).counted == 2


def test_a_link_with_a_code_lets_in_who_has_both(scene: Scene, tmp_path: Path) -> None:
    campaign = scene.campaign()
    made = scene.call("POST", f"/v1/campaigns/{campaign}/link", {"places": 9, "code": True})
    assert re.fullmatch("[0-9a-hjkmnp-tv-z]{8}", made["code"])
    rule = Rule(Integers(0, 999), max_epsilon=1.0)

    def answer(name: str, invite: str, code: str | None = None) -> str:
        return Device(Policy({"commute-minutes": rule}, tmp_path / name)).answer(invite, 30, code=code).status

    typed = f" {made['code'][:4].upper()}-{made['code'][4:]}".replace("0", "o")
    assert answer("one", made["invite"], typed) == "counted"
    assert answer("two", f"{made['invite']}&c={made['code']}") == "counted"
    wrong = made["code"][:-1] + ("2" if made["code"][-1] != "2" else "3")
    for code in (None, wrong):
        with pytest.raises(ServerRefused, match="needs a code"):
            answer("three", made["invite"], code)
    assert answer("three", made["invite"], made["code"]) == "counted"
    with pytest.raises(InvalidInput, match="a code is 8 characters"):
        answer("four", made["invite"], "short")
    again = scene.call("POST", f"/v1/campaigns/{campaign}/link", {"places": 9})
    assert again["code"] is None
    assert answer("five", again["invite"]) == "counted"


def test_waves_admit_tokens_by_their_hash_not_by_their_wish(scene: Scene) -> None:
    """Of 60 tokens in 3 waves an hour apart about a third may ask now; false-alarm rate 1e-6 (6 .. 38 of 60)."""
    campaign = scene.campaign(waves={"count": 3, "seconds": 3_600}, pace=0)
    answers = [ask(scene, campaign, token) for token in scene.tokens(campaign, 60)]
    now = [answer for answer in answers if answer[0] == 200]
    assert 6 <= len(now) <= 38
    later = [answer for answer in answers if answer[0] != 200]
    assert {code(answer) for answer in later} == {"not-yet"}
    assert all(1 <= int(answer[2]["retry-after"]) <= 3_600 for answer in later)


def test_a_campaign_that_is_not_open_yet_says_when(scene: Scene) -> None:
    opens = int(time.time()) + 100
    campaign = scene.campaign(opens=opens)
    answer = ask(scene, campaign, scene.tokens(campaign, 1)[0])
    assert code(answer) == "not-yet"
    assert 90 <= int(answer[2]["retry-after"]) <= 101


def test_no_more_are_asked_than_planned_and_late_answers_count(scene: Scene) -> None:
    campaign = scene.campaign(planned_users=2)
    tokens = scene.tokens(campaign, 4)
    given = [ask(scene, campaign, token) for token in tokens[:2]]
    assert [answer[0] for answer in given] == [200, 200], given
    tickets = [answer[1]["ticket"] for answer in given]
    full = ask(scene, campaign, tokens[2])
    assert (code(full), full[0]) == ("all-places-taken", 503)
    assert int(full[2]["retry-after"]) > 0
    assert ask(scene, campaign, tokens[0])[0] == 200  # who has a query keeps it
    for token, ticket in zip(tokens, tickets, strict=False):
        assert report(scene, campaign, token, ticket)[0] == 201
    assert code(ask(scene, campaign, tokens[3])) == "campaign-complete"


def test_after_the_deadline_only_answers_are_taken(scene: Scene) -> None:
    campaign = scene.campaign(opens=int(time.time()) - 10, deadline=int(time.time()) + 2)
    early, late = scene.tokens(campaign, 2)
    ticket = ask(scene, campaign, early)[1]["ticket"]
    time.sleep(2.1)
    assert code(ask(scene, campaign, late)) == "deadline-passed"
    assert report(scene, campaign, early, ticket)[0] == 201


def test_pause_resume_close_export_verify_delete(scene: Scene) -> None:
    campaign = scene.campaign()
    asked, idle = scene.tokens(campaign, 2)
    ticket = ask(scene, campaign, asked)[1]["ticket"]

    def turn(name: str) -> Any:
        return scene.call("POST", f"/v1/campaigns/{campaign}/{name}")["state"]

    assert turn("pause") == "paused"
    assert code(ask(scene, campaign, idle)) == "campaign-paused"
    assert report(scene, campaign, asked, ticket)[0] == 201
    with pytest.raises(Refusal, match="cannot pause") as refusal:
        turn("pause")
    assert refusal.value.code == "conflict"
    assert turn("resume") == "open"
    assert ask(scene, campaign, idle)[0] == 200
    with pytest.raises(Refusal, match="closed campaign"):
        scene.call("DELETE", f"/v1/campaigns/{campaign}")
    assert turn("close") == "closed"
    assert code(ask(scene, campaign, idle)) == "campaign-closed"
    assert report(scene, campaign, asked, ticket)[0] == 200  # it was counted, and may be told so
    stored = scene.stored(campaign)
    assert (len(stored.pinned), sum(stored.answers.values())) == (0, 1)
    exported = scene.call("GET", f"/v1/campaigns/{campaign}/export")
    assert [row["answered"] for row in exported["counts"]] == [1]
    assert asked not in json.dumps(exported)
    assert scene.call("GET", f"/v1/campaigns/{campaign}/verify")["ok"]
    scene.call("DELETE", f"/v1/campaigns/{campaign}")
    assert code(ask(scene, campaign, asked)) == "unknown-campaign"
    acts = [line["act"] for line in scene.call("GET", "/v1/audit") if line["campaign"] == campaign]
    assert acts[::-1] == ["create", "invite", "pause", "resume", "close", "delete"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"protocol": "naive"}, "more than a count per threshold"),
        ({"protocol": "bayeslearn"}, "more than a count per threshold"),
        ({"protocol": "nonsense"}, "unknown protocol"),
        ({"options": {"nonsense": 1}}, "no option"),
        ({"options": {"users": 5}}, "no option 'users'; it has lam"),
        ({"options": {"epsilon": "5"}}, "no option 'epsilon'; it has lam"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1e-300}, "epsilon must be at least 1e-09, got 1e-300"),
        ({"waves": {"count": 3}}, "waves.seconds is needed: 3 waves 0 seconds apart all open at once"),
        ({"waves": {"seconds": 60}}, "waves.count is needed"),
        ({"quantiles": [0.5, 0.2]}, "rising order"),
        ({"quantiles": [1.5]}, "strictly between"),
        ({"domain": {"kind": "integers", "low": "5", "high": "4"}}, "high"),
        ({"domain": {"kind": "grid", "edges": [2.0, 1.0]}}, "rise"),
        ({"planned_users": 0}, "planned_users must be at least 1, got 0"),
        ({"planned_users": "5"}, "planned_users must be a whole number, got '5'"),
        ({"planned_users": 2.5}, "planned_users must be a whole number, got 2.5"),
        ({"planned_users": None}, "planned_users must be a whole number, got null"),
        ({"planned_users": {"a": 1}}, "planned_users must be a whole number, got an object"),
        ({"measurement": "Has Space"}, "measurement must be a name of 1 to 100 of a-z 0-9 . _ -"),
        ({"measurement": "X" * 300}, "got 'XXXXX"),
        ({"question": ""}, "question must have at least 1 characters, got ''"),
        ({"quantiles": []}, "quantiles must have at least 1 entries, got a list of 0"),
        ({"quantiles": [0.1, "x"]}, "quantiles[1] must be a number, got 'x'"),
        ({"domain": {"kind": "integers", "low": 0, "high": "9"}}, "domain.low must be a text, got 0"),
        ({"domain": {"kind": "integers", "low": "a", "high": "9"}}, "domain.low must be a whole number as a text"),
        ({"domain": {"kind": "integers", "low": "0"}}, "domain.high is needed"),
        ({"domain": {"kind": "reals"}}, "domain has 'kind', which must be 'integers', 'grid'"),
        ({"domain": {}}, "domain needs 'kind'"),
        ({"interval": True}, "interval must be a number, got true"),
        ({"options": {"spread": [1]}}, "options.spread must be a text, a whole number, true, false or null"),
        ({"waves": {"count": 0, "seconds": -1}}, "at least 1, got 0; waves.seconds must be at least 0, got -1"),
        ({"surprise": 1}, "surprise is not a field of this request"),
    ],
)
def test_a_campaign_that_cannot_run_is_refused_with_the_reason(
    scene: Scene, change: dict[str, Any], reason: str
) -> None:
    body = json.dumps(campaign_form(**change)).encode()
    answer = send(scene, "POST", "/v1/campaigns", body, scene.token)
    assert code(answer) == "invalid"
    assert reason in answer[1]["detail"]


def test_a_report_sent_to_the_wrong_address_is_not_repeated(scene: Scene, campaign: str) -> None:
    """Nothing of what a device might send comes back in a refusal, whatever address it went to."""
    token = wire.new_token()
    for body in (
        wire.WireReport(token, "A" * 40, 1).to_bytes(),
        json.dumps([token]).encode(),
        json.dumps(token).encode(),
        token.encode(),
    ):
        for path in ("/v1/campaigns", f"/v1/campaigns/{campaign}/invites", f"/v1/campaigns/{campaign}/link"):
            answer = send(scene, "POST", path, body, scene.token)
            assert code(answer) in ("invalid", "malformed")
            assert token not in json.dumps(answer[1])
            assert "bit" not in answer[1]["detail"] or "bit is not a field of this request" in answer[1]["detail"]
    for form in (
        {"token": token, "ticket": "A", "bit": "4711"},
        {"token": token, "ticket": "A", "bit": 4711.0},
        {"token": token, "ticket": "4711!", "bit": 1},
        {"token": "4711", "ticket": "A", "bit": 1},
        {"token_hash": token},
        {"link": token, "token_hash": "4711"},
    ):
        for route in ("reports", "query", "claims"):
            said = device(scene, campaign, route, form)
            assert code(said) == "malformed"
            assert token not in said[1]["detail"]
            assert "4711" not in said[1]["detail"]
    wrong = send(scene, "GET", f"/v1/campaigns/{token}", token=scene.token)
    assert wrong[1]["detail"] == "id must be a campaign's whole id, 64 lower-case hex digits"


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v1/audit?last=0", None, "last must be at least 1, got '0'"),
        ("/v1/audit?last=many", None, "last must be a whole number, got 'many'"),
        ("/v1/campaigns", b"{", "the body is not JSON, from character 1 on"),
        ("/v1/campaigns", b"[1]", "the body must be a JSON object"),
        ("/v1/campaigns", b"", "the body is needed"),
        ("/v1/campaigns", b"{}", "measurement is needed; question is needed; domain is needed; and 2 more"),
    ],
)
def test_mistakes_are_told_in_plain_words(scene: Scene, path: str, body: bytes | None, said: str) -> None:
    answer = send(scene, "GET" if body is None else "POST", path, body, scene.token)
    assert code(answer) in ("invalid", "malformed")
    assert answer[1]["detail"] == said


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": "bayeslearn", "options": {"update": "counts"}},
        {"quantiles": [0.1, 0.5, 0.99]},
        {"interval": 0.95},
        {"domain": {"kind": "grid", "edges": [0.5, 1.5, 2.5]}},
        {"domain": {"kind": "integers", "low": "0", "high": str(2**63 - 1)}},
    ],
)
def test_campaigns_that_can_run(scene: Scene, change: dict[str, Any]) -> None:
    campaign = scene.campaign(**change)
    for token in scene.tokens(campaign, 3):
        status, ticket, _ = ask(scene, campaign, token)
        assert status == 200
        assert report(scene, campaign, token, ticket["ticket"], 0)[0] == 201
    assert scene.call("GET", f"/v1/campaigns/{campaign}/verify")["ok"]
    scene.call("POST", f"/v1/campaigns/{campaign}/close")
    shown = scene.call("GET", f"/v1/campaigns/{campaign}")
    assert (shown["heard"], len(shown["estimates"])) == (3, len(change.get("quantiles", [1])))
    assert scene.call("GET", f"/v1/campaigns/{campaign}/verify")["ok"]


def test_operators_need_a_token_and_viewers_only_look(scene: Scene, campaign: str) -> None:
    async def with_engine(work: Any) -> Any:
        engine = open_engine(scene.settings)
        try:
            return await work(engine)
        finally:
            await engine.dispose()

    viewer = asyncio.run(with_engine(lambda engine: add_operator(engine, "watcher", "viewer")))
    assert code(send(scene, "GET", "/v1/campaigns")) == "unauthorized"
    assert code(send(scene, "GET", "/v1/campaigns", token="wrong")) == "unauthorized"
    assert send(scene, "GET", "/v1/campaigns", token=viewer)[0] == 200
    assert code(send(scene, "POST", f"/v1/campaigns/{campaign}/close", token=viewer)) == "forbidden"
    asyncio.run(with_engine(lambda engine: remove_operator(engine, "watcher")))
    assert code(send(scene, "GET", "/v1/campaigns", token=viewer)) == "unauthorized"


def test_health_metrics_and_document(scene: Scene, campaign: str) -> None:
    assert send(scene, "GET", "/healthz")[:2] == (200, {"status": "ok"})
    assert send(scene, "GET", "/readyz")[:2] == (200, {"status": "ready"})
    text = send(scene, "GET", "/metrics")[1].decode()
    assert "privquant_reports_total" in text
    assert campaign not in text
    batch, create = "/v1/campaigns/{id}/reports:batch", "/v1/campaigns"
    for listener, has, has_not in (
        (scene.server.url, batch, create),
        (scene.server.admin_url, create, batch),
    ):
        document = OperatorClient(listener).call("GET", "/openapi.json")
        assert document["openapi"].startswith("3.1")
        assert has in document["paths"]
        assert has_not not in document["paths"]


def test_each_listener_serves_its_own_and_says_where_the_rest_is(scene: Scene, campaign: str) -> None:
    public, admin = OperatorClient(scene.server.url, scene.token), OperatorClient(scene.server.admin_url)
    for method, path in (
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/v1/key"),
        ("GET", "/v1/audit"),
        ("GET", "/v1/campaigns"),
        ("POST", "/v1/campaigns"),
        ("GET", f"/v1/campaigns/{campaign}"),
        ("DELETE", f"/v1/campaigns/{campaign}"),
        ("POST", f"/v1/campaigns/{campaign}/close"),
    ):
        with pytest.raises(Refusal, match=r"admin port, by default 8471.*--server http") as refused:
            public.call(method, path)
        assert refused.value.code == "not-found"
    for route in wire.ROUTES:
        with pytest.raises(Refusal, match="on the server's public port"):
            admin.call(route.method, wire.path_of(campaign, route.name))
    with pytest.raises(Refusal, match="on the server's public port"):
        admin.call("GET", f"/c/{campaign}")


def test_invites_are_urls_with_the_secret_in_the_fragment(scene: Scene, campaign: str) -> None:
    csv = scene.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": 2})
    assert csv.splitlines()[0] == "invite"
    assert csv.splitlines()[1].startswith(f"{scene.server.url}/c/{campaign}#t=")
    assert len(set(tokens_of(csv))) == 2


def test_a_second_server_on_the_same_folder_is_refused(scene: Scene) -> None:
    with pytest.raises(InvalidInput, match="another server"):
        run(scene.settings)

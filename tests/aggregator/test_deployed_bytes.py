"""Bytes that deployed devices, ledgers and databases hold: tests/data/deployed_bytes.json, written once.

A change that alters one of them locks somebody out of a campaign that runs. The file is never written again by a
test; what a new version adds gets new entries.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant import wire
from privquant.aggregator.campaign.protocol import CampaignProtocol, build_protocol, campaign_options
from privquant.aggregator.devices.campaign_cache import Tickets
from privquant.aggregator.operators.accounts import _hashed
from privquant.aggregator.store.base import Counts
from privquant.device import Device, Policy, Rule, ledger_format, policy_from_dict
from privquant.device.answer_states import Event
from privquant.device.consent import policy_of
from privquant.device.policy import covers
from privquant.domain import Grid, Integers, LogGrid, domain_from_dict
from privquant.messages import Query
from privquant.privacy.coin import flip_threshold
from privquant.server.keys import KeyFolder
from privquant.server.token_ids import hash_link

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "deployed_bytes.json").read_text())
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
ISSUER = wire.public_key_of(KEY)
MARK = wire.fingerprint(ISSUER)
TOKEN = wire.token_from_bytes(bytes(range(16)))
HASHED = bytes.fromhex(wire.token_hash(TOKEN))
DOMAINS = {
    "integers": Integers(-(2**62), 2**62 - 1),
    "grid": Grid([0.1, 1 / 3, 1e-7 + 1, 2.5e300]),
    "log grid": LogGrid(1, 1000, 12),
}


def manifest(domain: Any) -> wire.Manifest:
    return wire.Manifest(
        measurement="commute-minutes",
        question="How long is your way to work, in minutes? – ½",
        domain=domain,
        quantiles=(0.5, 0.9),
        epsilon=1.0,
        flip_threshold=flip_threshold(1.0),
        protocol="isotonic",
        options=(("spread", "0.25"),),  # what campaigns were published with then
        interval=None,
        planned_users=5000,
        waves=wire.Waves(24, 3600),
        opens=1767225600,
        deadline=1767830400,
        issuer=ISSUER,
        nonce="0123456789abcdef" * 2,
    )


WAY = manifest(Integers(0, 600))


@pytest.fixture(scope="module")
def tickets(tmp_path_factory: pytest.TempPathFactory) -> Tickets:
    """The tickets of a campaign whose key was made long ago."""
    folder = tmp_path_factory.mktemp("keys")
    pem = KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / f"{MARK}.pem").write_bytes(pem)
    (folder / f"{MARK}.pem").chmod(0o600)
    (folder / "current").write_text(MARK + "\n")
    secret = KeyFolder(folder).campaign_secret(ISSUER, WAY.id)
    assert secret.hex() == GOLDEN["campaign secret"]
    return Tickets(secret, WAY.flip_threshold)


@pytest.mark.parametrize("name", DOMAINS)
def test_a_domain_has_the_same_bytes_in_manifest_state_and_policy(name: str) -> None:
    domain, made = DOMAINS[name], manifest(DOMAINS[name])
    envelope = GOLDEN["envelopes"][name].encode()
    assert wire.sign_manifest(made, KEY) == envelope
    read = wire.open_envelope(envelope, campaign_id=made.id, key_fingerprint=MARK)
    assert read.domain.to_dict() == domain.to_dict()
    assert json.dumps(domain.to_dict()) == GOLDEN["domains"][name]
    assert domain_from_dict(json.loads(GOLDEN["domains"][name])).to_dict() == domain.to_dict()
    assert policy_of(made) == GOLDEN["pinned policies"][name]
    for policies in ("policies", "pinned policies"):
        rule = policy_from_dict(tomllib.loads(GOLDEN[policies][name])).measurements["commute-minutes"]
        assert covers(rule.domain, domain)


def test_a_token_is_known_again(tickets: Tickets) -> None:
    query = Query(2**62 - 7, WAY.flip_threshold, 3, 5)
    assert HASHED.hex() == GOLDEN["token hash"]
    assert tickets.id(HASHED).hex() == GOLDEN["token at rest"]
    assert tickets.wave(HASHED, 24) == GOLDEN["wave of 24"]
    assert tickets.ticket(HASHED, query) == GOLDEN["ticket"]
    assert tickets.read(HASHED, GOLDEN["ticket"]) == query
    assert tickets.unseal(HASHED, bytes.fromhex(GOLDEN["box"])) == query
    assert hash_link(TOKEN).hex() == GOLDEN["link hash"]
    assert _hashed("pqo_x").hex() == GOLDEN["operator hash"]


def test_a_ledger_reads_and_is_written_as_before(tmp_path: Path) -> None:
    raw = b""
    answer = ledger_format.Answer("commute-minutes", WAY.id, WAY.flip_threshold, 123, 1, TOKEN, GOLDEN["ticket"])
    book = replace(ledger_format.read(b""), secret=bytes(range(32)))
    for event in (Event.DRAW, Event.SEND, Event.ACK):
        raw += book.append(event, answer)
        book = ledger_format.read(raw)
    assert raw.decode() == GOLDEN["ledger"]
    (tmp_path / "ledger").write_bytes(raw)
    device = Device(Policy({"commute-minutes": Rule(Integers(0, 600), 1)}, tmp_path / "ledger"))
    invite = wire.Invite.parse(GOLDEN["open link invite"])
    assert invite.to_url() == GOLDEN["open link invite"]
    assert device._token(invite) == GOLDEN["open link token"]


def test_messages_and_refusals_are_spelled_as_before() -> None:
    said = {
        "query": wire.query_request(TOKEN).decode(),
        "claim": wire.Claim(TOKEN, HASHED.hex()).to_bytes().decode(),
        "ticket": wire.Ticket(2**62, "abc").to_bytes().decode(),
        "report": wire.WireReport(TOKEN, "abc", 1).to_bytes().decode(),
        "counted": [wire.COUNTED.body(new).decode() for new in (True, False)],
        "claimed": [wire.CLAIMED.body(new).decode() for new in (True, False)],
    }
    assert said == GOLDEN["exchange"]
    known = {code: wire.problem_body(code, "why").decode() for code in GOLDEN["problems"]}
    assert known == GOLDEN["problems"]


def test_stored_counts_lead_to_the_same_state_and_the_same_next_questions() -> None:
    search = CampaignProtocol(WAY)
    rows = [Counts(Query(c, coin, phase, arm), n, s) for phase, arm, coin, c, n, s in GOLDEN["counts"]]
    search.update(rows)
    queries = [[q.phase, q.arm, q.coin, q.threshold, users] for q, users in search.next_queries()]
    assert queries == GOLDEN["next queries"]
    assert search.next_due() == GOLDEN["next due"]
    state = json.dumps(search.protocol.state(), sort_keys=True).encode()
    assert hashlib.sha256(state).hexdigest() == GOLDEN["state"]
    assert [[e.quantile, e.value, e.users] for e in search.estimates()] == GOLDEN["estimates"]


def test_a_new_campaign_is_guarded_and_one_from_before_goes_on_as_it_began() -> None:
    new = replace(WAY, options=campaign_options("isotonic", ()))
    assert build_protocol(new).options()["guard"] is True
    assert "guard" not in build_protocol(WAY).options()

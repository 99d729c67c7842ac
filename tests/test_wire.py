"""The wire format: one spelling, read strictly; what is signed is what is read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from privquant import wire
from privquant.domain import Grid, Integers
from privquant.privacy.coin import flip_threshold

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
MARK = wire.fingerprint(wire.public_key_of(KEY))


def manifest(**changes: Any) -> wire.Manifest:
    epsilon = changes.get("epsilon", 1.0)
    form = {
        "measurement": "commute-minutes",
        "question": "How long is your way to work?",
        "domain": Integers(0, 2**62),
        "quantiles": (0.5, 0.9),
        "epsilon": epsilon,
        "flip_threshold": flip_threshold(epsilon),
        "protocol": "isotonic",
        "options": (("spread", "0.25"),),
        "interval": None,
        "planned_users": 5000,
        "waves": wire.Waves(3, 60),
        "opens": 1_700_000_000,
        "deadline": 1_700_100_000,
        "issuer": wire.public_key_of(KEY),
        "nonce": "0" * 32,
    }
    return wire.Manifest(**(form | changes))


def test_a_manifest_has_one_id_for_all_time() -> None:
    """A fixed manifest hashes to a fixed id: the format cannot drift unnoticed."""
    assert manifest().id == "86b29555f86aec18fc5baeef49c1c9e5b92e0c0002252e1d781b7f1b332e9077"
    assert b'"high":"4611686018427387904"' in manifest().to_bytes()


@pytest.mark.parametrize("domain", [Integers(-5, 5), Grid([0.1, 2.5, 1e300])])
def test_an_envelope_reads_back_to_the_same_manifest(domain: Any) -> None:
    made = manifest(domain=domain)
    envelope = wire.sign_manifest(made, KEY)
    assert wire.open_envelope(envelope, campaign_id=made.id, key_fingerprint=MARK) == made
    assert wire.canonical(json.loads(envelope)) == envelope


def test_every_changed_byte_of_an_envelope_is_found() -> None:
    made = manifest()
    envelope = wire.sign_manifest(made, KEY)
    for place in range(0, len(envelope), 7):
        changed = bytearray(envelope)
        changed[place] ^= 1
        with pytest.raises(wire.WireError):
            wire.open_envelope(bytes(changed), campaign_id=made.id, key_fingerprint=MARK)


def test_another_key_cannot_stand_in_for_the_issuer() -> None:
    other = Ed25519PrivateKey.generate()
    made = manifest(issuer=wire.public_key_of(other))
    envelope = wire.sign_manifest(made, other)
    with pytest.raises(wire.SignatureError, match="fingerprint"):
        wire.open_envelope(envelope, campaign_id=made.id, key_fingerprint=MARK)
    form = json.loads(wire.sign_manifest(manifest(), KEY))
    form["signature"] = json.loads(envelope)["signature"]
    with pytest.raises(wire.SignatureError, match="verify"):
        wire.open_envelope(wire.canonical(form), campaign_id=manifest().id, key_fingerprint=MARK)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"version": True},
        {"surprise": 1},
        {"measurement": "Commute"},
        {"measurement": 5},
        {"question": "two\nlines"},
        {"question": ""},
        {"domain": {"kind": "integers", "low": 0, "high": "5"}},
        {"domain": {"kind": "integers", "low": "00", "high": "5"}},
        {"domain": {"kind": "integers", "low": "5", "high": "5"}},
        {"domain": {"kind": "integers", "low": "0", "high": "9" * 20}},
        {"domain": {"kind": "tree"}},
        {"domain": {"kind": "grid", "edges": ["1"]}},
        {"domain": {"kind": "grid", "edges": ["1.0", "nan"]}},
        {"quantiles": ["0.5", "0.5"]},
        {"quantiles": ["1.0"]},
        {"quantiles": "0.5"},
        {"epsilon": "1"},
        {"epsilon": "2.0"},
        {"flip_threshold": "1"},
        {"trust": {"model": "shuffle"}},
        {"trust": {"model": "local", "more": 1}},
        {"protocol": {"name": "isotonic"}},
        {"protocol": {"name": "isotonic", "options": {"spread": [1]}}},
        {"interval": "1.5"},
        {"planned_users": 0},
        {"planned_users": True},
        {"waves": {"count": 0, "seconds": 0}},
        {"waves": {"count": 5000, "seconds": 60}},
        {"deadline": 1},
        {"issuer": "AB"},
        {"nonce": "1"},
    ],
)
def test_a_manifest_is_read_strictly(change: dict[str, Any]) -> None:
    with pytest.raises(wire.WireError):
        wire.Manifest.from_dict(json.loads(manifest().to_bytes()) | change)


def test_a_manifest_lacks_no_field() -> None:
    whole = json.loads(manifest().to_bytes())
    for name in whole:
        with pytest.raises(wire.WireError):
            wire.Manifest.from_dict({key: value for key, value in whole.items() if key != name})


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'{"a":1,"a":1}', b"[1.5]", b"[NaN]", b"[9007199254740993]", b"\xff", b"[" * 100_000, b'"\\ud800"'],
)
def test_bad_json_is_an_error_of_the_sender(body: bytes) -> None:
    with pytest.raises(wire.WireError):
        wire.canonical(wire.parse_json(body, 10**6))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(st.characters(codec="utf-8")),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_canonical_json_reads_back_and_is_canonical(form: Any) -> None:
    body = wire.canonical(form)
    assert wire.parse_json(body, len(body)) == form
    assert wire.canonical(wire.parse_json(body, len(body))) == body


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_fraction_travels_as_its_shortest_decimal(number: float) -> None:
    assert wire.real_from_wire(wire.real_to_wire(number), "x") == number


@given(st.text(max_size=30))
def test_no_second_spelling_of_a_number(text: str) -> None:
    for read, write in ((wire.whole_from_wire, wire.whole_to_wire), (wire.real_from_wire, wire.real_to_wire)):
        try:
            number = read(text, "x")
        except wire.WireError:
            continue
        assert write(number) == text  # type: ignore[arg-type]


def test_invites_read_back_and_keep_their_secret_in_the_fragment() -> None:
    token = wire.new_token()
    for secret in ({"token": token}, {"link": token}):
        invite = wire.Invite("https://ask.example.org/base", manifest().id, MARK, **secret)
        assert wire.Invite.parse(invite.to_url()) == invite
        assert token not in invite.to_url().partition("#")[0]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://h/c/x#t=y&k=z",
        "ftp://h/c/{id}#t={t}&k={k}",
        "https://h/c/{id}#t={t}",
        "https://h/c/{id}#t={t}&k={k}&k={k}",
        "https://h/c/{id}#t={t}&l={t}&k={k}",
        "https://h/c/{id}#t={t}&k={k}&z=1",
        "https://u@h/c/{id}#t={t}&k={k}",
        "https://h/c/{id}?q=1#t={t}&k={k}",
        "https://h/c/{id}#t={t}x&k={k}",
    ],
)
def test_other_urls_are_no_invites(url: str) -> None:
    with pytest.raises(wire.WireError):
        wire.Invite.parse(url.format(id=manifest().id, t="A" * 22, k=MARK))


def test_both_bits_make_reports_of_one_size() -> None:
    zero, one = (wire.WireReport("A" * 22, "abc", bit).to_bytes() for bit in (0, 1))
    assert len(zero) == len(one)
    assert wire.WireReport.parse(one).bit == 1


@pytest.mark.parametrize("bit", [2, -1, True, "1", None])
def test_a_bit_is_0_or_1(bit: Any) -> None:
    with pytest.raises(wire.WireError):
        wire.WireReport.from_dict({"token": "A" * 22, "ticket": "abc", "bit": bit})


def test_a_token_has_one_spelling() -> None:
    with pytest.raises(wire.WireError):
        wire.check_token("A" * 21 + "B")  # decodes to the bytes of "A" * 22
    assert wire.token_hash("A" * 22) == "79ddc281b69a41618f103926015f8f863c47b79c5bc8a31e7775c66159e38c58"


def test_problems_are_read_by_kind_and_strangers_by_status() -> None:
    for code, kind in wire.PROBLEMS.items():
        found = wire.parse_problem(kind.status, wire.problem_body(code, "because"))
        assert (found.code, found.final, found.detail) == (code, kind.final, "because")
    assert wire.parse_problem(502, b"<html>").final is False
    assert wire.parse_problem(404, b"<html>").final is True
    assert wire.parse_problem(429, b"\xff").final is False
    # A proxy cannot make a final no of its own 503 by quoting one.
    assert wire.parse_problem(503, wire.problem_body("campaign-closed", "")).final is False


def test_the_page_lists_every_problem_with_its_status() -> None:
    page = (Path(__file__).parent.parent / "docs" / "wire.md").read_text()
    listed = {}
    for codes, status in re.findall(r"^\| ([a-z, -]+) \| (\d{3}) \|", page, re.M):
        listed |= dict.fromkeys(codes.split(", "), int(status))
    assert listed == {code: kind.status for code, kind in wire.PROBLEMS.items()}


def test_a_claim_with_a_code_is_of_version_two_and_read_strictly() -> None:
    token, hashed = wire.new_token(), "0" * 64
    code = wire.new_code()
    plain, coded = wire.Claim(token, hashed), wire.Claim(token, hashed, code)
    assert b"version" not in plain.to_bytes()
    assert [wire.Claim.parse(claim.to_bytes()) for claim in (plain, coded)] == [plain, coded]
    form = json.loads(coded.to_bytes())
    assert form == {"link": token, "token_hash": hashed, "code": code, "version": 2}
    for change in (
        {"version": 1},
        {"version": 3},
        {"version": "2"},
        {"version": True},
        {"code": "o" * 8},
        {"code": 1},
    ):
        with pytest.raises(wire.WireError):
            wire.Claim.parse(json.dumps(form | change).encode())
    for name in ("code", "version"):
        with pytest.raises(wire.WireError):
            wire.Claim.parse(json.dumps({k: v for k, v in form.items() if k != name}).encode())


@pytest.mark.parametrize("typed", ["abcd-1021", "ABCD 1021", "abcdlO2i", " ab cd 10 21 "])
def test_a_code_is_read_as_people_type_it(typed: str) -> None:
    assert wire.typed_code(typed) == "abcd1021"


def test_a_code_belongs_to_an_open_link() -> None:
    link = wire.Invite("https://host", "0" * 64, "0" * 32, link=wire.new_token(), code=wire.new_code())
    assert wire.Invite.parse(link.to_url()) == link
    with pytest.raises(wire.WireError, match="belongs to an open link"):
        wire.Invite("https://host", "0" * 64, "0" * 32, token=wire.new_token(), code=wire.new_code())

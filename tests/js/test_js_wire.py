"""Canonical JSON, read strictly: what Python signs JavaScript opens, and what Python refuses it refuses."""

import json
import subprocess
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loopback import campaign
from nodejs import JS, evaluate, node

from privquant.domain import Grid, Integers
from privquant.privacy.coin import flip_threshold
from privquant.wire import (
    Claim,
    WireError,
    canonical,
    fingerprint,
    open_envelope,
    parse_json,
    sign_manifest,
    token_hash,
    typed_code,
)


class Pipe:
    """A Node process that is given hex a line and answers a line."""

    CODE = """
    import readline from "node:readline";
    const js = %s;
    const { parseJson, canonical } = await import(`${js}/json.js`);
    const { openEnvelope } = await import(`${js}/manifest.js`);
    const { fromHex, toHex } = await import(`${js}/form.js`);
    const { WireError } = await import(`${js}/errors.js`);
    async function answer({ body, id, key }) {
      try {
        if (id === undefined) return toHex(canonical(parseJson(fromHex(body), 262144)));
        return (await openEnvelope(fromHex(body), { campaignId: id, keyFingerprint: key })).id;
      } catch (error) {
        if (!(error instanceof WireError)) throw error;
        return error.name;
      }
    }
    for await (const line of readline.createInterface({ input: process.stdin })) {
      console.log(await answer(JSON.parse(line)));
    }
    """

    def __init__(self) -> None:
        code = self.CODE % json.dumps(JS.as_uri() + "/src")
        command = [node(), "--input-type=module", "-e", code]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, body: bytes, **more: str) -> str:
        self._process.stdin.write(json.dumps({"body": body.hex(), **more}) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(10)


@pytest.fixture(scope="module")
def pipe():
    running = Pipe()
    yield running
    running.close()


texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
forms = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(form=forms, spaced=st.booleans(), escaped=st.booleans())
def test_any_form_has_the_same_canonical_bytes(pipe, form, spaced, escaped):
    body = json.dumps(form, indent=1 if spaced else None, ensure_ascii=escaped).encode()
    assert pipe.ask(body) == canonical(form).hex()


STRICT = [
    b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}', b"1.0", b"1e3", b"-0.0", b"01", b"+1", b"1.", b".5", b"0x1", b"NaN",
    b"Infinity", b"-Infinity", b"9007199254740992", b"-9007199254740992", b"99999999999999999999", b"", b" ", b"{",
    b"[1,]", b'{"a":1,}', b"{a:1}", b"'a'", b'"\x01"', b'"\n"', b'"\\x"', b'"\\u12"', b'"\\', b'"a',
    b"\xef\xbb\xbf1", b"\xff", b'"\xc3"', b"[1] 2", b"tru", b"nullx", b"\xa01", b"\x0b1", b'"\\ud800"', b"[" * 5000,
    b"[" * 5000 + b"]" * 5000, b"//a\n1", b"[1 2]", b'{"a" 1}', b'{"a":}', b'{1:1}', b'"\\u00 1"',
]  # fmt: skip


@pytest.mark.parametrize("body", STRICT, ids=lambda raw: repr(raw[:24]))
def test_what_python_refuses_is_refused(pipe, body):
    with pytest.raises(WireError):
        canonical(parse_json(body, 262_144))
    assert pipe.ask(body) == "WireError"


@pytest.mark.parametrize(
    "body",
    [b'{"__proto__":1}', b'"\\ud83d\\ude00"', b' \t\r\n{ "a" : [ ] } ', b"-9007199254740991", '"é"'.encode()],
)
def test_what_python_takes_is_taken(pipe, body):
    assert pipe.ask(body) == canonical(parse_json(body, 262_144)).hex()


def test_a_zero_with_a_sign_is_a_second_spelling(pipe):
    assert pipe.ask(b"[-0]") == "WireError"


# -- manifests ----------------------------------------------------------------------------------------------


def opened(pipe, body: bytes, campaign_id: str, key: str) -> str:
    return pipe.ask(body, id=campaign_id, key=key)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"domain": Integers(-(2**62), 2**62 - 1)},
        {"domain": Grid([-1e300, 1e-5, 0.1, 1.0, 123456789012345680.0])},
        {"epsilon": 0.1},
        {"epsilon": 1e-5},
        {"quantiles": (0.01, 0.5, 0.999)},
        {"question": "Wie weit, in Kilometern? 🚲 " + "x" * 400},
        {"interval": 0.95},
        {"options": (("spread", "0.25"), ("rounds", 3), ("fast", True), ("none", None))},
    ],
    ids=str,
)
def test_what_python_signs_is_opened(pipe, changes):
    made = campaign()
    if "epsilon" in changes:
        changes = changes | {"flip_threshold": flip_threshold(changes["epsilon"])}
    manifest = replace(made.manifest, **changes)
    key = fingerprint(manifest.issuer)
    assert opened(pipe, sign_manifest(manifest, made.key), manifest.id, key) == manifest.id


def test_every_changed_byte_of_an_envelope_is_found(pipe):
    """A byte at a time, set to another; whatever Python makes of it, JavaScript makes of it too."""
    made = campaign()
    body, key = made.envelope, fingerprint(made.manifest.issuer)
    accepted = 0
    for at in range(len(body)):
        changed = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        try:
            open_envelope(changed, campaign_id=made.manifest.id, key_fingerprint=key)
            expected = made.manifest.id
        except WireError as error:
            expected = type(error).__name__
        accepted += expected == made.manifest.id
        assert opened(pipe, changed, made.manifest.id, key) == expected, body[max(0, at - 20) : at + 20]
    assert accepted == 0


def test_another_hash_key_and_signature_are_found(pipe):
    made, other = campaign(), campaign()
    key, manifest = fingerprint(made.manifest.issuer), made.manifest
    assert opened(pipe, made.envelope, other.manifest.id, key) == "SignatureError"
    assert opened(pipe, made.envelope, manifest.id, fingerprint(other.manifest.issuer)) == "SignatureError"
    forged = json.loads(made.envelope) | {"signature": Ed25519PrivateKey.generate().sign(b"x").hex()}
    assert opened(pipe, canonical(forged), manifest.id, key) == "SignatureError"


# -- invites ------------------------------------------------------------------------------------------------

MARK = "#t=AAAAAAAAAAAAAAAAAAAAAA&k=" + "b" * 32
HASH = "a" * 64


@pytest.mark.parametrize(
    ("invite", "url"),
    [
        (f"https://host/c/{HASH}{MARK}", "https://host/x"),
        (f"  https://host:8443/under/c/{HASH}{MARK} ", "https://host:8443/under/x"),
        (f"https://HOST:443/c/{HASH}{MARK}", "https://host/x"),
        (f"http://[::1]:8000/c/{HASH}{MARK}", "http://[::1]:8000/x"),
        (f"http://localhost:80/c/{HASH}{MARK}", "http://localhost/x"),
        (f"https://host/c/c/{HASH}{MARK}", "https://host/c/x"),
        (f"https://host/c/{HASH}{MARK}&k=" + "b" * 32, None),
        (f"https://host/c/{HASH}{MARK}&x=1", None),
        (f"https://host/c/{HASH}#k=" + "b" * 32, None),
        (f"https://host/c/{HASH}#t=AAAAAAAAAAAAAAAAAAAAAA", None),
        (f"https://host/c/{HASH}#t=AAAAAAAAAAAAAAAAAAAAAB&k=" + "b" * 32, None),
        (f"https://me@host/c/{HASH}{MARK}", None),
        (f"https://me:pass@host/c/{HASH}{MARK}", None),
        (f"https://host?x=1/c/{HASH}{MARK}", None),
        (f"https://host:0/c/{HASH}{MARK}", None),
        (f"https://host:65536/c/{HASH}{MARK}", None),
        (f"https://ho\\st/c/{HASH}{MARK}", None),
        (f"https:host/c/{HASH}{MARK}", None),
        (f"https:///c/{HASH}{MARK}", None),
        (f"javascript:alert(1)/c/{HASH}{MARK}", None),
        (f"https://hôst/c/{HASH}{MARK}", None),
        (f"https://host/c/{HASH.upper()}{MARK}", None),
    ],
)
def test_invites(invite, url):
    found = evaluate(
        f"""
        const {{ Invite }} = await import(`${{js}}/invite.js`);
        const {{ WireError }} = await import(`${{js}}/errors.js`);
        let found;
        try {{ found = Invite.parse({json.dumps(invite)}).origin.url("/x"); }}
        catch (error) {{ if (!(error instanceof WireError)) throw error; found = null; }}
        console.log(JSON.stringify(found));
        """
    )
    assert found == url


def test_a_claim_with_a_code_has_the_bytes_that_python_sends():
    link = f"https://host/c/{HASH}#l={'A' * 22}&k={'0' * 32}"
    typed, token = " ABCD-1o2i ", "A" * 21 + "Q"
    found = evaluate(
        f"""
        const {{ Invite }} = await import(`${{js}}/invite.js`);
        const {{ claimRequest }} = await import(`${{js}}/exchange.js`);
        const bare = Invite.parse({json.dumps(link)});
        const coded = [bare, bare.withCode({json.dumps(typed)}), Invite.parse({json.dumps(link + "&c=abcd1021")})];
        const sent = await Promise.all(coded.map((invite) => claimRequest(invite, {json.dumps(token)})));
        console.log(JSON.stringify(sent.map((bytes) => new TextDecoder().decode(bytes))));
        """
    )
    code = typed_code(typed)
    assert code == "abcd1021"
    sent = [Claim("A" * 22, token_hash(token), each) for each in (None, code, code)]
    assert found == [claim.to_bytes().decode() for claim in sent]
    assert [Claim.parse(text.encode()) for text in found] == sent

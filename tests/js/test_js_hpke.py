"""HPKE in WebCrypto: the vectors of RFC 9180, and what Node seals another implementation opens, and the reverse."""

import json
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from nodejs import evaluate

VECTOR = json.loads((Path(__file__).parent / "rfc9180-a1-base.json").read_text())
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
# The other implementation knows no associated data; the RFC's vector has some.
INFO, AAD, TEXT = b"privquant", b"", b"one bit and a ticket" * 9

PAIR = """
const { seal, open, makeKeyPair } = await import(`${js}/hpke.js`);
const { fromHex, toHex } = await import(`${js}/form.js`);
async function pairOf(privateHex, publicHex) {
  const wrapped = fromHex("302e020100300506032b656e04220420" + privateHex);
  const privateKey = await crypto.subtle.importKey("pkcs8", wrapped, { name: "X25519" }, false, ["deriveBits"]);
  const publicKey = await crypto.subtle.importKey("raw", fromHex(publicHex), { name: "X25519" }, true, []);
  return { privateKey, publicKey };
}
"""


def raw_pair() -> tuple[X25519PrivateKey, str, str]:
    key = X25519PrivateKey.generate()
    return key, key.private_bytes_raw().hex(), key.public_key().public_bytes_raw().hex()


def test_the_vector_of_the_rfc_is_sealed_and_opened():
    found = evaluate(
        PAIR
        + f"""
        const v = {json.dumps(VECTOR)};
        const [recipient, ephemeral] = [await pairOf(v.skRm, v.pkRm), await pairOf(v.skEm, v.pkEm)];
        const [info, aad, pt] = [v.info, v.aad, v.pt].map(fromHex);
        const sealed = await seal(fromHex(v.pkRm), info, aad, pt, ephemeral);
        const opened = await open(recipient, info, aad, fromHex(v.enc + v.ct));
        console.log(JSON.stringify([toHex(sealed), toHex(opened)]));
        """
    )
    assert found == [VECTOR["enc"] + VECTOR["ct"], VECTOR["pt"]]


def test_what_node_seals_python_opens():
    key, _, public = raw_pair()
    sealed = evaluate(
        PAIR
        + f"""
        const [info, aad, text] = {json.dumps([INFO.hex(), AAD.hex(), TEXT.hex()])}.map(fromHex);
        const sealed = [];
        for (let k = 0; k < 20; k += 1) sealed.push(toHex(await seal(fromHex("{public}"), info, aad, text)));
        console.log(JSON.stringify(sealed));
        """
    )
    assert len({each[:64] for each in sealed}) == 20, "every message has an ephemeral key of its own"
    assert {len(each) for each in sealed} == {2 * (len(TEXT) + 48)}
    for each in sealed:
        assert SUITE.decrypt(bytes.fromhex(each), key, info=INFO) == TEXT
    changed = bytearray.fromhex(sealed[0])
    changed[-1] ^= 1
    with pytest.raises(InvalidTag):
        SUITE.decrypt(bytes(changed), key, info=INFO)


def test_what_python_seals_node_opens_and_nothing_else():
    key, private, public = raw_pair()
    assert (
        key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).hex()
        == "302e020100300506032b656e04220420" + private
    )
    sealed = SUITE.encrypt(TEXT, key.public_key(), info=INFO)
    changed = sealed[:40] + bytes([sealed[40] ^ 1]) + sealed[41:]
    tries = [
        (sealed, INFO, AAD), (changed, INFO, AAD), (sealed, INFO + b"x", AAD), (sealed, INFO, AAD + b"x"),
        (sealed[:-1], INFO, AAD), (sealed[:20], INFO, AAD), (bytes(32) + sealed[32:], INFO, AAD),
    ]  # fmt: skip
    found = evaluate(
        PAIR
        + f"""
        const pair = await pairOf("{private}", "{public}");
        const found = [];
        for (const [sealed, info, aad] of {json.dumps([[part.hex() for part in each] for each in tries])}) {{
          found.push(await open(pair, fromHex(info), fromHex(aad), fromHex(sealed)).then(toHex, () => null));
        }}
        console.log(JSON.stringify(found));
        """
    )
    assert found == [TEXT.hex()] + [None] * (len(tries) - 1)


@pytest.mark.parametrize("key", ["00" * 32, "01" + "00" * 31, "ab" * 31, "ab" * 33])
def test_a_key_that_cannot_keep_a_secret_is_refused(key):
    """Of small order, or not a key at all."""
    found = evaluate(
        PAIR
        + f"""
        const empty = new Uint8Array(0);
        const said = await seal(fromHex("{key}"), empty, empty, empty).then(() => "sealed", (error) => error.name);
        console.log(JSON.stringify(said));
        """
    )
    assert found == "InvalidInput"

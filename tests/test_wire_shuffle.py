"""Shuffle mode on the wire: version 2 manifests, announcements, sealed reports, batches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.bindings._rust import openssl
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import given
from hypothesis import strategies as st

import hpke_twin
import shuffle_vectors as known
from privquant import wire
from privquant.device import ledger_format as records
from privquant.errors import InvalidInput
from privquant.privacy.shuffle_check import keeps

ROOT = Path(__file__).parent
VECTORS = ROOT.parent / "docs" / "vectors" / "shuffle.json"
RFC = json.loads((ROOT / "js" / "rfc9180-a1-base.json").read_text())
MARK = wire.fingerprint(wire.public_key_of(known.ISSUER))
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes([9] * 32))


def opened(envelope: bytes, made: wire.Manifest) -> wire.Manifest:
    return wire.open_envelope(envelope, campaign_id=made.id, key_fingerprint=MARK)


class TestManifest:
    def test_it_has_one_id_for_all_time(self) -> None:
        assert known.manifest().id == "86d6297d4f8303b9142a98f2ca3bdd4bb8771cb07045d82531050f41af4bf354"
        assert b'"flip_threshold"' not in known.manifest().to_bytes()

    def test_an_accepted_envelope_reads_back_to_the_same_manifest(self) -> None:
        made = known.manifest()
        assert opened(known.accepted(), made) == made
        assert wire.canonical(json.loads(known.accepted())) == known.accepted()

    def test_every_changed_byte_of_an_envelope_is_found(self) -> None:
        made, envelope = known.manifest(), known.accepted()
        for place in range(0, len(envelope), 5):
            changed = bytearray(envelope)
            changed[place] ^= 1
            with pytest.raises(wire.WireError):
                opened(bytes(changed), made)

    def test_a_campaign_its_shuffler_did_not_accept_is_for_the_shuffler_only(self) -> None:
        made = known.manifest()
        issued = wire.sign_manifest(made, known.ISSUER)
        assert wire.open_issued(issued, campaign_id=made.id, key_fingerprint=MARK) == made
        with pytest.raises(wire.SignatureError, match="acceptance"):
            opened(issued, made)
        form = json.loads(known.accepted())
        for accepted in (form["signature"], "0" * 128, 1, None):
            with pytest.raises(wire.SignatureError, match="acceptance"):
                opened(wire.canonical(form | {"accepted": accepted}), made)
        with pytest.raises(InvalidInput, match="another shuffler"):
            wire.accept_manifest(issued, STRANGER, campaign_id=made.id, key_fingerprint=MARK)

    def test_a_signature_over_the_words_of_version_1_does_not_do(self) -> None:
        made = known.manifest()
        form = json.loads(known.accepted())
        form["signature"] = known.ISSUER.sign(b"privquant/manifest/1\x00" + made.to_bytes()).hex()
        with pytest.raises(wire.SignatureError, match="verify"):
            opened(wire.canonical(form), made)

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 1},
            {"version": 3},
            {"version": True},
            {"version": "2"},
            {"flip_threshold": "1"},
            {"trust": {"model": "local"}},
            {"trust": "shuffle"},
            {"epsilon": "1"},
        ],
    )
    def test_it_is_read_strictly(self, change: dict[str, Any]) -> None:
        with pytest.raises(wire.WireError):
            wire.Manifest.from_dict(json.loads(known.manifest().to_bytes()) | change)

    @pytest.mark.parametrize(
        "change",
        [
            {"model": "local"},
            {"model": "shuffled"},
            {"more": 1},
            {"delta": "1e-8"},
            {"delta": "0.0"},
            {"delta": "1.0"},
            {"colluding": "1.0"},
            {"colluding": "-0.1"},
            {"colluding": "0"},
            {"rounds": []},
            {"rounds": {}},
            {"rounds": [{"round": 1, "batch": 10, "coin": "5"}]},
            {"rounds": [{"round": 0, "batch": 0, "coin": "5"}]},
            {"rounds": [{"round": 0, "batch": True, "coin": "5"}]},
            {"rounds": [{"round": 0, "batch": "10", "coin": "5"}]},
            {"rounds": [{"round": 0, "batch": 10, "coin": 5}]},
            {"rounds": [{"round": 0, "batch": 10, "coin": "0"}]},
            {"rounds": [{"round": 0, "batch": 10, "coin": str(2**63)}]},
            {"rounds": [{"round": 0, "batch": 10, "coin": "5", "epsilon": "1.0"}]},
            {"rounds": [{"round": k, "batch": 10, "coin": "5"} for k in range(1001)]},
            {"shuffler": {"address": "https://h"}},
            {"shuffler": {"address": "ftp://h", "key": "0" * 64}},
            {"shuffler": {"address": "https://h/", "key": "0" * 64}},
            {"shuffler": {"address": "https://u@h", "key": "0" * 64}},
            {"shuffler": {"address": "https://h?q", "key": "0" * 64}},
            {"shuffler": {"address": "https://H", "key": "0" * 64}},
            {"shuffler": {"address": "https://h", "key": "0" * 63}},
            {"seal": "07" + "0020" + "0001" + "0001" + "0020" + "11" * 31},
            {"seal": "07" + "0020" + "0001" + "0002" + "0020" + "11" * 32},
            {"seal": "07" + "0020" + "0001" + "0001" + "0021" + "11" * 32},
            {"seal": "07" + "0020" + "0001" + "0001" + "0020" + "AA" * 32},
        ],
    )
    def test_its_terms_are_read_strictly(self, change: dict[str, Any]) -> None:
        form = json.loads(known.manifest().to_bytes())
        with pytest.raises(wire.WireError):
            wire.Manifest.from_dict(form | {"trust": form["trust"] | change})

    def test_it_lacks_no_field(self) -> None:
        whole = json.loads(known.manifest().to_bytes())
        for name in whole:
            with pytest.raises(wire.WireError):
                wire.Manifest.from_dict({key: value for key, value in whole.items() if key != name})
        for name in whole["trust"]:
            trust = {key: value for key, value in whole["trust"].items() if key != name}
            with pytest.raises(wire.WireError):
                wire.Manifest.from_dict(whole | {"trust": trust})

    def test_its_one_coin_is_the_most_honest_of_its_rounds(self) -> None:
        made = known.manifest()
        assert made.flip_threshold == min(row.coin for row in made.shuffle.rounds)
        with pytest.raises(wire.WireError, match="most honest"):
            known.manifest(flip_threshold=made.flip_threshold + 1)
        with pytest.raises(wire.WireError, match="version 2"):
            replace(made, shuffle=None)

    def test_a_thousand_rounds_fit(self) -> None:
        rows = tuple(wire.RoundTerms(10**9, 2**63 - 1) for _ in range(wire.MAX_ROUNDS))
        made = known.manifest(known.shuffle(rounds=rows))
        assert opened(known.accepted(made), made) == made

    def test_the_seal_key_is_an_hpke_config(self) -> None:
        key = wire.SealKey.of(known.SEAL, 7)
        assert key.to_wire() == "07" + "0020" + "0001" + "0001" + "0020" + key.public_key.hex()
        assert wire.SealKey.from_wire(key.to_wire()) == key


class TestAnnouncement:
    def chain(self) -> list[wire.Announcement]:
        return wire.announcements(known.manifest().id, known.THRESHOLDS)

    def signed(self, announcement: wire.Announcement, key: Ed25519PrivateKey = known.ISSUER) -> bytes:
        return wire.sign_announcement(announcement, known.manifest(), key)

    def test_they_are_one_chain_from_the_manifest_on(self) -> None:
        chain = self.chain()
        assert chain[0].previous == known.manifest().id
        assert [each.previous for each in chain[1:]] == [each.id for each in chain[:-1]]
        for number, each in enumerate(chain):
            body = wire.round_answer(self.signed(each), known.THRESHOLDS[:number])
            found = wire.RoundAnswer.parse(body, known.manifest())
            assert found == wire.RoundAnswer(each, known.THRESHOLDS[:number])
            assert wire.open_announcement(self.signed(each), known.manifest()) == each

    def test_a_forged_one_is_refused(self) -> None:
        chain, made = self.chain(), known.manifest()
        with pytest.raises(InvalidInput):
            self.signed(chain[0], STRANGER)
        form = json.loads(self.signed(chain[0]))
        for change in (
            {"signature": json.loads(self.signed(chain[1]))["signature"]},
            {"signature": known.ISSUER.sign(wire.canonical(form["announcement"])).hex()},
            {"announcement": form["announcement"] | {"threshold": "1"}},
            {"announcement": form["announcement"] | {"round": 1}},
            {"announcement": form["announcement"] | {"more": 1}},
            {"announcement": []},
        ):
            with pytest.raises(wire.SignatureError):
                wire.open_announcement(wire.canonical(form | change), made)
        with pytest.raises(wire.WireError):
            wire.open_announcement(wire.canonical(form | {"more": 1}), made)

    def test_signed_nonsense_is_refused_too(self) -> None:
        """What the issuer itself signs is held against the manifest as well."""
        made, first = known.manifest(), self.chain()[0]

        def signed(form: dict[str, Any]) -> bytes:
            signature = known.ISSUER.sign(b"privquant/announcement/2\x00" + wire.canonical(form)).hex()
            return wire.canonical({"announcement": form, "signature": signature})

        assert wire.open_announcement(signed(first.to_dict()), made) == first
        for change in (
            {"campaign": "0" * 64},
            {"round": 3},
            {"round": -1},
            {"round": True},
            {"threshold": str(2**62)},
            {"threshold": "-1"},
            {"threshold": 5},
            {"previous": "x"},
        ):
            with pytest.raises(wire.WireError):
                wire.open_announcement(signed(first.to_dict() | change), made)

    def test_a_broken_chain_is_refused(self) -> None:
        made, chain = known.manifest(), self.chain()
        last = self.signed(chain[2])
        for earlier in (known.THRESHOLDS[:1], known.THRESHOLDS, (1, 2), known.THRESHOLDS[:2][::-1]):
            with pytest.raises(wire.WireError):
                wire.RoundAnswer.parse(wire.round_answer(last, earlier), made)

    def test_the_longest_answer_fits(self) -> None:
        rows = tuple(wire.RoundTerms(10, 2**63 - 1) for _ in range(wire.MAX_ROUNDS))
        made = known.manifest(known.shuffle(rounds=rows))
        thresholds = [2**62 - 2] * wire.MAX_ROUNDS
        last = wire.announcements(made.id, thresholds)[-1]
        body = wire.round_answer(wire.sign_announcement(last, made, known.ISSUER), thresholds[:-1])
        assert len(body) <= wire.MAX_ROUND_ANSWER
        assert wire.RoundAnswer.parse(body, made).announcement == last


class TestSealing:
    INFO = wire.report_info("ab" * 32, 3, 17, 2**62)
    KEY = wire.SealKey.of(known.SEAL)

    def test_both_bits_come_back_from_sealed_bytes_of_one_size(self) -> None:
        for bit in (0, 1):
            sealed = {wire.seal(bit, self.KEY, self.INFO) for _ in range(10)}
            assert len(sealed) == 10
            assert {len(each) for each in sealed} == {wire.SEALED_BYTES}
            assert {wire.opener(known.SEAL, self.INFO)(each) for each in sealed} == {bit}

    @pytest.mark.parametrize(
        "other",
        [("ab" * 31 + "ac", 3, 17, 2**62), ("ab" * 32, 4, 17, 2**62), ("ab" * 32, 3, 18, 2**62),
         ("ab" * 32, 3, 17, 2**62 + 1)],
        ids=["campaign", "round", "threshold", "coin"],
    )  # fmt: skip
    def test_it_opens_for_its_own_question_only(self, other: tuple[str, int, int, int]) -> None:
        sealed = wire.seal(1, self.KEY, self.INFO)
        assert wire.opener(known.SEAL, self.INFO)(sealed) == 1
        with pytest.raises(wire.SealError):
            wire.opener(known.SEAL, wire.report_info(*other))(sealed)
        with pytest.raises(wire.SealError):
            wire.opener(X25519PrivateKey.generate(), self.INFO)(sealed)

    def test_no_changed_or_cut_byte_opens(self) -> None:
        sealed = wire.seal(1, self.KEY, self.INFO)
        for place in range(len(sealed)):
            changed = bytearray(sealed)
            changed[place] ^= 0x40
            with pytest.raises(wire.SealError):
                wire.opener(known.SEAL, self.INFO)(bytes(changed))
        for wrong in (b"", sealed[:-1], sealed + b"\x00"):
            with pytest.raises(wire.SealError):
                wire.opener(known.SEAL, self.INFO)(wrong)

    @pytest.mark.parametrize("text", [b"", b"\x02", b"1", b"\x00\x01"])
    def test_only_a_bit_is_taken_out(self, text: bytes) -> None:
        ephemeral = X25519PrivateKey.from_private_bytes(bytes([5] * 32))
        sealed = hpke_twin.seal(self.KEY.public_key, self.INFO, b"", text, ephemeral)
        with pytest.raises(wire.SealError):
            wire.opener(known.SEAL, self.INFO)(sealed)

    @pytest.mark.parametrize("bit", [2, True, "1", None, 0.0])
    def test_only_a_bit_is_put_in(self, bit: Any) -> None:
        with pytest.raises(InvalidInput):
            wire.seal(bit, self.KEY, self.INFO)

    @pytest.mark.parametrize("point", [bytes(32), b"\x01" + bytes(31)])
    def test_a_key_of_small_order_seals_nothing(self, point: bytes) -> None:
        with pytest.raises(wire.WireError, match="secret"):
            wire.seal(1, wire.SealKey(point), self.INFO)

    @pytest.mark.parametrize("answered", [(2**32, 0, 1), (-1, 0, 1), (0, 2**64, 1), (0, -1, 1), (0, 0, 2**64)])
    def test_info_has_one_length(self, answered: tuple[int, int, int]) -> None:
        assert len(self.INFO) == 19 + 2 + 32 + 4 + 8 + 8
        with pytest.raises(wire.WireError):
            wire.report_info("ab" * 32, *answered)

    def test_the_vector_of_the_rfc(self) -> None:
        """The library opens it (with the associated data that the public call does not take); the twin makes it."""
        info, aad, text = (bytes.fromhex(RFC[name]) for name in ("info", "aad", "pt"))
        whole = bytes.fromhex(RFC["enc"] + RFC["ct"])
        key = X25519PrivateKey.from_private_bytes(bytes.fromhex(RFC["skRm"]))
        suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
        assert openssl.hpke._decrypt_with_aad(suite, whole, key, info, aad) == text
        ephemeral = X25519PrivateKey.from_private_bytes(bytes.fromhex(RFC["skEm"]))
        assert hpke_twin.seal(bytes.fromhex(RFC["pkRm"]), info, aad, text, ephemeral) == whole

    def test_a_report_reads_back(self) -> None:
        sealed = wire.seal(1, self.KEY, self.INFO)
        report = wire.SealedReport("A" * 22, 3, sealed)
        assert wire.SealedReport.parse(report.to_bytes()) == report
        form = json.loads(report.to_bytes())
        for change in ({"round": -1}, {"round": "3"}, {"sealed": form["sealed"][:-1]}, {"bit": 1}, {"token": "x"}):
            with pytest.raises(wire.WireError):
                wire.SealedReport.parse(wire.canonical(form | change))
        for new in (True, False):
            assert wire.ACCEPTED.parse(wire.ACCEPTED.body(new)) == ("accepted" if new else "already accepted")
        with pytest.raises(wire.WireError):
            wire.ACCEPTED.parse(wire.COUNTED.body(True))


class TestBatches:
    def sealed(self, count: int) -> list[bytes]:
        return [number.to_bytes(wire.SEALED_BYTES, "big") for number in range(count)]

    def test_a_batch_reads_back_part_by_part(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made = known.manifest()
        monkeypatch.setattr(wire.rounds, "PART_LIMIT", 4)
        for count in (1, 4, 5, 11):
            parts = known.parts_of_batch(made.id, 1, self.sealed(count))
            read = [wire.open_part(wire.sign_part(part, made, known.SHUFFLER), made) for part in parts]
            assert read == parts
            whole = [each for part in read for each in part.sealed]
            assert whole == self.sealed(count)
            assert {part.id for part in read} == {wire.batch_id(made.id, 1, whole)}

    def test_a_full_part_fits_its_route(self) -> None:
        made = known.manifest()
        parts = known.parts_of_batch(made.id, 2, self.sealed(wire.PART_LIMIT + 1))
        assert [len(part.sealed) for part in parts] == [wire.PART_LIMIT, 1]
        assert len(wire.sign_part(parts[0], made, known.SHUFFLER)) <= wire.BATCHES.most_sent

    def test_another_order_round_or_campaign_is_another_batch(self) -> None:
        made, sealed = known.manifest(), self.sealed(5)
        ids = {
            wire.batch_id(made.id, 0, sealed),
            wire.batch_id(made.id, 1, sealed),
            wire.batch_id("0" * 64, 0, sealed),
            wire.batch_id(made.id, 0, sealed[::-1]),
            wire.batch_id(made.id, 0, sealed[:4]),
        }
        assert len(ids) == 5

    def test_only_the_shuffler_of_the_campaign_can_send_one(self) -> None:
        made = known.manifest()
        part = known.parts_of_batch(made.id, 0, self.sealed(3))[0]
        notice = wire.RoundNotice(made.id, 0, wire.DROPPED, 3)
        for stranger in (STRANGER, known.ISSUER):
            with pytest.raises(InvalidInput):
                wire.sign_part(part, made, stranger)
        form = json.loads(wire.sign_part(part, made, known.SHUFFLER))
        as_notice = known.SHUFFLER.sign(b"privquant/notice/2\x00" + wire.canonical(form["batch"])).hex()
        for forged in (
            form | {"signature": known.ISSUER.sign(wire.canonical(form["batch"])).hex()},
            form | {"signature": as_notice},
            form | {"batch": form["batch"] | {"round": 1}},
            form | {"batch": form["batch"] | {"sealed": form["batch"]["sealed"][::-1]}},
        ):
            with pytest.raises(wire.SignatureError):
                wire.open_part(wire.canonical(forged), made)
        said = json.loads(wire.sign_notice(notice, made, known.SHUFFLER))
        with pytest.raises(wire.SignatureError):
            wire.open_notice(wire.canonical(said | {"notice": said["notice"] | {"reports": 4}}), made)

    @pytest.mark.parametrize(
        "change",
        [
            {"campaign": "0" * 64},
            {"round": 3},
            {"round": True},
            {"id": "x"},
            {"reports": 0},
            {"reports": 4},
            {"part": 1},
            {"parts": 2},
            {"sealed": []},
            {"sealed": "x"},
            {"more": 1},
        ],
    )
    def test_what_the_shuffler_signs_is_read_strictly_too(self, change: dict[str, Any]) -> None:
        made = known.manifest()
        form = known.parts_of_batch(made.id, 0, self.sealed(3))[0].to_dict() | change
        signature = known.SHUFFLER.sign(b"privquant/batch/2\x00" + wire.canonical(form)).hex()
        with pytest.raises(wire.WireError):
            wire.open_part(wire.canonical({"batch": form, "signature": signature}), made)

    def test_enough_is_the_number_of_the_round(self) -> None:
        made = known.manifest()
        for number, row in enumerate(made.shuffle.rounds[:2]):
            assert wire.enough(known.parts_of_batch(made.id, number, self.sealed(row.batch))[0], made)
            assert not wire.enough(known.parts_of_batch(made.id, number, self.sealed(row.batch - 1))[0], made)

    def test_notices_read_back(self) -> None:
        made = known.manifest()
        for status in (wire.EXTENDED, wire.DROPPED):
            notice = wire.RoundNotice(made.id, 2, status, 39_999)
            assert wire.open_notice(wire.sign_notice(notice, made, known.SHUFFLER), made) == notice
        with pytest.raises(wire.WireError):
            wire.RoundNotice.from_dict(notice.to_dict() | {"status": "lost"})
        assert wire.parse_status(wire.status_body(wire.KEPT), (wire.KEPT,)) == wire.KEPT
        with pytest.raises(wire.WireError):
            wire.parse_status(wire.status_body(wire.KEPT), (wire.NOTED,))

    def test_a_local_campaign_has_none(self) -> None:
        from test_wire import manifest as local

        with pytest.raises(wire.WireError, match="local"):
            wire.open_part(wire.canonical({"batch": {}, "signature": "0" * 128}), local())


@given(st.binary(max_size=200))
def test_noise_is_an_error_of_the_sender(body: bytes) -> None:
    made = known.manifest()
    for read in (
        lambda: wire.open_announcement(body, made),
        lambda: wire.open_part(body, made),
        lambda: wire.open_notice(body, made),
        lambda: wire.RoundAnswer.parse(body, made),
        lambda: wire.SealedReport.parse(body),
    ):
        with pytest.raises(wire.WireError):
            read()


def test_each_role_has_its_routes() -> None:
    assert wire.route_of(wire.path_of("x", "batches")) is None
    assert wire.route_of(wire.path_of("x", "batches"), wire.SHUFFLED_ROUTES) == ("x", wire.BATCHES)
    assert wire.route_of(wire.path_of("x", "query"), wire.SHUFFLER_ROUTES) == ("x", wire.ROUND_QUERY)
    assert wire.route_of(wire.path_of("x", "query")) == ("x", wire.QUERY)
    page = (ROOT.parent / "docs" / "wire.md").read_text()
    for route in (*wire.ROUTES, *wire.SHUFFLER_ROUTES, *wire.SHUFFLED_ROUTES):
        assert f"`{route.method} {wire.path_of('{id}', route.name)}`" in page


def test_the_vectors_in_the_docs_are_the_ones_the_code_gives() -> None:
    stored = json.loads(VECTORS.read_text())
    assert {name: stored[name] for name in known.vectors()} == known.vectors()
    for row in stored["accounting"]:
        asked = {name: row[name] for name in ("epsilon", "delta", "batch")}
        assert keeps(coin=int(row["coin"]), **asked) is row["keeps"]
    book = records.read(stored["ledger"].encode())
    (answer,) = book.answers["commute-minutes"].values()
    assert (answer.state, answer.bit, answer.shuffled.batch) == ("acked", 1, 950)
    assert book.announced == {stored["campaign"]: {0: known.THRESHOLDS[0]}}
    made = known.manifest()
    assert opened(stored["envelope"].encode(), made) == made
    key = X25519PrivateKey.from_private_bytes(bytes.fromhex(stored["keys"]["seal"]))
    infos = {row["info"] for row in stored["sealed"]}
    for row in stored["sealed"]:
        for info in infos:
            sealed, named = bytes.fromhex(row["sealed"]), bytes.fromhex(info)
            if info == row["info"]:
                assert wire.opener(key, named)(sealed) == row["bit"]
            else:
                with pytest.raises(wire.SealError):
                    wire.opener(key, named)(sealed)

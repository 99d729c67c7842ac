"""A server that means harm by what it says, over real sockets: it asks too much, forges, asks no question.

The device refuses, and its ledger stays right: every test ends in `harmless` (see `loopback`). What a server can do
to the connection itself is in `test_hostile_wire`.
"""

import hashlib
import json
from dataclasses import dataclass, replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from loopback import ONCE, TICKET, Campaign, Server, campaign, harmless, reply, reset

from privquant.device import (
    ManifestRefused,
    PolicyRefused,
    QuestionRefused,
    TryLater,
)
from privquant.domain import Integers
from privquant.privacy.coin import flip_threshold
from privquant.wire import canonical, public_key_of, sign_manifest


def test_the_honest_server_of_these_tests_is_answered(server, make_device, ledger):
    """The refusals below are not for a reason they all share."""
    assert make_device().answer(server.invite(), 30).status == "counted"
    harmless(server, ledger)


# -- asking too much ----------------------------------------------------------------------------------------


def test_asking_twice_gives_one_bit(server, make_device, ledger):
    """The same campaign under twenty invites with other thresholds: nothing more is sent."""
    make_device().answer(server.invite(), 30)
    sent = len(server.requests)
    for threshold in range(20):
        server.threshold = threshold
        assert make_device().answer(server.invite(), 30).status == "answered before"
    assert len(server.requests) == sent
    harmless(server, ledger)


def test_the_same_measurement_under_a_new_campaign_id_is_refused(server, make_device, ledger):
    make_device().answer(server.invite(), 30)
    for nonce in range(5):
        server.publish(nonce=f"{nonce:032x}")
        with pytest.raises(PolicyRefused) as refusal:
            make_device().answer(server.invite(), 30)
        assert refusal.value.reason == "one-answer"
    assert [request.what for request in server.requests].count("query") == 1
    harmless(server, ledger)


def test_a_second_campaign_answered_while_the_first_is_asking_leaves_one_answer(server, make_device, ledger):
    """Both pass the first look at the budget; the one under the lock decides."""
    with Server(campaign()) as other:

        def overtaken(request):
            assert make_device().answer(other.invite(), 30).status == "counted"
            return server.honest(request)

        server.on["query"] = overtaken
        with pytest.raises(PolicyRefused) as refusal:
            make_device().answer(server.invite(), 30)
        assert refusal.value.reason == "one-answer"
        assert not server.bits
        harmless(other, ledger)


def test_another_issuer_does_not_get_a_second_answer(server, make_device, ledger):
    make_device().answer(server.invite(), 30)
    with Server(campaign()) as other:
        with pytest.raises(PolicyRefused):
            make_device().answer(other.invite(), 30)
        assert not other.bits


def test_an_unfinished_answer_counts_as_given(server, make_device, ledger):
    """A server that never acknowledges does not get a second draw through another campaign."""
    server.on["reports"] = lambda request: (server.keep(request), reset())[1]
    with pytest.raises(TryLater):
        make_device(patience=ONCE).answer(server.invite(), 30)
    server.publish(nonce="0" * 32)
    with pytest.raises(PolicyRefused):
        make_device().answer(server.invite(), 30)
    harmless(server, ledger)


@pytest.mark.parametrize("epsilon", [1.0000000001, 1.1, 5.0, 44.0])
def test_less_noise_than_the_policy_allows_is_refused(server, refused, epsilon):
    server.publish(epsilon=epsilon, flip_threshold=flip_threshold(epsilon))
    refused(PolicyRefused, "epsilon-per-answer")


@pytest.mark.parametrize("change", [{"measurement": "weight"}, {"measurement": "steps2"}])
def test_a_measurement_the_policy_does_not_name_is_refused(server, refused, change):
    server.publish(**change)
    refused(PolicyRefused, "unknown-measurement")


@pytest.mark.parametrize("domain", [Integers(0, 101), Integers(-1, 100), Integers(0, 1), Integers(0, 2**62)])
def test_another_domain_is_refused(server, refused, domain):
    server.publish(domain=domain)
    refused(PolicyRefused, "domain")


# -- forged manifests ---------------------------------------------------------------------------------------


@dataclass
class Forged:
    """Changes to the JSON of an honest manifest, signed by the issuer all the same, invite and all."""

    server: Server

    def serve(self, form: dict) -> str:
        """Publish this form under its true hash; returns an invite to it."""
        body = canonical(form)
        key = self.server.campaign.key
        envelope = {"manifest": form, "signature": key.sign(b"privquant/manifest/1\x00" + body).hex()}
        self.server.on["manifest"] = lambda request: reply(200, canonical(envelope))
        honest = self.server.campaign.invite(self.server.base)
        return replace(honest, campaign_id=hashlib.sha256(body).hexdigest()).to_url()


@pytest.fixture
def forged(server):
    return Forged(server)


def test_the_forger_of_these_tests_can_forge(server, forged, make_device):
    form = server.campaign.manifest.to_dict() | {"nonce": "0" * 32}
    server.publish(nonce="0" * 32)
    assert make_device().answer(forged.serve(form), 30).status == "counted"


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"version": 2},
        {"version": 0},
        {"version": True},
        {"version": "1"},
        {"flip_threshold": str(flip_threshold(1.0) - 1)},
        {"flip_threshold": "1"},
        {"flip_threshold": "0"},
        {"flip_threshold": "-1"},
        {"flip_threshold": str(2**64)},
        {"flip_threshold": 1},
        {"epsilon": 1},
        {"epsilon": "1"},
        {"epsilon": "nan"},
        {"epsilon": "-1.0"},
        {"domain": {"kind": "integers", "low": "0", "high": str(2**64)}},
        {"domain": {"kind": "integers", "low": 0, "high": 100}},
        {"domain": {"kind": "integers", "low": "0", "high": "100", "step": "2"}},
        {"domain": {"kind": "anything"}},
        {"measurement": "Steps"},
        {"measurement": "steps "},
        {"measurement": "ſteps"},
        {"measurement": ["steps"]},
        {"measurement": ""},
        {"question": "\x1b[2J"},
        {"trust": "local"},
        {"waves": None},
        {"issuer": "x"},
    ],
    ids=str,
)
def test_a_malformed_manifest_is_refused_however_well_signed(server, forged, refused, change):
    invite = forged.serve(server.campaign.manifest.to_dict() | change)
    refused(ManifestRefused, "manifest-malformed", invite)
    assert [request.what for request in server.requests] == ["manifest"]


def test_a_missing_field_is_refused(server, forged, refused):
    for name in server.campaign.manifest.to_dict():
        form = server.campaign.manifest.to_dict()
        del form[name]
        refused(ManifestRefused, "manifest-malformed", forged.serve(form))


def test_the_shuffle_model_is_unknown_to_version_1(server, forged, refused):
    form = server.campaign.manifest.to_dict() | {"trust": {"model": "shuffle"}}
    refusal = refused(ManifestRefused, "trust-model", forged.serve(form))
    assert "this version knows 'local'" in refusal.text


def test_a_manifest_changed_after_the_invite_was_given_is_refused(server, refused):
    invite = server.invite()
    server.publish(planned_users=5)
    refused(ManifestRefused, "manifest-forged", invite)


def test_a_manifest_of_another_key_is_refused(server, refused):
    """The attacker signs correctly with a key of their own; the invite names the issuer's."""
    key = Ed25519PrivateKey.generate()
    manifest = replace(server.campaign.manifest, issuer=public_key_of(key))
    server.on["manifest"] = lambda request: reply(200, sign_manifest(manifest, key))
    theirs = Campaign(manifest, key).invite(server.base)
    ours = server.campaign.invite(server.base)
    refused(ManifestRefused, "manifest-forged", replace(theirs, key_fingerprint=ours.key_fingerprint).to_url())


@pytest.mark.parametrize("how", ["zero", "flip", "short", "upper", "other", "missing", "number"])
def test_a_wrong_signature_is_refused(server, refused, how):
    envelope = json.loads(server.campaign.envelope)
    signature = envelope["signature"]
    envelope["signature"] = {
        "zero": "0" * 128,
        "flip": f"{int(signature, 16) ^ 1:0128x}",
        "short": signature[:-2],
        "upper": signature.upper() if signature.upper() != signature else "A" * 128,
        "other": server.campaign.key.sign(server.campaign.manifest.to_bytes()).hex(),
        "missing": None,
        "number": 7,
    }[how]
    server.on["manifest"] = lambda request: reply(200, canonical(envelope))
    refused(ManifestRefused, "manifest-forged")


# -- questions that are none --------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [-1, 100, 101, 2**31, 2**62, 10**19])
def test_a_threshold_outside_the_domain_is_refused(server, refused, threshold):
    server.threshold = threshold
    refused(QuestionRefused, "threshold")


@pytest.mark.parametrize("threshold", [0, 99])
def test_the_outermost_thresholds_are_answered(server, make_device, threshold):
    server.threshold = threshold
    assert make_device().answer(server.invite(), 30).asked == threshold


@pytest.mark.parametrize(
    "body",
    [
        {"threshold": 50, "ticket": TICKET},
        {"threshold": "50.0", "ticket": TICKET},
        {"threshold": "5e1", "ticket": TICKET},
        {"threshold": " 50", "ticket": TICKET},
        {"threshold": "050", "ticket": TICKET},
        {"threshold": "٥٠", "ticket": TICKET},
        {"threshold": "1" * 100, "ticket": TICKET},
        {"threshold": True, "ticket": TICKET},
        {"threshold": None, "ticket": TICKET},
        {"threshold": ["50"], "ticket": TICKET},
        {"threshold": "50", "ticket": TICKET, "epsilon": "5.0"},
        {"threshold": "50", "ticket": TICKET, "flip_threshold": "1"},
        {"threshold": "50"},
        {"threshold": "50", "ticket": "x" * 1000},
        {"threshold": "50", "ticket": "a\r\nb"},
        {"threshold": "50", "ticket": 7},
        {"threshold": "50", "ticket": ""},
        [],
        "50",
        None,
    ],
    ids=str,
)
def test_a_question_that_is_not_one_is_refused(server, refused, body):
    server.on["query"] = lambda request: reply(200, json.dumps(body).encode())
    refused(QuestionRefused, "question-malformed")


RAW = [
    b'{"threshold":50.5,"ticket":"t"}',
    b'{"threshold":"50","threshold":"51","ticket":"t"}',
    b'{"threshold":NaN,"ticket":"t"}',
    b'{"threshold":' + b"9" * 3000 + b',"ticket":"t"}',
    b"[" * 4000,
    b"\xff\xfe",
    b"",
    b"<html>",
]


@pytest.mark.parametrize("body", RAW, ids=lambda raw: raw[:20])
def test_garbage_is_refused(server, refused, body):
    server.on["query"] = lambda request: reply(200, body)
    refused(QuestionRefused, "question-malformed")
    server.on["manifest"] = lambda request: reply(200, body)
    refused(ManifestRefused, "manifest-malformed")


def test_after_a_bad_question_the_honest_one_is_still_answered(server, refused, make_device):
    server.threshold = 1000
    refused(QuestionRefused, "threshold")
    server.threshold = 50
    assert make_device().answer(server.invite(), 30).status == "counted"

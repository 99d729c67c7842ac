"""A shuffled campaign on a real loopback server: what leaves, what it costs, and who is refused.

Each row of the threat table that concerns the device has its case here: an aggregator that lowers the noise, makes
batches small, announces twice or outside the domain, names itself as shuffler; a shuffler that forges, replays or
withholds announcements, or has no part in the campaign.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from loopback import HASTY, ONCE, Server, campaign, reply, reset
from shuffled_loopback import DELTA, EPSILON, ROUNDS, ShuffleServer, harmless_shuffled

from privquant.device import (
    Device,
    Ledger,
    ManifestRefused,
    Policy,
    PolicyRefused,
    QuestionRefused,
    Refused,
    Rule,
    ServerRefused,
    ShuffleRule,
    TryLater,
    spending,
)
from privquant.device.answer_states import State
from privquant.domain import Integers
from privquant.privacy.coin import Coin, flip_threshold, real_epsilon
from privquant.wire import (
    RoundTerms,
    SealKey,
    announcements,
    canonical,
    fingerprint,
    problem_body,
    public_key_of,
    round_answer,
    sign_announcement,
)

STRANGER = Ed25519PrivateKey.from_private_bytes(bytes([9] * 32))
TRUST = {"max_local_epsilon": 5, "max_delta": DELTA}


@pytest.fixture
def server():
    with ShuffleServer() as running:
        yield running


@pytest.fixture
def device(ledger):
    """May be asked for `steps`, shuffled, once. Keywords change the rule, `trust` its table about shuffling."""

    def make(path=None, patience=HASTY, trust=None, **changes) -> Device:
        shuffle = None if trust is False else ShuffleRule(**(TRUST | (trust or {})))
        rule = Rule(**{"domain": Integers(0, 100), "max_epsilon": EPSILON, "shuffle": shuffle, **changes})
        return Device(Policy({"steps": rule}, path or ledger), patience=patience)

    return make


@pytest.fixture
def refused(server, device, ledger):
    def check(kind, reason, invite=None, drawn=False, asked=None, **rule):
        with pytest.raises(kind) as refusal:
            device(**rule).answer(invite or server.invite(), 30)
        assert refusal.value.reason == reason
        assert refusal.value.text.isprintable()
        assert bool(Ledger(ledger).answers("steps")) is drawn
        if asked is not None:
            assert ("query" in {request.what for request in server.requests}) is asked
        harmless_shuffled(server, ledger)
        return refusal.value

    return check


def why(device, invite) -> str:
    """The reason for which this device refuses."""
    with pytest.raises(Refused) as refusal:
        device.answer(invite, 30)
    return refusal.value.reason


# -- what happens when all is well --------------------------------------------------------------------------------


def test_one_sealed_bit_leaves_and_three_sums_are_kept(server, device, ledger):
    receipt = device().answer(server.invite(), 30)
    assert (receipt.status, receipt.asked, receipt.epsilon) == ("accepted", 25, EPSILON)
    assert (receipt.spent, receipt.lifetime) == ("1", "1")
    local = Coin(flip_threshold(4.9)).epsilon
    more = receipt.shuffled
    assert (more.round, more.batch, more.delta, more.local_epsilon) == (1, 5000, DELTA, local)
    assert (more.spent_delta, more.lifetime_delta) == ("1e-6", "1e-6")
    assert (more.spent_local_epsilon, more.lifetime_local_epsilon) == ("4.9", "5")
    assert str(receipt.guarantee) == (
        "Each answer is (1, 1e-06)-differentially private if the shuffler is honest and mixes at least 5000 honest "
        "reports, and 4.9-differentially private otherwise."
    )
    assert [each for bits in server.bits.values() for each in bits] == [receipt.bit]
    (answer,) = Ledger(ledger).answers("steps")
    assert (answer.state, answer.ticket, answer.shuffled.round) == (State.ACKED, "", 1)
    assert [request.what for request in server.requests] == ["manifest", "query", "reports"]
    assert device().answer(server.invite(), 30).status == "answered before"
    assert len(server.requests) == 3


def test_an_open_link_works_the_same(server, device):
    receipt = device().answer(server.invite(link="L" * 21 + "A"), 30)
    assert receipt.status == "accepted"
    assert [request.what for request in server.requests] == ["manifest", "claims", "query", "reports"]


def test_the_report_says_nothing_in_clear(server, device, tmp_path):
    """The same bytes for both values and bits but for token and sealed bytes, which have one length."""
    shapes, bits = set(), set()
    for run in range(40):
        server.requests.clear()
        bits.add(device(tmp_path / f"{run}").answer(server.invite(), run % 2 * 100).bit)
        raws = []
        for request in server.requests:
            form = json.loads(request.body) if request.body else {}
            assert set(form) in ({"token_hash"}, {"token", "round", "sealed"}, set())
            raw = request.raw
            for name in ("token_hash", "token", "sealed"):
                if name in form:
                    raw = raw.replace(form[name].encode(), b"x" * len(form[name]))
            raws.append(raw)
        shapes.add(tuple(raws))
    assert bits == {0, 1}
    assert len(shapes) == 1


def test_a_resend_has_the_same_bytes(server, device, ledger):
    invite = server.invite()
    server.on["reports"] = lambda request: (server.keep(request), reset())[1]
    with pytest.raises(TryLater):
        device(patience=ONCE).answer(invite, 0)
    del server.on["reports"]
    server.thresholds = (50, 25, 99)  # whatever is announced afterwards is not looked at
    receipt = device().answer(invite, 100)
    assert receipt.status == "already accepted"
    (arrived,) = server.sealed.values()
    assert len(arrived) >= 2
    assert len(set(arrived)) == 1
    assert [request.what for request in server.requests].count("query") == 1
    harmless_shuffled(server, ledger)


def test_not_yet_is_waited_for(server, device):
    replies = [reply(425, problem_body("not-yet", "no round is open"), Retry_After="0")]
    server.on["query"] = lambda request: replies.pop() if replies else server.honest(request)
    assert device().answer(server.invite(), 30).status == "accepted"


def test_a_round_that_closed_meanwhile_is_a_final_no_and_the_bit_counts_as_spent(server, device, refused):
    server.on["reports"] = lambda request: reply(410, problem_body("round-closed", ""))
    invite = server.invite()
    refused(ServerRefused, "server-refused", invite, drawn=True)
    server.publish(nonce="0" * 32)
    refused(PolicyRefused, "one-answer", drawn=True)


# -- the owner's limits --------------------------------------------------------------------------------------------


def test_a_policy_that_is_silent_on_shuffling_refuses_it(refused):
    assert "trusts no shuffler" in refused(PolicyRefused, "shuffling", trust=False, asked=False).text


@pytest.mark.parametrize(
    ("reason", "rule"),
    [
        ("epsilon-per-answer", {"max_epsilon": 0.999}),
        ("delta-per-answer", {"trust": {"max_delta": 0.9e-6}}),
        ("local-epsilon-per-answer", {"trust": {"max_local_epsilon": 4.899, "lifetime_local_epsilon": 50}}),
        ("epsilon-lifetime", {"lifetime_epsilon": 0.9}),
        ("delta-lifetime", {"trust": {"lifetime_delta": 0.9e-6}}),
        ("local-epsilon-lifetime", {"trust": {"lifetime_local_epsilon": 4.8}}),
        ("shuffler-key", {"trust": {"shuffler_key": "0" * 64}}),
        ("shuffler-key", {"trust": {"shuffler_key": "0" * 32}}),
        ("issuer-key", {"issuer_key": "0" * 64}),
        ("domain", {"domain": Integers(0, 101)}),
    ],
)
def test_every_limit_refuses_before_anything_is_asked(refused, reason, rule):
    refused(PolicyRefused, reason, asked=False, **rule)


def test_a_pinned_shuffler_is_answered(server, device, tmp_path):
    key = server.campaign.manifest.shuffle.key
    for number, pinned in enumerate((key, fingerprint(key))):
        found = device(tmp_path / f"{number}", trust={"shuffler_key": pinned}).answer(server.invite(), 30)
        assert found.status == "accepted"


def test_the_three_sums_add_up_over_local_and_shuffled_answers(server, device, ledger):
    """A local answer at 1 and a shuffled one: epsilon 2, delta 1e-6, local 1 + the coin's."""
    wide = {"lifetime_epsilon": 2, "answers": 9}
    with Server(campaign()) as local:
        device(trust={"lifetime_local_epsilon": 6}, **wide).answer(local.invite(), 30)
    strict = device(trust={"lifetime_local_epsilon": 5.8}, **wide)
    assert why(strict, server.invite()) == "local-epsilon-lifetime"
    receipt = device(trust={"lifetime_local_epsilon": 5.9}, **wide).answer(server.invite(), 30)
    more = receipt.shuffled
    assert (receipt.spent, more.spent_delta, more.spent_local_epsilon) == ("2", "1e-6", "5.9")
    # A policy that no longer trusts a shuffler counts the shuffled answer by its coin.
    with Server(campaign(epsilon=0.1)) as local:
        silent = [device(trust=False, lifetime_epsilon=lifetime, answers=9) for lifetime in (5.9, 6)]
        assert why(silent[0], local.invite()) == "local-epsilon-lifetime"
        assert silent[1].answer(local.invite(), 30).spent == "2.1"


def test_deltas_add_up_exactly(server, device):
    """Ten campaigns at 1e-6 fit a lifetime of 1e-5; the eleventh does not."""
    limits = {"trust": {"lifetime_delta": "1e-5", "lifetime_local_epsilon": 100}, "answers": 99}
    for nonce in range(10):
        server.publish(nonce=f"{nonce:032x}")
        receipt = device(lifetime_epsilon=100, **limits).answer(server.invite(), 30)
    assert receipt.shuffled.spent_delta == "1e-5"
    server.publish(nonce="f" * 32)
    assert why(device(lifetime_epsilon=100, **limits), server.invite()) == "delta-lifetime"


def test_a_policy_that_became_stricter_stops_a_resend(server, device):
    invite = server.invite()
    server.on["reports"] = lambda request: reset()
    with pytest.raises(TryLater):
        device(patience=ONCE).answer(invite, 0)
    del server.on["reports"]
    for trust, reason in (
        (False, "shuffling"),
        ({"max_local_epsilon": 4}, "local-epsilon-per-answer"),
        ({"max_delta": 1e-9}, "delta-per-answer"),
    ):
        assert why(device(trust=trust), invite) == reason
    assert not server.sealed
    assert device().answer(invite, 0).status == "accepted"


# -- a hostile aggregator ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 10, 4000])
def test_a_round_too_small_for_its_promise_is_refused(server, refused, batch):
    """The table says what would not hold: fewer reports than the coin needs."""
    rows = tuple(RoundTerms(batch, row.coin) for row in server.campaign.manifest.shuffle.rounds)
    server.publish(rounds=rows)
    text = refused(ManifestRefused, "accounting", asked=True).text
    assert "do not keep" in text


def test_lower_noise_than_the_batch_carries_is_refused(server, refused):
    server.publish(rounds=(RoundTerms(10**9, flip_threshold(20.0)),) * 3)
    refused(PolicyRefused, "local-epsilon-per-answer")
    refused(ManifestRefused, "accounting", trust={"max_local_epsilon": 40})


def test_a_delta_that_is_claimed_too_small_is_refused(server, refused):
    server.publish(delta=1e-12)
    refused(ManifestRefused, "accounting")


def test_the_owner_may_count_on_fewer_honest_reports(server, device, refused):
    """5000 reports carry the coin; the 4900 that are left when one in fifty is fake do too, half of them do not."""
    refused(ManifestRefused, "accounting", trust={"colluding": 0.5})
    assert device(trust={"colluding": "0.02"}).answer(server.invite(), 30).shuffled.batch == 4900


def test_the_campaigns_own_share_of_colluders_is_counted(server, device, refused):
    server.publish(colluding=0.5)
    refused(ManifestRefused, "accounting")
    server.publish(colluding=0.01)
    assert device().answer(server.invite(), 30).shuffled.batch == 4950


def test_a_seal_key_that_keeps_no_secret_is_refused(server, refused):
    server.publish(seal=SealKey(bytes(32)))
    refused(ManifestRefused, "manifest-malformed")


def second(server, threshold=10):
    """The issuer's other announcement of the round that is given out."""
    thresholds = (*server.thresholds[: server.round], threshold)
    return round_answer(server.envelopes(thresholds)[server.round], thresholds[: server.round])


def test_a_second_announcement_of_a_round_is_refused_for_good(server, device, ledger, refused):
    """The first was seen by a device that could not draw then; the issuer has signed another."""
    refused(ManifestRefused, "accounting", trust={"colluding": 0.5}, asked=True)
    invite = server.invite()
    server.on["query"] = lambda request: reply(200, second(server))
    text = refused(QuestionRefused, "second-announcement", invite).text
    assert "round 1" in text
    assert "cheats" in text
    # Also when it is hidden in the chain of a later round.
    later = (50, 10, 37)
    server.on["query"] = lambda request: reply(200, round_answer(server.envelopes(later)[2], later[:2]))
    refused(QuestionRefused, "second-announcement", invite)
    del server.on["query"]
    assert device().answer(invite, 30).status == "accepted"
    # What this device has answered it never asks about again.
    server.on["query"] = lambda request: reply(200, second(server))
    assert device().answer(invite, 30).status == "answered before"
    harmless_shuffled(server, ledger)


def test_a_first_announcement_alone_is_no_second(server, device):
    """The twin: the same other threshold is taken where no announcement was seen before."""
    server.thresholds = (50, 10, 37)
    assert device().answer(server.invite(), 30).asked == 10


@pytest.mark.parametrize(
    "change",
    [
        {"campaign": "0" * 64},
        {"round": 3},
        {"threshold": "100"},
        {"threshold": "-1"},
        {"threshold": "00"},
        {"coin": "1"},
        {"previous": "0" * 64},
    ],
)
def test_what_the_issuer_signs_against_its_own_manifest_is_refused(server, refused, change):
    form = announcements(server.campaign.manifest.id, server.thresholds)[1].to_dict() | change
    signature = server.campaign.key.sign(b"privquant/announcement/2\x00" + canonical(form)).hex()
    answer = {"announcement": {"announcement": form, "signature": signature}, "earlier": ["50"]}
    server.on["query"] = lambda request: reply(200, canonical(answer))
    reason = "announcement-forged" if "campaign" in change or "previous" in change else "question-malformed"
    refused(QuestionRefused, reason)


def test_an_aggregator_that_names_itself_as_shuffler_is_found_by_the_pinned_key(server, refused):
    honest = server.campaign.manifest.shuffle.key
    server.campaign = replace(server.campaign, shuffler=server.campaign.key)
    server.publish(key=public_key_of(server.campaign.key))
    refused(PolicyRefused, "shuffler-key", trust={"shuffler_key": honest})


def test_a_shuffler_that_did_not_accept_the_campaign_is_refused(server, refused):
    """The issuer alone signs: with no acceptance, with its own signature in its place, with another campaign's."""
    form = json.loads(server.campaign.envelope)
    other = json.loads(server.campaign.changed(nonce="0" * 32).envelope)
    for accepted in (None, form["signature"], other["accepted"], "0" * 128):
        said = {name: each for name, each in form.items() if name != "accepted"}
        said |= {} if accepted is None else {"accepted": accepted}
        server.on["manifest"] = lambda request, body=canonical(said): reply(200, body)
        refused(ManifestRefused, "manifest-forged", asked=False)


def test_the_report_goes_to_the_shuffler_of_the_manifest_only(server, device, refused, ledger):
    """An invite that leads elsewhere, to the aggregator say, is refused; so is a resend to another address."""
    server.publish(address="https://shuffle.example.org")
    refused(ManifestRefused, "shuffler-address", asked=False)
    server.publish(address=server.base)
    invite = server.invite()
    server.on["reports"] = lambda request: reset()
    with pytest.raises(TryLater):
        device(patience=ONCE).answer(invite, 0)
    moved = invite.replace("127.0.0.1", "localhost")
    assert why(device(), moved) == "shuffler-address"
    assert not server.sealed


def test_the_same_measurement_under_a_new_shuffled_campaign_is_refused(server, device, refused):
    device().answer(server.invite(), 30)
    server.publish(nonce="0" * 32)
    refused(PolicyRefused, "one-answer", drawn=True)
    with Server(campaign()) as local:
        with pytest.raises(PolicyRefused):
            device().answer(local.invite(), 30)
        assert not local.bits


# -- a hostile shuffler --------------------------------------------------------------------------------------------


def test_an_announcement_that_the_issuer_did_not_sign_is_refused(server, refused):
    manifest = server.campaign.manifest
    first, other = announcements(manifest.id, server.thresholds)[1], announcements(manifest.id, (50, 10))[1]
    honest = json.loads(sign_announcement(first, manifest, server.campaign.key))
    for form in (
        {"announcement": other.to_dict(), "signature": honest["signature"]},
        {"announcement": first.to_dict(), "signature": STRANGER.sign(canonical(first.to_dict())).hex()},
        {"announcement": first.to_dict(), "signature": "0" * 128},
        {"announcement": first.to_dict(), "signature": None},
    ):
        answer = canonical({"announcement": form, "earlier": ["50"]})
        server.on["query"] = lambda request, body=answer: reply(200, body)
        refused(QuestionRefused, "announcement-forged")


def test_an_announcement_of_another_campaign_is_refused(server, refused):
    """Of the same issuer, replayed."""
    other = server.campaign.changed(nonce="0" * 32)
    chain = announcements(other.manifest.id, server.thresholds)
    body = round_answer(sign_announcement(chain[1], other.manifest, other.key), (50,))
    server.on["query"] = lambda request: reply(200, body)
    refused(QuestionRefused, "announcement-forged")


@pytest.mark.parametrize("earlier", [[], ["25"], ["50", "25"], [50], "50", ["50"] * 1001])
def test_a_chain_that_does_not_lead_to_the_manifest_is_refused(server, refused, earlier):
    form = {"announcement": json.loads(server.envelopes()[1]), "earlier": earlier}
    server.on["query"] = lambda request: reply(200, canonical(form))
    reason = "announcement-forged" if earlier == ["25"] else "question-malformed"
    refused(QuestionRefused, reason)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"threshold":"50","ticket":"abc"}', b"x" * 40_000], ids=range(5)
)
def test_an_answer_that_is_none_is_refused(server, device, ledger, body):
    server.on["query"] = lambda request: reply(200, body)
    assert why(device(), server.invite()) in ("question-malformed", "too-large")
    harmless_shuffled(server, ledger)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"status":"counted"}', b'{"status":"lost"}'])
def test_an_acknowledgement_that_is_none_is_not_one(server, device, ledger, body):
    server.on["reports"] = lambda request: (server.keep(request), reply(201, body))[1]
    with pytest.raises(TryLater) as refusal:
        device(patience=ONCE).answer(server.invite(), 30)
    assert refusal.value.reason == "bad-acknowledgement"
    harmless_shuffled(server, ledger)


def test_a_shuffler_cannot_read_the_bit_or_turn_it_into_another_answer(server, device):
    """What was sealed opens for its own round, threshold and coin alone; see tests/test_wire_shuffle.py for all."""
    receipt = device().answer(server.invite(), 30)
    body = server.requests[-1].body
    assert set(json.loads(body)) == {"token", "round", "sealed"}
    assert [each for bits in server.bits.values() for each in bits] == [receipt.bit]


# -- the promise of the tests' own campaign ------------------------------------------------------------------------


def test_the_rounds_of_these_tests_keep_their_promise_and_hardly_more():
    from privquant.privacy import shuffle

    for batch, local in ROUNDS[:2]:
        most = shuffle.local_epsilon(epsilon=EPSILON, delta=DELTA, batch=batch)
        assert local <= most <= local + 0.12
        assert real_epsilon(flip_threshold(local)) <= local


def test_spending_units():
    spent = spending.shuffled(1.0, 1e-8, flip_threshold(3.0))
    assert (spent.epsilon, spent.delta, spent.local) == (10**12, 10**10, 3 * 10**12)
    assert spending.shown_delta(spent.delta) == "1e-8"
    assert spending.shown_delta(0) == "0"
    assert spending.shuffled(1.0, 1e-30, flip_threshold(3.0)).delta == 1
    assert spending.delta_limit("1e-6", "x") == spending.delta_limit(1e-6, "x") == 10**12


def test_the_page_has_every_refusal():
    from privquant.device import refusals

    page = (Path(__file__).parents[2] / "docs" / "device.md").read_text()
    for kind in vars(refusals).values():
        for reason in getattr(kind, "reasons", ()):
            assert f"`{reason}`" in page

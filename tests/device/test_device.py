"""A device and an honest server: one bit, whatever the network does."""

import json
import threading
import time

import pytest
from loopback import HASTY, ONCE, Server, campaign, reply, reset

from privquant.device import (
    Device,
    InviteRefused,
    Ledger,
    LedgerRefused,
    Patience,
    PolicyRefused,
    ServerRefused,
    Transport,
    TransportRefused,
    TryLater,
)
from privquant.device.answer_states import State
from privquant.domain import Grid, Integers, LogGrid
from privquant.errors import InvalidInput
from privquant.wire import new_token, problem_body, token_hash


def asked(server) -> list[str]:
    return [request.what for request in server.requests]


def test_an_answer_is_one_bit_and_a_receipt(server, make_device, ledger):
    token = new_token()
    receipt = make_device().answer(server.invite(token=token), 30)
    assert asked(server) == ["manifest", "query", "reports"]
    assert server.bits == {token: [receipt.bit]}
    assert receipt.status == "counted"
    assert receipt.asked == 50
    assert receipt.campaign == server.campaign.manifest.id
    assert receipt.epsilon == pytest.approx(1.0)
    assert (receipt.spent, receipt.lifetime) == ("1", "1")
    assert "1-differentially private whatever any server does" in receipt.to_dict()["guarantee"]
    assert Ledger(ledger).answers("steps")[0].state is State.ACKED


def test_the_server_sees_the_token_only_with_the_report(server, make_device):
    token = new_token()
    make_device().answer(server.invite(token=token), 30)
    assert [token.encode() in request.raw for request in server.requests] == [False, False, True]
    assert json.loads(server.requests[1].body) == {"token_hash": token_hash(token)}
    assert all("user-agent" not in request.headers for request in server.requests)


def test_a_second_call_sends_nothing(server, make_device):
    invite = server.invite()
    first = make_device().answer(invite, 30)
    second = make_device().answer(invite, 99)
    assert asked(server) == ["manifest", "query", "reports"]
    assert (second.status, second.bit) == ("answered before", first.bit)


@pytest.mark.parametrize(
    ("value", "clamped"), [(-5, 0), (1000, 100), (float("inf"), 100), (float("-inf"), 0), (7, 7)]
)
def test_the_value_is_clamped_to_the_domain(server, make_device, tmp_path, value, clamped):
    """At epsilon 40 the coin shows the true bit: a false alarm has probability 1e-17 an answer."""
    device = {"max_epsilon": 40}
    server.publish(epsilon=40.0, flip_threshold=campaign(epsilon=40.0).manifest.flip_threshold)
    for threshold in {clamped, clamped - 1} & set(range(100)):
        server.threshold = threshold
        path = tmp_path / f"at {threshold}"
        assert make_device(path, **device).answer(server.invite(), value).bit == int(clamped <= threshold)


@pytest.mark.parametrize("value", [None, "7", float("nan"), True, 1.5, [1]])
def test_what_is_no_value_is_the_callers_mistake_and_costs_nothing(server, make_device, ledger, value):
    with pytest.raises(InvalidInput):
        make_device().answer(server.invite(), value)
    assert asked(server) == ["manifest"]
    assert Ledger(ledger).answers("steps") == ()


def test_bins_of_a_grid(make_device, server):
    grid = Grid([1.5, 2.5, 4.0])
    server.publish(domain=grid)
    server.threshold = 1
    assert make_device(domain=grid).answer(server.invite(), 3.3).asked == 2.5


@pytest.mark.parametrize(("by", "bit"), [(-5e-13, 0), (0, 1), (5e-13, 1)])
def test_under_a_log_grid_the_edges_of_the_manifest_decide(server, make_device, by, bit):
    """The value is the policy's edge; whether it is at most the campaign's is for the campaign's own digits to say.

    At epsilon 40 a coin turns one bit in 2 * 10^17.
    """
    ours = LogGrid(1, 1000, 12)
    edges = [edge * (1 + by) if k == 5 else edge for k, edge in enumerate(ours.edges)]
    server.publish(domain=Grid(edges), epsilon=40.0, flip_threshold=campaign(epsilon=40.0).manifest.flip_threshold)
    server.threshold = 5
    receipt = make_device(domain=ours, max_epsilon=40).answer(server.invite(), ours.edges[5])
    assert receipt.bit == bit


# -- lost messages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["manifest", "query", "reports"])
@pytest.mark.parametrize("lost", ["request", "response"])
def test_a_lost_message_is_repeated_with_the_same_bit(server, make_device, what, lost):
    misses = []

    def lose(request):
        if len(misses) < 3:
            misses.append(request)
            if lost == "response":
                server.honest(request)
            return reset()
        return server.honest(request)

    server.on[what] = lose
    token = new_token()
    receipt = make_device().answer(server.invite(token=token), 30)
    assert len(misses) == 3
    arrived = server.bits[token]
    assert set(arrived) == {receipt.bit}
    lost_acknowledgements = 3 if (what, lost) == ("reports", "response") else 0
    assert len(arrived) == 1 + lost_acknowledgements
    assert receipt.status == ("already counted" if lost_acknowledgements else "counted")


def test_an_unacknowledged_bit_is_resent_by_the_next_run_and_never_redrawn(server, make_device, ledger):
    """Twenty runs, each with a value that would change the true bit. Redrawing would be seen but with 2^-19."""
    server.on["reports"] = lambda request: (server.keep(request), reset())[1]
    token = new_token()
    for run in range(20):
        with pytest.raises(TryLater):
            make_device(patience=ONCE).answer(server.invite(token=token), run % 2 * 100)
    assert asked(server).count("query") == 1
    assert len(server.bits[token]) == 21  # the first, over a kept connection, was repeated at once
    assert len(set(server.bits[token])) == 1
    assert Ledger(ledger).answers("steps")[0].state is State.SENT
    del server.on["reports"]
    receipt = make_device().answer(server.invite(token=token), 30)
    assert receipt.status == "already counted"
    assert {receipt.bit} == set(server.bits[token])


def test_an_acknowledgement_that_cannot_be_read_is_none(server, make_device, ledger):
    """As a captive portal gives it: status 200 and a page."""
    server.on["reports"] = lambda request: reply(200, b"<html>Please log in</html>")
    with pytest.raises(TryLater) as refusal:
        make_device().answer(server.invite(), 30)
    assert refusal.value.reason == "bad-acknowledgement"
    assert Ledger(ledger).answers("steps")[0].state is State.SENT


def test_a_final_no_to_a_report_is_told_and_the_bit_stays_spent(server, make_device, ledger):
    server.on["reports"] = lambda request: reply(410, problem_body("campaign-closed", "It is over\x1b[2J."))
    with pytest.raises(ServerRefused, match=r"It is over\[2J\.") as refusal:
        make_device().answer(server.invite(), 30)
    assert "\x1b" not in refusal.value.text
    assert Ledger(ledger).answers("steps")[0].state is State.SENT


# -- waiting ------------------------------------------------------------------------------------------------


def test_a_wave_that_has_not_opened_is_waited_for(server, make_device):
    """425 with Retry-After 1: the device comes back after a second or more, and not before."""
    times = []

    def not_yet(request):
        times.append(time.monotonic())
        if len(times) == 1:
            return reply(425, problem_body("not-yet", "wave 3"), Retry_After="1")
        return server.honest(request)

    server.on["query"] = not_yet
    patience = Patience(total=10, request=1, first_pause=0.01, longest_pause=0.05)
    assert make_device(patience=patience).answer(server.invite(), 30).status == "counted"
    assert times[1] - times[0] >= 1.0


@pytest.mark.parametrize("status", [425, 429, 503])
def test_a_wait_beyond_patience_is_not_begun(server, make_device, ledger, status):
    server.on["query"] = lambda request: reply(status, b"", Retry_After="3600")
    began = time.monotonic()
    with pytest.raises(TryLater) as refusal:
        make_device().answer(server.invite(), 30)
    assert time.monotonic() - began < 1.0
    assert refusal.value.retry_after == 3600
    assert refusal.value.reason == ("not-yet" if status == 425 else "server-error")
    assert Ledger(ledger).answers("steps") == ()


@pytest.mark.parametrize("header", ["-1", "1e9", "soon", "9" * 30, "Wed, 21 Oct 2026 07:28:00 GMT", ""])
def test_a_retry_after_that_is_no_number_is_ignored(server, make_device, header):
    def once(request):
        del server.on["query"]
        return reply(503, b"", Retry_After=header)

    server.on["query"] = once
    assert make_device().answer(server.invite(), 30).status == "counted"


def test_pauses_double_and_are_cut_by_chance():
    patience = Patience(total=100, request=1, first_pause=0.5, longest_pause=30)
    assert [patience.pause(n, 1.0) for n in (1, 2, 3, 6, 7, 1000)] == [0.5, 1, 2, 16, 30, 30]
    assert patience.pause(3, 0.0) == 1.0


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "5", True])
def test_patience_is_a_time(bad):
    with pytest.raises(InvalidInput, match="total"):
        Patience(total=bad)


# -- open links ---------------------------------------------------------------------------------------------


def test_an_open_link_claims_one_place_however_often_it_is_tried(server, make_device, ledger):
    link = new_token()
    server.on["query"] = lambda request: reply(503, b"", Retry_After="3600")
    for _ in range(3):
        with pytest.raises(TryLater):
            make_device(patience=ONCE).answer(server.invite(link=link), 30)
    del server.on["query"]
    make_device().answer(server.invite(link=link), 30)
    assert asked(server).count("claims") == 4
    assert len(server.claims) == 1
    (token,) = server.bits
    assert token_hash(token) in server.claims


def test_devices_make_different_tokens_for_one_link(server, make_device, tmp_path):
    link = new_token()
    for name in ("a", "b"):
        make_device(tmp_path / name).answer(server.invite(link=link), 30)
    assert len(server.bits) == len(server.claims) == 2


# -- policy and ledger --------------------------------------------------------------------------------------


def test_several_campaigns_only_as_far_as_the_policy_goes(server, make_device, ledger):
    """Answers 3, lifetime 0.3: at 0.1 a campaign three fit, exactly; then no more."""
    limits = {"max_epsilon": 0.1, "lifetime_epsilon": 0.3, "answers": 3}
    coin = campaign(epsilon=0.1).manifest.flip_threshold
    for number in range(3):
        server.publish(epsilon=0.1, flip_threshold=coin, nonce=f"{number:032x}")
        receipt = make_device(**limits).answer(server.invite(), 30)
    assert (receipt.spent, receipt.lifetime) == ("0.3", "0.3")
    server.publish(nonce="f" * 32)
    for changes, reason in (({}, "one-answer"), ({"answers": 4}, "epsilon-lifetime")):
        with pytest.raises(PolicyRefused) as refusal:
            make_device(**{**limits, **changes}).answer(server.invite(), 30)
        assert refusal.value.reason == reason
    assert len(server.bits) == 3
    assert make_device(**{**limits, "answers": 4, "lifetime_epsilon": 0.4}).answer(server.invite(), 30)


def test_a_prepared_bit_stays_here_when_the_policy_was_tightened(server, make_device, ledger):
    class Stopped(Exception):
        pass

    class Stopping(Ledger):
        def advance(self, answer, event):
            raise Stopped

    device = make_device()
    device.ledger = Stopping(ledger)
    invite = server.invite()
    with pytest.raises(Stopped):
        device.answer(invite, 30)
    assert Ledger(ledger).answers("steps")[0].state is State.PREPARED
    for changes, reason in (({"max_epsilon": 0.5}, "epsilon-per-answer"), ({"domain": Integers(0, 50)}, "domain")):
        with pytest.raises(PolicyRefused) as refusal:
            make_device(**changes).answer(invite, 30)
        assert refusal.value.reason == reason
    assert not server.bits
    assert make_device().answer(invite, 30).status == "counted"


def test_an_unfinished_answer_goes_out_under_its_own_invite_only(server, make_device):
    """Else a forged invite with the same campaign could send the token to another host."""
    server.on["reports"] = lambda request: reply(503, b"", Retry_After="3600")
    token = new_token()
    with pytest.raises(TryLater):
        make_device().answer(server.invite(token=token), 30)
    seen = len(server.requests)
    for secret in ({"token": new_token()}, {"link": new_token()}):
        with pytest.raises(PolicyRefused) as refusal:
            make_device().answer(server.invite(**secret), 30)
        assert refusal.value.reason == "one-answer"
    assert len(server.requests) == seen


def test_a_corrupt_ledger_refuses_before_anything_is_asked(server, make_device, ledger):
    make_device().answer(server.invite(), 30)
    ledger.write_bytes(ledger.read_bytes().replace(b'"event":"ack"', b'"event":"akk"'))
    seen = len(server.requests)
    with pytest.raises(LedgerRefused):
        make_device().answer(server.invite(), 30)
    assert len(server.requests) == seen


def test_a_pinned_key_is_the_only_one_answered(server, make_device):
    issuer = server.campaign.manifest.issuer
    with pytest.raises(PolicyRefused) as refusal:
        make_device(issuer_key="0" * 64).answer(server.invite(), 30)
    assert refusal.value.reason == "issuer-key"
    assert make_device(issuer_key=issuer).answer(server.invite(), 30)
    fingerprint = server.campaign.invite(server.base).key_fingerprint
    assert make_device(issuer_key=fingerprint).answer(server.invite(), 30).status == "answered before"


@pytest.mark.parametrize(
    "invite",
    ["", "x", 7, None, "https://host/c/abc#t=1", "ftp://host/c/" + "a" * 64, "http://h:x/c/" + "a" * 64 + "#t="],
)
def test_what_is_no_invite_is_refused(make_device, invite):
    with pytest.raises(InviteRefused):
        make_device().answer(invite, 30)


def test_an_invite_with_an_impossible_port_is_refused(server, make_device):
    with pytest.raises(InviteRefused):
        make_device().answer(server.invite().replace(server.base, "http://localhost:99999"), 30)


def test_plain_http_leaves_this_machine_only_if_the_policy_says_so(server, make_device):
    elsewhere = server.invite().replace(server.base, "http://device.invalid:1")
    with pytest.raises(TransportRefused) as refusal:
        make_device().answer(elsewhere, 30)
    assert refusal.value.reason == "insecure"
    with pytest.raises(TryLater) as failure:
        make_device(allow_http=True, patience=ONCE).answer(elsewhere, 30)
    assert failure.value.reason == "unreachable"


# -- many devices -------------------------------------------------------------------------------------------


def test_devices_in_threads_share_a_transport_and_its_connections(server, make_device, tmp_path):
    receipts = []
    with Transport() as transport:

        def some(lane: int) -> None:
            for number in range(10):
                device = make_device(tmp_path / f"{lane} {number}", transport=transport)
                receipts.append(device.answer(server.invite(), 30))

        lanes = [threading.Thread(target=some, args=(lane,)) for lane in range(4)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            lane.join()
    assert len(receipts) == len(server.bits) == 40
    assert server.accepted <= 4


def test_two_with_one_ledger_agree_on_one_bit(make_device, ledger):
    """Two threads, each with its own device on the same file, answer the same invite at the same time."""

    def both(invite: str) -> list:
        found = []
        pair = [threading.Thread(target=lambda: found.append(make_device().answer(invite, 30))) for _ in range(2)]
        for one in pair:
            one.start()
        for one in pair:
            one.join()
        return found

    for _ in range(10):
        ledger.unlink(missing_ok=True)
        with Server(campaign()) as server:
            token = new_token()
            found = both(server.invite(token=token))
            assert len(found) == 2
            assert {receipt.bit for receipt in found} == set(server.bits[token])
            assert len(set(server.bits[token])) == 1


def test_a_device_can_be_given_its_ledger(server, make_device, tmp_path):
    device = Device(make_device().policy, ledger=tmp_path / "other", patience=HASTY)
    device.answer(server.invite(), 30)
    assert Ledger(tmp_path / "other").answers("steps")


def test_a_kept_connection_the_server_closed_is_replaced(server, make_device, tmp_path):
    """Not a failure: the device does not pause for it."""

    def close_after(request):
        answer = server.honest(request)
        return lambda sock: sock.sendall(answer)

    server.on["reports"] = close_after
    slow_to_retry = Patience(total=5, request=1, first_pause=4, longest_pause=4)
    with Transport() as transport:
        for name in ("a", "b", "c"):
            device = make_device(tmp_path / name, transport=transport, patience=slow_to_retry)
            assert device.answer(server.invite(), 30).status == "counted"
    assert server.accepted == 3

"""A server with bad manners on the wire, over real sockets: redirects, floods, drips, resets, storms of errors.

The device refuses or gives up for now, and its ledger stays right: every test ends in `harmless` (see `loopback`).
"""

import contextlib
import socket
import threading
import time

import pytest
from loopback import ONCE, Server, drip, harmless, reply, reset

from privquant.device import (
    Ledger,
    Patience,
    TransportRefused,
    TryLater,
)

WHERE = ["manifest", "query", "reports"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308, 300, 304])
@pytest.mark.parametrize("what", WHERE)
def test_redirects_are_not_followed(server, refused, what, status):
    with Server(server.campaign) as elsewhere:
        server.on[what] = lambda request: reply(status, b"", Location=elsewhere.base + request.path)
        refused(TransportRefused, "redirect", drawn=what == "reports")
        assert not elsewhere.requests


def endless(sock) -> None:
    sock.sendall(b"HTTP/1.1 200 X\r\n\r\n")
    while True:
        sock.sendall(b" " * 65536)


def endless_chunks(sock) -> None:
    sock.sendall(b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        sock.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")


def endless_headers(sock) -> None:
    sock.sendall(b"HTTP/1.1 200 X\r\n")
    while True:
        sock.sendall(b"X-More: " + b"x" * 60000 + b"\r\n")


def endless_continue(sock) -> None:
    while True:
        sock.sendall(b"HTTP/1.1 100 X\r\n\r\n" * 1000)


HUGE = {
    "length": lambda request: reply(200, b" " * 300_000),
    "claimed": lambda request: b"HTTP/1.1 200 X\r\nContent-Length: 99999999999999\r\n\r\n",
    "endless": lambda request: endless,
    "chunks": lambda request: endless_chunks,
    "headers": lambda request: endless_headers,
    "continue": lambda request: endless_continue,
}


@pytest.mark.parametrize("how", HUGE)
@pytest.mark.parametrize("what", WHERE)
def test_a_huge_answer_is_cut_off(server, refused, what, how):
    server.on[what] = HUGE[how]
    refused(TransportRefused, "too-large", drawn=what == "reports")


DRIPS = {
    "status": b"HTTP/1.1 200 X\r\n" * 1,
    "headers": b"HTTP/1.1 200 X\r\n" + b"X-A: b\r\n" * 50,
    "body": b"HTTP/1.1 200 X\r\nContent-Length: 4000\r\n\r\n" + b" " * 400,
    "chunk": b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 100,
    "nothing": b"",
}


@pytest.mark.parametrize("how", DRIPS)
@pytest.mark.parametrize("what", WHERE)
def test_a_slow_drip_ends_at_the_deadline(server, refused, what, how):
    """Every byte comes within 20 ms of the last, so a timeout for each read would never strike."""

    def stall(sock):
        drip(DRIPS[how], 0.02)(sock)
        time.sleep(5)

    server.on[what] = lambda request: stall
    began = time.monotonic()
    short = Patience(total=5, request=0.3, first_pause=30)
    refused(TryLater, "deadline", drawn=what == "reports", patience=short)
    assert time.monotonic() - began < 2.0


def test_a_server_that_does_not_read_ends_at_the_deadline(server, make_device, ledger):
    """It takes the connection and nothing more."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        invite = server.campaign.invite(f"http://127.0.0.1:{deaf.getsockname()[1]}").to_url()
        short = Patience(total=5, request=0.3, first_pause=30)
        with pytest.raises(TryLater) as failure:
            make_device(patience=short).answer(invite, 30)
    assert failure.value.reason == "deadline"
    harmless(server, ledger)


def test_a_server_that_takes_no_connection_ends_at_the_deadline(server, make_device, ledger):
    """A listener whose queue is full: the kernel lets further connections hang."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, contextlib.ExitStack() as waiting:
        for _ in range(4):
            one = waiting.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        invite = server.campaign.invite(f"http://127.0.0.1:{full.getsockname()[1]}").to_url()
        began = time.monotonic()
        with pytest.raises(TryLater) as failure:
            make_device(patience=Patience(total=5, request=0.3, first_pause=30)).answer(invite, 30)
        assert time.monotonic() - began < 2.0
    assert failure.value.reason == "deadline"


@pytest.mark.parametrize("cut", [0, 1, 20, 60, -1])
@pytest.mark.parametrize("what", WHERE)
def test_a_reset_in_the_middle_of_an_answer_is_no_answer(server, refused, what, cut):
    def half(request):
        answer = server.honest(request)
        return reset(answer[:cut])

    server.on[what] = half
    refused(TryLater, "unreachable", drawn=what == "reports", patience=ONCE)


def test_a_closed_connection_in_the_middle_of_a_body_is_no_answer(server, refused):
    def half(request):
        answer = server.honest(request)
        return lambda sock: sock.sendall(answer[:-1])

    server.on["reports"] = half
    refused(TryLater, "unreachable", drawn=True, patience=ONCE)


@pytest.mark.parametrize(
    "raw",
    [b"SSH-2.0-OpenSSH_9.6\r\n", b"\x16\x03\x01\x02\x00\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 99 X\r\n\r\n"],
)
def test_what_is_not_http_is_refused(server, refused, raw):
    server.on["query"] = lambda request: lambda sock: sock.sendall(raw)
    refused(TransportRefused, "not-http")


@pytest.mark.parametrize("what", WHERE)
def test_a_storm_of_server_errors_is_ridden_out_politely(server, refused, what):
    """Pauses double from 20 to 100 ms, halved at most by chance: not more than 35 requests in 1.5 seconds."""
    storm = [0]

    def fail(request):
        storm[0] += 1
        return reply([500, 502, 503, 504][storm[0] % 4], b"<html>oops</html>")

    server.on[what] = fail
    patience = Patience(total=1.5, request=1, first_pause=0.02, longest_pause=0.1)
    # The last request may be the one that patience ran out on.
    refused(TryLater, "server-error or deadline", drawn=what == "reports", patience=patience)
    assert 3 <= storm[0] <= 35


def test_retry_at_once_for_ever_is_not_obeyed(server, refused):
    server.on["query"] = lambda request: reply(503, b"", Retry_After="0")
    patience = Patience(total=1.0, request=1.0, first_pause=0.1)
    refused(TryLater, "server-error or deadline", patience=patience)
    assert len(server.requests) <= 12


def test_unexpected_success_is_not_success(server, refused):
    invite = server.invite()
    for status in (202, 204, 206):
        server.on["reports"] = lambda request, status=status: reply(status, b'{"status":"counted"}')
        refused(TransportRefused, "not-http", invite, drawn=True)


def test_a_hostile_server_does_not_hold_up_other_measurements(server, make_device, ledger):
    """While one answer waits for a silent server, the ledger is free."""
    server.on["query"] = lambda request: lambda sock: time.sleep(2)
    patience = Patience(total=5, request=0.9, first_pause=30)
    failures = []

    def wait_in_vain() -> None:
        try:
            make_device(patience=patience).answer(server.invite(), 30)
        except TryLater as failure:
            failures.append(failure.reason)

    stuck = threading.Thread(target=wait_in_vain)
    stuck.start()
    time.sleep(0.2)
    began = time.monotonic()
    Ledger(ledger).answers("weight")
    assert time.monotonic() - began < 0.5
    assert not failures
    stuck.join()
    assert failures == ["deadline"]

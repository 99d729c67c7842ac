"""An operator's token leaves this machine encrypted or not at all."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from privquant.cli import campaign
from privquant.errors import InvalidInput
from privquant.server.http_client import OperatorClient, Refusal

TOKEN = "pqo_secret"


class Recorder(ThreadingHTTPServer):
    """Keeps what it was sent; sends on to `elsewhere` if there is one."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[tuple[str, str | None]] = []
        self.elsewhere = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers["authorization"]))
        self.send_response(307 if self.server.elsewhere else 200)
        if self.server.elsewhere:
            self.send_header("location", self.server.elsewhere)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def recorders() -> Iterator[list[Recorder]]:
    made = [Recorder(), Recorder()]
    for each in made:
        threading.Thread(target=each.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    for each in made:
        each.shutdown()
        each.server_close()


@pytest.mark.parametrize(
    "server",
    [
        "http://ask.example.org",
        "http://192.0.2.1:8470",
        "http://localhost.example.org",
        "http://127.0.0.1@ask.example.org",
        "http://0.0.0.0:8470",
        "http://[2001:db8::1]:8470",
    ],
)
def test_a_token_does_not_go_over_plain_http_to_another_machine(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInput, match="not encrypted, and anyone on the way could read the operator's token"):
        OperatorClient(server, TOKEN)
    monkeypatch.setenv("PRIVQUANT_TOKEN", TOKEN)
    with pytest.raises(InvalidInput, match="say https://"):
        campaign.call(server, "GET", "/v1/campaigns")
    OperatorClient(server)  # without a token there is nothing to read


@pytest.mark.parametrize(
    "server", ["https://ask.example.org", "http://localhost:8470", "http://127.0.0.1:8470", "http://[::1]:8470"]
)
def test_https_and_this_machine_are_spoken_to(server: str) -> None:
    assert OperatorClient(server + "/", TOKEN).server == server


def test_a_token_is_not_sent_along_a_redirect(recorders: list[Recorder]) -> None:
    first, second = recorders
    first.elsewhere = f"{second.url}/there"
    with pytest.raises(Refusal, match="sends elsewhere \\(status 307\\)"):
        OperatorClient(first.url, TOKEN).call("GET", "/here")
    assert first.seen == [("/here", f"Bearer {TOKEN}")]
    assert second.seen == []
    first.elsewhere = ""
    assert OperatorClient(first.url, TOKEN).call("GET", "/here") == {}  # the twin: without a redirect it answers


def test_a_proxy_of_the_environment_does_not_read_a_token(
    recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, proxy = recorders
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.delenv("no_proxy", raising=False)
    OperatorClient(server.url, TOKEN).call("GET", "/here")
    assert (len(server.seen), proxy.seen) == (1, [])
    urllib.request.build_opener().open(server.url + "/here", timeout=10).close()
    assert len(proxy.seen) == 1  # the twin: who does not look away goes through it

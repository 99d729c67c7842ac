"""A real Chromium without a window, driven over its DevTools protocol; and a server whose pages it opens."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopback import Request, Server
from nodejs import JS
from websockets.sync.client import ClientConnection, connect

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-port=0", "--host-resolver-rules=MAP *.test 127.0.0.1", "about:blank",
]  # fmt: skip
PAGE = b"<!doctype html><meta charset=utf-8><title>A page</title>"
# As strict as a page of the service: if the device needed more, it would fail here.
POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'"


class PageServer(Server):
    """The honest server of the device's tests, which also serves an empty page and the device's files."""

    def honest(self, request: Request) -> bytes:
        if request.path == "/page":
            return document("text/html", PAGE)
        if request.path.startswith("/js/"):
            return document("text/javascript", (JS / request.path.removeprefix("/js/")).read_bytes())
        return super().honest(request)

    def asked(self) -> list[Request]:
        """What the device asked, without the pages and files it came with."""
        return [request for request in self.requests if request.path.startswith("/v1/")]


def document(media: str, body: bytes) -> bytes:
    lines = ["HTTP/1.1 200 X", f"Content-Length: {len(body)}", f"Content-Type: {media}"]
    lines += ["Cache-Control: no-store", f"Content-Security-Policy: {POLICY}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class PageFailed(Exception):
    """What a page threw, or that its tab is gone."""


@dataclass
class Chromium:
    """A browser with a profile of its own; started again on the same profile it is the same person's."""

    profile: Path
    process: subprocess.Popen[bytes] = field(init=False)
    _wire: ClientConnection = field(init=False)
    _numbers: Any = field(default_factory=itertools.count)
    _replies: dict[int, Any] = field(default_factory=dict)

    def start(self) -> Chromium:
        program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if program is None:
            raise RuntimeError(
                "the tests of js/ in a browser need Chromium: scripts/system-packages.sh installs it"
            )
        port = self.profile / "DevToolsActivePort"
        port.unlink(missing_ok=True)
        command = [program, f"--user-data-dir={self.profile}", *FLAGS]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdout=quiet, stderr=quiet, start_new_session=True)
        give_up = time.monotonic() + 60
        while not port.exists() or port.read_text().count("\n") < 1:
            if time.monotonic() > give_up or self.process.poll() is not None:
                raise RuntimeError("Chromium did not start")
            time.sleep(0.05)
        number, path = port.read_text().split("\n")[:2]
        self._wire = connect(f"ws://127.0.0.1:{number}{path}", max_size=None, proxy=None, ping_interval=None)
        return self

    def kill(self) -> None:
        """SIGKILL to the browser and every process of it, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
        self._wire.close()

    def kill_renderers(self) -> None:
        """SIGKILL to the processes in which the pages run; the browser has noticed when this returns."""
        killed = self.renderers()
        for each in killed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        give_up = time.monotonic() + 20
        while killed & self.renderers():  # until then it would give a dead process to the next page
            assert time.monotonic() < give_up
            time.sleep(0.02)

    def renderers(self) -> set[int]:
        found = self.call("SystemInfo.getProcessInfo")["processInfo"]
        return {each["id"] for each in found if each["type"] == "renderer"}

    def begin(self, method: str, session: str | None = None, **params: Any) -> int:
        number = next(self._numbers)
        order = {"id": number, "method": method, "params": params}
        self._wire.send(json.dumps(order if session is None else order | {"sessionId": session}))
        return number

    def end(self, number: int, seconds: float = 30) -> Any:
        give_up = time.monotonic() + seconds
        while number not in self._replies:
            said = json.loads(self._wire.recv(timeout=max(0.01, give_up - time.monotonic())))
            if "id" in said:
                self._replies[said["id"]] = said
        said = self._replies.pop(number)
        if "error" in said:
            raise PageFailed(said["error"]["message"])
        return said["result"]

    def call(self, method: str, session: str | None = None, **params: Any) -> Any:
        return self.end(self.begin(method, session, **params))

    def open(self, url: str) -> Tab:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        tab = Tab(self, target, session)
        self.call("Page.enable", session)
        self.call("Page.navigate", session, url=url)
        give_up = time.monotonic() + 30
        while tab.run("return document.readyState + location.href") != f"complete{url}":
            if time.monotonic() > give_up:
                raise PageFailed(f"{url} was not loaded")
            time.sleep(0.02)
        return tab


@dataclass(frozen=True)
class Tab:
    browser: Chromium
    target: str
    session: str

    def begin(self, code: str) -> int:
        """Run the body of an async function in the page."""
        expression = f"(async () => {{ {code} }})()"
        params = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        return self.browser.begin("Runtime.evaluate", self.session, **params)

    def end(self, number: int) -> Any:
        said = self.browser.end(number)
        if "exceptionDetails" in said:
            raise PageFailed(said["exceptionDetails"]["exception"].get("description", "an exception"))
        return said["result"].get("value")

    def run(self, code: str) -> Any:
        return self.end(self.begin(code))

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)

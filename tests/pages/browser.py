"""A Chromium that acts as a person does: types, presses, waits for words; and keeps what it complains about."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chromium import Chromium, PageFailed, Tab

PHONE = (320, 640)
DESKTOP = (1280, 800)


@dataclass
class Browser(Chromium):
    """Keeps the events of its tabs, which its parent leaves out."""

    events: list[dict[str, Any]] = field(default_factory=list)

    def end(self, number: int, seconds: float = 30) -> Any:
        give_up = time.monotonic() + seconds
        while number not in self._replies:
            said = json.loads(self._wire.recv(timeout=max(0.01, give_up - time.monotonic())))
            if "id" in said:
                self._replies[said["id"]] = said
            else:
                self.events.append(said)
        said = self._replies.pop(number)
        if "error" in said:
            raise PageFailed(said["error"]["message"])
        return said["result"]

    def start(self) -> Browser:
        super().start()
        self._wire.close_timeout = 0.2  # a browser that was killed says no goodbye
        return self

    def visit(
        self,
        url: str,
        *,
        size: tuple[int, int] = DESKTOP,
        dark: bool = False,
        language: str = "en",
        script: bool = True,
        context: str | None = None,
    ) -> Page:
        """A tab as this person's screen and settings have it. context: another person's cookie jar and ledger."""
        where = {} if context is None else {"browserContextId": context}
        target = self.call("Target.createTarget", url="about:blank", **where)["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, target, session)
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable", session)
        width, height = size
        self.call(
            "Emulation.setDeviceMetricsOverride",
            session,
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", session, features=[scheme])
        agent = self.call("Browser.getVersion")["userAgent"]
        self.call("Emulation.setUserAgentOverride", session, userAgent=agent, acceptLanguage=language)
        self.call("Emulation.setScriptExecutionDisabled", session, value=not script)
        page.go(url)
        return page

    def person(self) -> str:
        """A browser of somebody else: nothing stored, nothing shared."""
        return str(self.call("Target.createBrowserContext")["browserContextId"])


class Page(Tab):
    """One tab. What it shows is read as a person would: the text of the page."""

    def go(self, url: str) -> None:
        self.browser.call("Page.navigate", self.session, url=url)
        address = json.dumps(url.partition("#")[0])  # a page may change what follows
        self.until(f"document.readyState === 'complete' && location.href.split('#')[0] === {address}")

    def value(self, expression: str) -> Any:
        return self.run(f"return {expression};")

    def until(self, expression: str, seconds: float = 40) -> Any:
        """Wait for an expression to be true; its value."""
        give_up = time.monotonic() + seconds
        while True:
            found: Any = None
            try:
                found = self.value(expression)
            except PageFailed:  # between two documents, or what is looked for is not there yet
                if time.monotonic() > give_up:
                    raise
            if found:
                return found
            if time.monotonic() > give_up:
                shown = self.value("document.body?.innerText")
                raise AssertionError(f"never true: {expression}; the page shows:\n{shown}\n{self.complaints()}")
            time.sleep(0.03)

    def sees(self, text: str, seconds: float = 40) -> None:
        self.until(f"document.body.innerText.includes({json.dumps(text)})", seconds)

    def text(self) -> str:
        return str(self.value("document.body.innerText"))

    def press(self, what: str, kind: str = "button, a, summary") -> None:
        """Click the first button, link or summary with this text that can be seen."""
        find = (
            f"[...document.querySelectorAll({json.dumps(kind)})]"
            f".find((e) => e.checkVisibility() && e.innerText.trim().startsWith({json.dumps(what)}))"
        )
        self.until(f"{find} !== undefined")
        self.run(f"{find}.click();")

    def type(self, selector: str, text: str) -> None:
        """Put a text into a field, by keys as a keyboard would."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.until(f"{field} !== null")
        self.run(f"{field}.focus(); {field}.select?.();")
        self.browser.call("Input.insertText", self.session, text=text)

    def key(self, name: str) -> None:
        text = {"Enter": "\r", "Space": " "}.get(name, "")
        code = {"Enter": 13, "Tab": 9, "Space": 32}[name]
        key = {"Space": " "}.get(name, name)
        params = {"key": key, "code": name, "windowsVirtualKeyCode": code}
        self.browser.call("Input.dispatchKeyEvent", self.session, type="keyDown", text=text, **params)
        self.browser.call("Input.dispatchKeyEvent", self.session, type="keyUp", **params)

    def complaints(self) -> list[str]:
        """Errors and violations the browser has noted for this tab, but for failed requests."""
        self.value("1")  # events that came before its answer are in by then
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(event["params"]["exceptionDetails"]))
            if event["method"] == "Log.entryAdded":
                entry = event["params"]["entry"]
                if entry["level"] in ("error", "warning") and entry["source"] != "network":
                    found.append(entry["text"])
            if event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"):
                found.append(str(event["params"]["args"]))
        return found

    def picture(self, path: Path) -> None:
        """A screenshot of the whole page."""
        size = self.browser.call("Page.getLayoutMetrics", self.session)["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        taken = self.browser.call(
            "Page.captureScreenshot", self.session, format="png", captureBeyondViewport=True, clip=clip
        )
        path.write_bytes(base64.b64decode(taken["data"]))

    def loaded(self) -> dict[str, int]:
        """What the page consists of, by address, and how many bytes of body came over the wire for each."""
        found = self.value(
            "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
            ".map(({ name, encodedBodySize }) => [name.split('#')[0], encodedBodySize])"
        )
        return {name: size for name, size in found if "/v1/" not in name}

    def fits(self) -> bool:
        """Whether nothing has to be scrolled sideways."""
        return bool(self.value("document.documentElement.scrollWidth <= document.documentElement.clientWidth"))

"""Every page in every state worth a look, on one server with a campaign that is under way.

The test of the pages' accessibility walks it; `python scripts/page_pictures.py` takes its pictures for the docs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from browser import DESKTOP, PHONE, Browser, Page
from people import answer_all, minutes
from scene import Scene

QUESTION = "How long is your way to work, in minutes?"
LOOKS = {
    "phone-light": {"size": PHONE, "dark": False},
    "phone-dark": {"size": PHONE, "dark": True},
    "desktop-light": {"size": DESKTOP, "dark": False},
    "desktop-dark": {"size": DESKTOP, "dark": True},
}


@dataclass
class Tour:
    browser: Browser
    scene: Scene
    folder: Path
    people: int = 600

    def prepare(self) -> None:
        """A campaign that runs, answered in batches while it is watched; one that is paused, one that is closed."""
        form = {
            "question": QUESTION,
            "measurement": "commute-minutes",
            "domain": {"kind": "integers", "low": "0", "high": "600"},
            "planned_users": 1000,
        }
        self.running = self.scene.campaign(**form)
        self.paused = self.scene.campaign(**form | {"measurement": "sleep", "question": "How long do you sleep?"})
        self.closed = self.scene.campaign(**form | {"measurement": "steps", "question": "How many steps a day?"})
        coded = self.scene.campaign(**form | {"measurement": "walks", "question": "How many walks a week?"})
        self.link = self._link(self.running)
        self.coded_link = self._link(coded, code=True)
        self.paused_link = self._link(self.paused)
        self.closed_link = self._link(self.closed)
        self.scene.call("POST", f"/v1/campaigns/{self.closed}/close")
        path = f"/v1/campaigns/{self.running}/invites"
        invites = self.scene.call("POST", path, {"count": self.people + 400}).splitlines()[1:]
        values = minutes(self.people + 400)
        done, size = 0, 40
        while done < self.people:
            some = slice(done, min(done + size, self.people))
            answer_all(invites[some], values[some], self.folder / f"ledgers-{done}")
            self.scene.call("GET", f"/v1/campaigns/{self.running}/picture")  # a point of the trace
            done, size = done + size, int(1.5 * size)
        done = min(done, self.people)
        # what is shown stays behind, by more where snapshots turned late: an answer needs some hundred
        while self.scene.call("GET", f"/v1/campaigns/{self.running}/picture")["heard"] < self.people // 2:
            some = slice(done, done + 40)
            answer_all(invites[some], values[some], self.folder / f"ledgers-{done}")
            time.sleep(0.5)
            done += 40

    def _link(self, campaign: str, code: bool = False) -> str:
        form = {"places": 200, "code": code}
        return str(self.scene.call("POST", f"/v1/campaigns/{campaign}/link", form)["invite"])

    def pages(self, look: str) -> Iterator[tuple[str, Page]]:
        """Each page by name; closed when the next is asked for."""
        for name, make in self._stations().items():
            context = self.browser.person()
            page = make(LOOKS[look] | {"context": context})
            time.sleep(0.3)  # charts fit themselves into their columns after the first frame
            yield name, page
            self.browser.call("Target.disposeBrowserContext", browserContextId=context)

    def _stations(self) -> dict[str, Callable[[dict[str, Any]], Page]]:
        return {
            "join": self._join,
            "join-german": lambda look: self._join(look | {"language": "de"}),
            "join-answered": self._answered,
            "join-code": self._code,
            "join-waiting": self._waiting,
            "join-refused": self._refused,
            "join-room": self._room_code,
            "join-missing": lambda look: self._visit(f"{self.scene.server.url}/c/{'0' * 64}", look),
            "console-sign-in": lambda look: self._visit(f"{self.scene.server.admin_url}/console", look),
            "console-list": lambda look: self._console("/", look, "commute-minutes"),
            "console-new": lambda look: self._console("/new", look, "expect an error"),
            "console-campaign": self._campaign,
            "console-room": self._room,
        }

    def _visit(self, url: str, look: dict[str, Any]) -> Page:
        return self.browser.visit(url, **look)

    def _join(self, look: dict[str, Any]) -> Page:
        page = self._visit(self.link, look)
        page.until("document.querySelector('#value') !== null")
        return page

    def _answered(self, look: dict[str, Any]) -> Page:
        page = self._join(look)
        page.type("#value", "35")
        page.key("Enter")
        page.sees("Thank you")
        return page

    def _code(self, look: dict[str, Any]) -> Page:
        page = self._visit(self.coded_link, look)
        page.type("#value", "3")
        page.key("Enter")
        page.type("#code", "1234-5678")
        page.key("Enter")
        page.sees("This is not the code of this link")
        return page

    def _waiting(self, look: dict[str, Any]) -> Page:
        self.scene.call("POST", f"/v1/campaigns/{self.paused}/pause")
        page = self._visit(self.paused_link, look)
        page.type("#value", "7")
        page.key("Enter")
        page.sees("Next try in", 60)
        self.scene.call("POST", f"/v1/campaigns/{self.paused}/resume")
        return page

    def _refused(self, look: dict[str, Any]) -> Page:
        page = self._visit(self.closed_link, look)
        page.type("#value", "9")
        page.key("Enter")
        page.sees("No answer was sent")
        return page

    def _room_code(self, look: dict[str, Any]) -> Page:
        address, _, fragment = self.link.partition("#")
        base, _, campaign = address.rpartition("/c/")
        page = self._visit(f"{base}/join#c={campaign}&{fragment}", look)
        page.until("document.querySelector('.qr svg') !== null")
        return page

    def _console(self, view: str, look: dict[str, Any], sees: str) -> Page:
        page = self._visit(f"{self.scene.server.admin_url}/console#token={self.scene.token}", look)
        page.sees("Campaigns")
        page.run(f"location.hash = {json.dumps('#' + view)};")
        page.sees(sees)
        return page

    def _campaign(self, look: dict[str, Any]) -> Page:
        page = self._console(f"/campaign/{self.running}", look, "Live.")
        page.until("document.querySelectorAll('.chart canvas').length === 2")
        page.press("Make the link")
        page.until("document.querySelector('.qr svg') !== null")
        self.link = str(page.value("document.querySelector('#link').value"))  # it replaces the one before
        page.sees("With 1% of liars")
        return page

    def _room(self, look: dict[str, Any]) -> Page:
        page = self._console(f"/room/{self.running}", look, "answered")
        page.press("Make a link for the room")
        page.until("document.querySelector('.qr svg') !== null")
        page.until("document.querySelector('.room-answer') !== null")
        self.link = str(page.value("document.querySelector('.room-code a').href"))
        return page

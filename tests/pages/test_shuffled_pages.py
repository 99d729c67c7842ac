"""A shuffled campaign on the pages: a browser answers at the shuffler, the console shows the rounds."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser

sys.path.insert(0, str(Path(__file__).parents[1] / "shuffler"))

from parties import Parties, Sealing

from privquant.wire import Invite, fingerprint

MOST = 60_000  # bytes of the page and all its files, as they come over the wire


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parties]:
    made = Parties(tmp_path_factory.mktemp("parties"))
    made.start()
    yield made
    made.kill()


def test_a_browser_answers_at_the_shuffler_and_the_console_shows_the_rounds(parties: Parties, browser: Browser):
    manifest = parties.campaign(question="How long is your way to work, in minutes?")
    first, *others = parties.tokens(manifest.id, manifest.planned_users)
    invite = Invite(parties.settings.url, manifest.id, fingerprint(manifest.issuer), token=first).to_url()
    page = browser.visit(invite, context=browser.person())
    page.sees("which mixes it with others")
    page.run("document.querySelector('#agreed').checked = true;")
    page.type("#value", "30")
    page.key("Enter")
    page.sees("accepted, to be mixed with others", 60)
    assert min(page.loaded().values()) > 0
    assert sum(page.loaded().values()) <= MOST
    assert any(name.endswith("/shuffle-check.js") for name in page.loaded())
    assert page.complaints() == []
    fleet = Sealing(parties, manifest, others)
    asyncio.run(fleet.run())
    rounds = len(manifest.shuffle.rounds)
    parties.until(lambda: parties.shown(manifest.id)["shuffle"]["counted_rounds"] == rounds, 60)
    assert parties.shown(manifest.id)["heard"] == manifest.planned_users  # the browser's bit is among them
    scene = parties.scene
    console = browser.visit(f"{scene.server.admin_url}/console#token={scene.token}&to=/campaign/{manifest.id}")
    console.sees(f"{rounds} of {rounds} rounds counted", 60)
    console.sees(f"Invites come from the shuffler at {parties.settings.url}")
    assert not console.value("document.querySelector('#invites').checkVisibility()")
    console.sees("Devices ask the shuffler, not this server.")
    console.until("document.querySelectorAll('.chart canvas').length >= 1")  # the way, of which nobody saw a step
    console.press("Rounds")
    assert console.value("document.querySelectorAll('tbody tr').length") == rounds
    assert console.complaints() == []
    room = browser.visit(f"{scene.server.admin_url}/console#token={scene.token}&to=/room/{manifest.id}")
    room.sees(f"People are invited by the shuffler at {parties.settings.url}")
    assert room.value("document.querySelector('form')") is None
    assert room.complaints() == []
    trace = scene.call("GET", f"/v1/campaigns/{manifest.id}/picture")["trace"]
    parties.until(lambda: len(scene.call("GET", f"/v1/campaigns/{manifest.id}/picture")["trace"]) == rounds, 60)
    assert trace[-1][0] == manifest.planned_users

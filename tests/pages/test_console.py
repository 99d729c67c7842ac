"""The console end to end: a campaign from its form to its export, watched live, and what a stream tells."""

from __future__ import annotations

import asyncio
import json
import re
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from browser import Browser, Page
from people import answer_all, minutes
from scene import Scene

from privquant.aggregator.campaign.snapshots import STEP
from privquant.aggregator.operators.accounts import add_operator, remove_operator
from privquant.aggregator.store.migrate import open_engine
from privquant.server.http_client import Refusal
from privquant.wire import Claim, Invite, new_token, token_hash

QUESTION = "How long is your way to work, in minutes?"
BROWSERS, DEVICES = 5, 500


def signed_in(browser: Browser, scene: Scene, view: str = "") -> Page:
    page = browser.visit(f"{scene.server.admin_url}/console")
    page.type("#token", scene.token)
    page.press("Sign in")
    page.sees("Campaigns")
    if view:
        page.run(f"location.hash = {json.dumps(view)};")
    return page


def create(page: Page, **fields: str) -> str:
    page.press("New campaign")
    for name, text in ({"question": QUESTION, "measurement": "commute-minutes"} | fields).items():
        page.type(f"#{name}", text)
    page.press("Publish the campaign")
    page.until("location.hash.startsWith('#/campaign/')")
    page.sees("Live.")
    return str(page.value("location.hash.split('/').at(-1)"))


NUMBER = "[...document.querySelectorAll('dt')].find((e) => e.innerText === '%s').nextSibling.innerText"


def number(page: Page, name: str) -> int:
    return int(page.value(NUMBER % name).replace(",", ""))


def test_a_campaign_from_its_form_to_its_export(browser: Browser, scene: Scene, tmp_path: Path):
    page = signed_in(browser, scene)
    campaign = create(page, users=str(BROWSERS + DEVICES))
    page.type("#places", str(BROWSERS))
    page.press("Make the link")
    link = str(page.until("document.querySelector('#link')?.value"))
    page.until("document.querySelector('.qr svg') !== null")
    invites = scene.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": DEVICES}).splitlines()[1:]

    persons = [browser.visit(link, context=browser.person()) for _ in range(BROWSERS)]
    seen = [(0, "No answer yet")]
    batch = DEVICES // BROWSERS
    for place, person in enumerate(persons):
        person.type("#value", str(20 + 10 * place))
        person.key("Enter")
        some = slice(place * batch, (place + 1) * batch)
        answer_all(invites[some], minutes(DEVICES)[some], tmp_path / f"ledgers-{place}")
        person.sees("Answered. Thank you.", 60)
        assert person.complaints() == []
        page.until(f"Number(({NUMBER % 'answered'}).replace(',', '')) > {seen[-1][0]}", 40)
        seen.append((number(page, "answered"), page.value("document.querySelector('.answer strong').innerText")))
    # One page that was never loaded anew: the count and the estimate moved in it while people answered.
    assert len(seen) == 1 + BROWSERS
    assert len({answer for _, answer in seen}) >= 3
    page.press("Verify")
    page.sees("agrees with counts and estimate")
    page.press("Close")
    page.sees("it cannot be taken back")
    page.press("Close it")
    page.sees("The campaign is closed.")
    page.until(f"({NUMBER % 'answered'}) === '{BROWSERS + DEVICES}'")
    page.sees("These are the final numbers.")
    folder = tmp_path / "downloads"
    folder.mkdir()
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.press("Export")
    page.sees("Exported")
    exported = json.loads(downloaded(folder, "*.json"))
    assert exported["state"] == "closed"
    assert sum(row["answered"] for row in exported["counts"]) == BROWSERS + DEVICES
    assert exported == scene.call("GET", f"/v1/campaigns/{campaign}/export")
    answer = exported["estimates"][0]["value"]
    truth = sorted(minutes(DEVICES))
    # Within 40 points of rank. `privquant plan` gives 505 people at epsilon 1 a chance of 1e-6 to miss that on
    # typical data and of 1e-3 on the hardest; the devices' coins have no seed.
    assert truth[len(truth) // 10] <= answer <= truth[9 * len(truth) // 10]
    assert page.value("document.querySelector('.answer strong').innerText") == f"{answer}"
    assert page.complaints() == []


def downloaded(folder: Path, pattern: str) -> str:
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        found = list(folder.glob(pattern))
        if found and found[0].stat().st_size:
            return found[0].read_text()
        time.sleep(0.05)
    raise AssertionError(f"nothing was downloaded: {list(folder.iterdir())}")


def test_invites_come_as_a_file(browser: Browser, scene: Scene, tmp_path: Path):
    page = signed_in(browser, scene, f"#/campaign/{scene.campaign()}")
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.type("#invites", "7")
    page.press("Download CSV")
    lines = downloaded(tmp_path, "*.csv").splitlines()
    assert (lines[0], len(lines), len(set(lines))) == ("invite", 8, 8)


def test_pausing_and_a_server_that_restarts(browser: Browser, tmp_path: Path):
    """Both pages come back by themselves: the console to its stream, the join page to its answer."""
    scene = Scene(tmp_path)
    scene.server.start()
    try:
        campaign = scene.campaign(domain={"kind": "integers", "low": "0", "high": "600"}, planned_users=400)
        invite = scene.call("POST", f"/v1/campaigns/{campaign}/link", {"places": 5})["invite"]
        page = signed_in(browser, scene, f"#/campaign/{campaign}")
        invites = scene.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": 200}).splitlines()[1:]
        for some in (slice(0, 100), slice(100, 200)):
            answer_all(invites[some], minutes(200)[some], tmp_path / f"ledgers-{some.start}")
            time.sleep(1.2)
        way = r"/after (\d+) to (\d+) reports/.exec(document.body.innerText)"
        first = page.until(f"{way}?.[1]")
        page.press("Pause")
        page.sees("The campaign is paused.")
        page.until("document.querySelector('.state').innerText === 'paused'")
        page.press("Resume")
        page.until("document.querySelector('.state').innerText === 'open'")
        person = browser.visit(invite, context=browser.person())
        person.until("document.querySelector('#value') !== null")
        scene.server.kill()
        page.sees("The server cannot be reached. Trying again")
        person.type("#value", "30")
        person.key("Enter")
        person.sees("The server cannot be reached.")
        scene.server.start()
        person.sees("Answered. Thank you.", 60)
        page.sees("Live.", 30)
        scene.call("POST", f"/v1/campaigns/{campaign}/close")
        page.until("document.querySelector('.state').innerText === 'closed'", 40)
        assert number(page, "answered") == 201
        assert (
            page.until(f"{way}?.[2] === '201' && {way}[1]") == first
        )  # what the server has forgotten is known here
    finally:
        scene.server.kill()


def test_the_room_view_shows_a_code_and_an_answer_only_when_there_are_enough(
    browser: Browser, scene: Scene, tmp_path: Path
):
    campaign = scene.campaign(domain={"kind": "integers", "low": "0", "high": "600"}, planned_users=400)
    page = signed_in(browser, scene, f"#/room/{campaign}")
    page.press("Make a link for the room")
    page.until("document.querySelector('.qr svg') !== null")
    page.sees("0 of 400 answered")
    page.sees("Shown when enough have answered.")
    page.sees("run behind by a batch of answers")
    invites = scene.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": 400}).splitlines()[1:]
    answer_all(invites, minutes(400), tmp_path / "ledgers")
    page.until("document.querySelector('.room-answer') !== null", 40)
    page.sees("typically")
    assert page.complaints() == []
    code = page.value("document.querySelector('.qr').getAttribute('aria-label')")
    assert code == "QR code to answer"


def test_a_link_that_needs_a_code_asks_for_it_before_anything_is_drawn(browser: Browser, scene: Scene):
    campaign = scene.campaign(domain={"kind": "integers", "low": "0", "high": "600"}, planned_users=400)
    console = signed_in(browser, scene, f"#/room/{campaign}")
    console.until("document.querySelector('#coded') !== null")
    console.run("document.querySelector('#coded').click();")
    console.press("Make a link for the room")
    code = str(console.until("document.querySelector('.code')?.innerText"))
    link = str(console.value("document.querySelector('.room-code a').href"))
    assert re.fullmatch("[0-9a-hjkmnp-tv-z]{4}-[0-9a-hjkmnp-tv-z]{4}", code)
    assert "c=" not in link.partition("#")[2]
    wrong = "0000-0000" if code != "0000-0000" else "1111-1111"
    words = {
        "en": ("This link needs a code", "A code has eight", "This is not the code of this link", "Thank you"),
        "de": ("Dieser Link braucht einen Code", "Ein Code hat acht", "Das ist nicht der Code", "Danke"),
    }

    def taken() -> int:
        return int(scene.call("GET", f"/v1/campaigns/{campaign}")["open_link"]["taken"])

    for place, (language, (asked, malformed, refused, thanks)) in enumerate(words.items()):
        page = browser.visit(link, language=language, context=browser.person())
        page.type("#value", "30")
        page.key("Enter")
        page.sees(asked)
        assert page.value("document.activeElement.innerText") == asked  # a screen reader hears it
        for typed, said in (("1234", malformed), (wrong, refused)):
            page.type("#code", typed)
            page.key("Enter")
            page.sees(said)
        assert taken() == place
        page.type("#code", f" {code.upper()}")
        page.key("Enter")
        page.sees(thanks)
        assert taken() == place + 1
        assert page.complaints() == []
    in_the_address = browser.visit(f"{link}&c={code.replace('-', '')}", context=browser.person())
    in_the_address.type("#value", "30")
    in_the_address.key("Enter")
    in_the_address.sees("Thank you")
    wrong_there = browser.visit(f"{link}&c={wrong.replace('-', '')}", context=browser.person())
    wrong_there.type("#value", "30")
    wrong_there.key("Enter")
    wrong_there.sees("This is not the code of this link")
    wrong_there.type("#code", code)
    wrong_there.key("Enter")
    wrong_there.sees("Thank you")
    assert console.complaints() == []


def test_the_planner_says_what_a_form_can_reach(browser: Browser, scene: Scene):
    page = signed_in(browser, scene, "#/new")
    page.sees("1,000 people at epsilon 1: expect an error of")
    page.type("#users", "50")
    page.sees("50 people at epsilon 1")
    page.sees("This will not tell much")
    page.run(
        "const s = document.querySelector('#solve'); s.value = 'users';"
        "s.dispatchEvent(new Event('input', { bubbles: true }));"
    )
    page.sees("users")
    page.until("[...document.querySelectorAll('button')].some((b) => b.innerText.startsWith('Take '))")
    page.press("Take ")
    users = int(page.value("document.querySelector('#users').value"))
    planned = scene.call("POST", "/v1/plan", {"size": 601, "alpha": 0.03, "epsilon": 1.0, "confidence": 0.95})
    assert users == -(-planned["value"] // 1)
    assert page.complaints() == []


@pytest.mark.parametrize("extreme", [{"epsilon": 1e-9, "users": 10**12}, {"epsilon": 1e-9, "alpha": 1e-300}])
def test_a_plan_of_extremes_is_answered_or_refused_in_words(scene: Scene, extreme: dict[str, float]):
    codes = set()
    try:
        scene.call("POST", "/v1/plan", {"size": 2**63, "confidence": 0.95, "quantile": 1e-300} | extreme)
    except Refusal as refused:
        codes.add(refused.code)
    assert codes <= {"invalid"}
    assert '"level": "error"' not in scene.log.read_text()


def test_what_a_form_may_not_say_is_said_beside_it(browser: Browser, scene: Scene):
    page = signed_in(browser, scene, "#/new")
    page.type("#question", QUESTION)
    page.type("#measurement", "commute-minutes")
    page.type("#quantiles", "1.5")
    page.press("Publish the campaign")
    page.sees("quantile")
    page.until("document.querySelector('.fault').innerText !== ''")
    assert page.value("location.hash") == "#/new"


def test_the_slider_for_liars_speaks(browser: Browser, scene: Scene):
    page = signed_in(browser, scene, f"#/campaign/{scene.campaign()}")
    page.sees("With 1% of liars")
    page.run("const s = document.querySelector('#liars'); s.value = '7'; s.dispatchEvent(new Event('input'));")
    page.sees("With 7% of liars")


# -- the token ----------------------------------------------------------------------------------------------


def test_the_token_is_in_memory_only(browser: Browser, scene: Scene):
    page = browser.visit(f"{scene.server.admin_url}/console#token={scene.token}")
    page.sees("Campaigns")
    assert scene.token not in page.value("location.href")
    stored = page.run(
        "return JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, "
        "(await indexedDB.databases()).map((each) => each.name)]);"
    )
    assert scene.token not in stored
    page.browser.call("Page.reload", page.session)
    page.sees("Operator's token")


def test_a_wrong_token_is_said_and_one_taken_away_ends_the_view(browser: Browser, scene: Scene):
    async def act(work, *given):
        engine = open_engine(scene.settings)
        try:
            return await work(engine, *given)
        finally:
            await engine.dispose()

    page = browser.visit(f"{scene.server.admin_url}/console")
    page.type("#token", "pqo_wrong")
    page.press("Sign in")
    page.sees("The server does not know this token.")
    token = asyncio.run(act(add_operator, "guest", "viewer"))
    page.type("#token", token)
    page.press("Sign in")
    page.sees("Campaigns")
    page.press("New campaign")
    page.type("#question", QUESTION)
    page.type("#measurement", "x")
    page.press("Publish the campaign")
    page.sees("guest is a viewer; this takes an admin")
    asyncio.run(act(remove_operator, "guest"))
    page.press("Campaigns")
    page.sees("Operator's token")


# -- the stream ---------------------------------------------------------------------------------------------


def stream(scene: Scene, campaign: str, token: str):
    request = urllib.request.Request(
        f"{scene.server.admin_url}/v1/campaigns/{campaign}/live", headers={"Authorization": f"Bearer {token}"}
    )
    return urllib.request.urlopen(request, timeout=30)


def next_picture(lines) -> dict:
    for line in lines:
        if line.startswith(b"data: "):
            return json.loads(line.removeprefix(b"data: "))
    raise AssertionError("the stream ended")


def test_a_stream_takes_a_token_and_a_campaign(scene: Scene):
    campaign = scene.campaign()
    for which, token, status in ((campaign, "pqo_wrong", 401), ("0" * 64, scene.token, 404)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            stream(scene, which, token)
        assert refused.value.code == status
    with stream(scene, campaign, scene.token) as lines:
        assert lines.headers.get_content_type() == "text/event-stream"
        assert next_picture(lines)["id"] == campaign


def test_a_picture_tells_what_show_and_export_tell(scene: Scene, tmp_path: Path):
    """Nothing finer than the operator's API: the points drawn are those of its counts."""
    campaign = scene.campaign(domain={"kind": "integers", "low": "0", "high": "600"}, planned_users=200)
    invites = scene.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": 200}).splitlines()[1:]
    answer_all(invites, minutes(200), tmp_path / "ledgers")
    scene.call("POST", f"/v1/campaigns/{campaign}/close")
    with stream(scene, campaign, scene.token) as lines:
        picture = next_picture(lines)
    shown = scene.call("GET", f"/v1/campaigns/{campaign}")
    assert {name: picture[name] for name in shown} == shown
    assert set(picture) - set(shown) == {"drawings", "said", "refusals", "trace"}
    assert sum(point[3] for point in picture["drawings"][0]["points"]) <= picture["heard"] == 200
    assert picture["trace"][-1][0] == 200
    shares = [share for _, share in picture["drawings"][0]["curve"]]
    assert shares == sorted(shares)


def test_refusals_are_those_of_the_campaign_and_told_in_steps(scene: Scene):
    first, second = scene.campaign(), scene.campaign()
    link = scene.call("POST", f"/v1/campaigns/{first}/link", {"places": 5})["invite"]
    invite = Invite.parse(link)
    address = f"{scene.server.url}/v1/campaigns/{first}/claims"

    def claim(secret: str) -> int:
        request = urllib.request.Request(address, Claim(secret, token_hash(new_token())).to_bytes(), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return int(error.code)

    def told(campaign: str) -> dict[str, int]:
        return dict(scene.call("GET", f"/v1/campaigns/{campaign}/picture")["refusals"])

    assert claim(invite.link) == 201
    for many in range(1, STEP):
        assert claim(new_token()) == 403
        if many in (1, STEP - 1):
            assert told(first) == {}  # a single one is not seen
    assert claim(new_token()) == 403
    assert told(first) == {"wrong-link": STEP}
    assert told(second) == {}
    assert claim(new_token()) == 403
    assert told(first) == {"wrong-link": STEP}
    scene.call("POST", f"/v1/campaigns/{first}/close")
    give_up = time.monotonic() + 20
    while told(first) != {"wrong-link": STEP + 1} and time.monotonic() < give_up:
        time.sleep(0.1)
    assert told(first) == {"wrong-link": STEP + 1}  # exact in the end
    assert told(second) == {}


def turned(scene: Scene, campaign: str, before: int) -> int:
    """How many reports the newest snapshot has once it rests, longer than the time between two notes of it; asking
    draws nothing.
    """
    end, last = time.monotonic() + 30, before
    while time.monotonic() < end:
        time.sleep(1.2)
        heard = int(scene.call("GET", f"/v1/campaigns/{campaign}")["heard"])
        if heard == last > before:
            return heard
        last = heard
    raise AssertionError(f"no snapshot beyond {before} in 30 seconds")


def test_a_console_that_is_opened_late_sees_the_whole_way(scene: Scene, tmp_path: Path):
    """Nobody watched while the answers came; the points are those of the snapshots, and get denser."""
    campaign = scene.campaign(domain={"kind": "integers", "low": "0", "high": "600"}, planned_users=400)
    invites = scene.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": 400}).splitlines()[1:]
    values, done = minutes(400), 0
    heard = []
    while done < 400:
        some = slice(done, done + 100)
        answer_all(invites[some], values[some], tmp_path / f"ledgers-{done}")
        done += 100
        heard.append(turned(scene, campaign, heard[-1] if heard else 0))
    with stream(scene, campaign, scene.token) as lines:
        pictures = [next_picture(lines)]
        while not set(heard) <= {row[0] for row in pictures[-1]["trace"]}:  # the estimator is some way behind
            pictures.append(next_picture(lines))
    trace = pictures[-1]["trace"]
    places = [row[0] for row in trace]
    assert len(places) >= 4
    assert places == sorted(set(places))
    assert trace[-1][1][0] == pictures[-1]["estimates"][0]["value"]
    assert any(low is not None and high is not None and low < high for _, (_, low, high) in trace)
    scene.call("POST", f"/v1/campaigns/{campaign}/close")
    closed = scene.call("GET", f"/v1/campaigns/{campaign}/picture")["trace"]
    kept = [row[0] for row in closed]
    assert kept == sorted(set(kept))
    assert set(places) <= set(kept)  # the estimator fills in what it had passed over
    assert kept[-1] == 400


def test_streams_end_when_the_server_stops(tmp_path: Path):
    """Else it would wait for them for its whole grace of 20 seconds."""
    scene = Scene(tmp_path)
    scene.server.start()
    try:
        campaign = scene.campaign()
        streams = [stream(scene, campaign, scene.token) for _ in range(20)]
        for each in streams:
            next_picture(each)
        began = time.monotonic()
        assert scene.server.stop() == 0
        assert time.monotonic() - began < 8
        for each in streams:
            assert not re.search(rb"data: ", each.read())
    finally:
        scene.server.kill()


def test_one_picture_serves_all_who_watch(scene: Scene):
    """Twenty consoles on one campaign cost the pictures of one."""
    campaign = scene.campaign()
    streams = [stream(scene, campaign, scene.token) for _ in range(20)]
    first = Counter(json.dumps(next_picture(each)["trace"]) for each in streams)
    scene.call("POST", f"/v1/campaigns/{campaign}/pause")
    states = Counter(next_picture(each)["state"] for each in streams)
    assert sum(first.values()) == sum(states.values()) == states["paused"] == 20
    for each in streams:
        each.close()

"""The join page as a person uses it, before honest and hostile servers.

At epsilon 40 the coin shows the true bit (it would not with probability 4e-18): a bit that was drawn a second time,
for the opposite value, would differ for certain.
"""

from __future__ import annotations

import json
import re
import threading
import time
from dataclasses import replace

import pytest
from browser import PHONE, Browser, Page
from join_server import JoinServer, ShuffleJoinServer
from loopback import TICKET, Campaign, Server, campaign, reply

from privquant.domain import Grid, Integers
from privquant.wire import Ticket, new_token, problem_body


@pytest.fixture
def server():
    with JoinServer(campaign(epsilon=1.0)) as running:
        yield running


@pytest.fixture
def certain():
    """A server whose campaign has a coin that does not flip."""
    with JoinServer(campaign(epsilon=40.0)) as running:
        yield running


def answer(page: Page, value: object, consent: bool = False) -> None:
    """Type a number and send it by the keyboard alone."""
    page.type("#value", str(value))
    if consent:
        page.run("document.querySelector('#agreed').checked = true;")
    page.run("document.querySelector('#value').focus();")
    page.key("Enter")


def refusal(code: str, status: int, **headers: str) -> bytes:
    return reply(status, problem_body(code, "the server's own words"), **headers)


def quiet(page: Page) -> bool:
    assert page.complaints() == []
    return True


# -- a person answers ---------------------------------------------------------------------------------------


def test_nothing_is_drawn_before_the_person_answers_and_one_bit_leaves(server: JoinServer, browser: Browser):
    token = new_token()
    page = browser.visit(server.invite(token=token), size=PHONE)
    page.sees("How many steps, in thousands?")
    page.until("document.querySelector('#value') !== null")  # the page without script says as much
    page.sees("26.9 %")
    assert server.asked() == ["manifest"]
    answer(page, 30)
    page.sees("Answered. Thank you.")
    assert server.asked() == ["manifest", "manifest", "query", "reports"]
    [bits] = server.bits.values()
    assert list(server.bits) == [token]
    bit = bits[0]
    page.sees("is your number at most 50?")
    page.sees(f"{'yes' if bit else 'no'} ({bit})")
    shown = page.value("[...document.querySelectorAll('dd')].at(-1).textContent")
    assert shown.encode() == next(request.body for request in server.requests if request.what == "reports")
    assert page.fits()
    assert quiet(page)


def test_what_was_typed_is_nowhere_afterwards(browser: Browser):
    typed = "271828182845"  # ids, tokens and keys are random: a short number would be in one of them by chance
    with JoinServer(campaign(domain=Integers(0, 10**12))) as server:
        page = browser.visit(server.invite())
        answer(page, typed)
        page.sees("Thank you")
        assert "reports" in server.asked()
        assert all(typed.encode() not in request.body for request in server.requests)
        kept = everything_kept(page)
        page.run(f"localStorage.setItem('kept', '{typed}');")
        assert typed in everything_kept(page)  # the twin: had it been kept, it would have been found
    assert '"bit"' in kept  # the ledger was looked at
    assert typed not in re.sub(r"[\s,.'_]", "", kept)  # however it would be written


def everything_kept(page: Page) -> str:
    """All the browser has stored for the page's origin, and the page as it stands."""
    return page.run(
        """
        const all = [];
        for (const { name } of await indexedDB.databases()) {
          const base = await new Promise((done) => {
            const open = indexedDB.open(name); open.onsuccess = () => done(open.result);
          });
          for (const store of base.objectStoreNames) {
            all.push(await new Promise((done) => {
              const rows = base.transaction(store).objectStore(store).getAll();
              rows.onsuccess = () => done(rows.result);
            }));
          }
          base.close();
        }
        const plain = (_, value) => (typeof value === "bigint" ? `${value}n` : value);
        return JSON.stringify([all, { ...localStorage }, { ...sessionStorage }], plain) + document.body.innerHTML;
        """
    )


def test_a_second_answer_from_the_same_browser_is_refused(certain: JoinServer, browser: Browser):
    invite = certain.invite()
    page = browser.visit(invite)
    answer(page, 30, consent=True)
    page.sees("Thank you")
    again = browser.visit(invite)
    again.sees("You have answered")
    assert again.value("document.querySelector('#value')") is None
    other = browser.visit(certain.invite())  # another token of the same campaign
    other.sees("You have answered")
    certain.publish(nonce="1" * 32)  # another campaign about the same number
    third = browser.visit(certain.invite())
    answer(third, 99, consent=True)
    third.sees("A second answer would tell more than was agreed to")
    assert len(certain.bits) == 1
    assert [len(bits) for bits in certain.bits.values()] == [1]
    assert all(quiet(each) for each in (page, again, other, third))


def test_the_page_that_knows_no_campaign_answers_too(server: JoinServer, browser: Browser):
    """What `scripts/page_hashes.py --copy` writes, for who serves the page from a place of their own."""
    server.bare = True
    page = browser.visit(server.invite())
    page.sees("How many steps, in thousands?")
    answer(page, 30)
    page.sees("Thank you")
    assert [len(bits) for bits in server.bits.values()] == [1]
    assert quiet(page)


def test_two_tabs_at_once_send_one_bit(certain: JoinServer, browser: Browser):
    token = new_token()
    barrier = threading.Barrier(2)

    def together(request):
        barrier.wait(20)
        return certain.honest(request)

    certain.on["query"] = together
    pages = [browser.visit(certain.invite(token=token)) for _ in range(2)]
    for page, value in zip(pages, (0, 100)):
        answer(page, value, consent=True)
    for page in pages:
        page.sees("at most 50?")
    assert len(set(certain.bits[token])) == 1


def test_an_open_link_takes_one_place(server: JoinServer, browser: Browser):
    link = new_token()
    for _ in range(2):
        page = browser.visit(server.invite(link=link))
        page.until("document.querySelector('#value, #now dl') !== null")
        if page.value("document.querySelector('#value') !== null"):
            answer(page, 30)
        page.sees("at most 50?")
    assert len(server.claims) == len(server.bits) == 1


def test_a_shuffled_campaign_says_whom_one_trusts_and_sends_one_sealed_bit(browser: Browser):
    with ShuffleJoinServer() as server:
        server.bare = True
        token = new_token()
        page = browser.visit(server.invite(token=token), size=PHONE)
        page.sees("which mixes it with others and passes them on without names")
        page.sees("Mixed with at least 1,000 bits")
        answer(page, 30)
        page.sees("Please tick the box first")
        assert server.asked() == ["manifest"]
        answer(page, 30, consent=True)
        page.sees("accepted, to be mixed with others")
        assert len(set(server.sealed[token])) == 1
        assert len(server.bits[token]) == 1
        again = browser.visit(server.invite(token=token), language="de")
        again.sees("Sie haben geantwortet")
        assert page.fits()
        assert quiet(page)


# -- what is typed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "Please type a number."),
        ("many", "This is not a number"),
        ("3.5", "whole number"),
        ("101", "outside of what is asked. The nearest number would be 100."),
        ("-1", "The nearest number would be 0."),
    ],
)
def test_what_cannot_be_meant_is_said_and_sends_nothing(
    server: JoinServer, browser: Browser, typed: str, said: str
):
    page = browser.visit(server.invite())
    answer(page, typed)
    page.sees(said)
    assert page.value("document.activeElement.id") == "value"
    assert page.value("document.querySelector('#value').getAttribute('aria-invalid')") == "true"
    assert server.asked() == ["manifest"]
    page.browser.call("Target.closeTarget", targetId=page.target)


def test_numbers_with_a_fraction_and_beyond_2_to_the_53(browser: Browser):
    for domain, typed, bit in ((Grid([0.5, 1.5]), "0,7", 1), (Integers(0, 2**63 - 1), str(2**62 + 1), 0)):
        threshold = 1 if isinstance(domain, Grid) else 2**62
        with JoinServer(campaign(epsilon=40.0, domain=domain), threshold=threshold) as server:
            page = browser.visit(server.invite(), language="de")
            answer(page, typed, consent=True)
            page.sees("Beantwortet. Danke.")
            assert list(server.bits.values()) == [[bit]]


def test_a_large_epsilon_needs_a_second_yes(certain: JoinServer, browser: Browser):
    page = browser.visit(certain.invite())
    page.sees("epsilon 40 protects little")
    answer(page, 30)
    page.sees("Please tick the box first")
    assert certain.asked() == ["manifest"]


# -- servers that mean harm ---------------------------------------------------------------------------------


def tampered(server: Server, **changes: object) -> bytes:
    return Campaign(replace(server.campaign.manifest, **changes), server.campaign.key).envelope


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("manifest", "is not the campaign of your invite"),
        ("signature", "is not the campaign of your invite"),
        ("epsilon", "is no campaign that this page understands"),
        ("threshold", "is outside of what the campaign asks. Nothing was drawn."),
        ("question", "cannot be understood. Nothing was drawn."),
    ],
)
def test_what_was_tampered_with_is_refused(server: JoinServer, browser: Browser, fault: str, said: str):
    envelope = json.loads(server.campaign.envelope)
    if fault == "manifest":
        server.on["manifest"] = lambda request: reply(200, tampered(server, question="Another one?"))
    if fault == "signature":
        last = "0" if envelope["signature"][-1] != "0" else "1"
        changed = json.dumps(envelope | {"signature": envelope["signature"][:-1] + last}, separators=(",", ":"))
        server.on["manifest"] = lambda request: reply(200, changed.encode())
    if fault == "epsilon":  # a coin that is more honest than the epsilon it is said to be
        changed = json.dumps(envelope).replace(envelope["manifest"]["flip_threshold"], "1")
        server.on["manifest"] = lambda request: reply(200, changed.encode())
    if fault == "threshold":
        server.on["query"] = lambda request: reply(200, Ticket(100, TICKET).to_bytes())
    if fault == "question":
        server.on["query"] = lambda request: reply(200, b'{"threshold": 50}')
    page = browser.visit(server.invite())
    if fault in ("threshold", "question"):
        answer(page, 30)
    page.sees(said)
    assert server.bits == {}
    assert "reports" not in server.asked()
    assert quiet(page)


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("campaign-complete", 410, "As many people as planned have answered."),
        ("token-spent", 409, "This invite was used before, in another browser."),
        ("unknown-token", 403, "This invite is not one of the campaign's."),
    ],
)
def test_a_final_no_is_said_in_plain_words(server: JoinServer, browser: Browser, code: str, status: int, said: str):
    server.on["query"] = lambda request: refusal(code, status)
    page = browser.visit(server.invite())
    answer(page, 30)
    page.sees(said)
    page.sees("the server's own words")
    assert server.bits == {}


def test_an_invite_cut_short_is_said(server: JoinServer, browser: Browser):
    page = browser.visit(server.invite().partition("&k=")[0])
    page.sees("What follows the # may have been cut off")
    assert server.asked() == []


def test_nothing_the_campaign_says_becomes_markup(browser: Browser):
    made = campaign()
    hostile = "</title><script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">"
    with JoinServer(Campaign(replace(made.manifest, question=hostile), made.key)) as server:
        page = browser.visit(server.invite())
        page.until("document.querySelector('#value') !== null")
        assert page.value("document.querySelector('h1').textContent") == hostile
        assert page.value("document.title") == hostile
        assert page.value("document.querySelectorAll('#app img, #app script').length") == 0
        assert quiet(page)


# -- lost connections, waits, kills -------------------------------------------------------------------------


def test_it_waits_for_its_turn_and_comes_back_by_itself(server: JoinServer, browser: Browser):
    turns = iter([refusal("not-yet", 425, Retry_After="16"), refusal("campaign-paused", 503, Retry_After="16")])
    server.on["query"] = lambda request: next(turns, None) or server.honest(request)
    page = browser.visit(server.invite())
    answer(page, 30)
    page.sees("It is not your turn yet.")
    page.sees("nothing has been drawn yet")
    page.until("/Next try in 1[0-6] s/.test(document.body.innerText)")
    page.press("Try now")
    page.sees("The campaign is paused.")
    page.run("dispatchEvent(new Event('online'));")  # the connection is back: no need to wait
    page.sees("Thank you")
    assert [len(bits) for bits in server.bits.values()] == [1]


def test_it_comes_back_after_a_lost_connection_without_being_told(certain: JoinServer, browser: Browser):
    """The server counts the report and its answer is lost, again and again: the same bit is resent."""
    left = [3]

    def lost(request):
        certain.keep(request)
        left[0] -= 1
        if left[0] == 0:
            del certain.on["reports"]
        return lambda sock: sock.close()

    certain.on["reports"] = lost
    token = new_token()
    page = browser.visit(certain.invite(token=token))
    answer(page, 0, consent=True)
    page.sees("counted before, and not twice", 40)
    assert certain.bits[token] == [1, 1, 1, 1]


# Where the tab is killed: before a bit exists, while it is under way (counted or not), after its acknowledgement.
@pytest.mark.parametrize("moment", ["before", "while, lost", "while, counted", "after"])
def test_a_tab_killed_at_any_moment_never_sends_two_bits(certain: JoinServer, browser: Browser, moment: str):
    reached = threading.Event()

    def hang(request):
        if moment == "while, counted":
            certain.keep(request)
        reached.set()
        return lambda sock: time.sleep(3)

    route = {"before": "query", "after": None}.get(moment, "reports")
    if route is not None:
        certain.on[route] = hang
    token = new_token()
    page = browser.visit(certain.invite(token=token))
    answer(page, 0, consent=True)
    if route is None:
        page.sees("Thank you")
    else:
        assert reached.wait(30)
    browser.kill_renderers()
    certain.on.clear()
    again = browser.visit(certain.invite(token=token))
    if moment == "before":
        answer(again, 100, consent=True)  # nothing was drawn: the page asks anew
    again.sees("at most 50?", 40)
    bit = 0 if moment == "before" else 1
    assert set(certain.bits[token]) == {bit}
    again.sees(f"({bit})")


# -- who reads it -------------------------------------------------------------------------------------------


def test_without_script_the_page_says_how_to_answer(server: JoinServer, browser: Browser):
    page = browser.visit(server.invite(), script=False)
    text = page.browser.call("Page.captureSnapshot", page.session)["data"]
    assert "privquant answer" in text
    assert "pip install" in text
    assert "It does not here" in text
    assert server.asked() == []


def test_the_language_follows_the_browser_and_can_be_changed(server: JoinServer, browser: Browser):
    page = browser.visit(server.invite(), language="de-AT")
    page.sees("Ihre Zahl")
    page.sees("26,9 %")
    page.type("#value", "12")
    page.press("English")
    page.sees("Your number")
    assert page.value("document.querySelector('#value').value") == "12"
    assert page.value("document.documentElement.lang") == "en"
    assert quiet(page)


def test_it_works_by_keyboard_alone(server: JoinServer, browser: Browser):
    """Tab from the top: languages, the number, the button; what happened is where the focus is."""
    page = browser.visit(server.invite())
    page.until("document.querySelector('#value') !== null")
    page.run("document.activeElement.blur();")
    names = []
    for _ in range(4):
        page.key("Tab")
        names.append(page.value("document.activeElement.id || document.activeElement.innerText.trim()"))
    assert names == ["English", "Deutsch", "value", "Throw the coin and send one bit"]
    page.type("#value", "30")
    page.key("Tab")
    page.key("Enter")
    page.sees("Thank you")
    assert page.value("document.activeElement.innerText") == "Answered. Thank you."

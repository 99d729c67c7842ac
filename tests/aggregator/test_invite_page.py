"""The page a browser shows of an invite: what it says is true, and what it tells to run runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from scene import Scene, manifest

from privquant.device import spending
from privquant.device.consent import policy_of
from privquant.device.policy import load_policy
from privquant.domain import Grid, Integers, LogGrid
from privquant.pages.invite_page import invite_page
from privquant.pages.join_pages import missing_page
from privquant.privacy.coin import flip_threshold
from privquant.wire import Invite, fingerprint

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def get(url: str, accept: str, method: str = "GET") -> tuple[int, str, Any]:
    request = urllib.request.Request(url, headers={"accept": accept}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def commands(page: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)]


class Tags(HTMLParser):
    """Every tag and attribute of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.attributes: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)
        self.attributes += [name for name, _ in attrs]


def test_who_does_what_the_page_says_is_counted(scene: Scene, tmp_path: Path) -> None:
    campaign = scene.campaign(measurement="way.to-work", question="How long is your way to work?")
    invite = scene.call("POST", f"/v1/campaigns/{campaign}/link", {"places": 1})["invite"]
    status, page, _ = get(invite.partition("#")[0], BROWSER)
    assert status == 200
    assert "How long is your way to work?" in page
    _, allow, policy, command = commands(page)
    address = Invite.parse(invite).to_url()

    def run(command: str, **more: Any) -> str:
        words = shlex.split(command.replace(f"{invite.partition('#')[0]}#...", address).replace("VALUE", "30"))
        assert words[0] == "privquant"
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **more,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "How long is your way to work?" in run(allow, input="y\n")
    assert (tmp_path / "policy.toml").read_text() == policy
    assert run(command).startswith("Answered: ")
    scene.call("POST", f"/v1/campaigns/{campaign}/close")
    assert scene.call("GET", f"/v1/campaigns/{campaign}")["heard"] == 1
    assert "is <b>closed</b>" in get(invite.partition("#")[0], BROWSER)[1]


def test_only_browsers_get_the_page(scene: Scene) -> None:
    url = f"{scene.server.url}/c/{scene.campaign()}"
    status, page, headers = get(url, BROWSER)
    assert (status, headers.get_content_type(), headers["referrer-policy"]) == (200, "text/html", "no-referrer")
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
    assert "unsafe" not in policy
    assert "<h1>" in page
    for accept in ("application/json", "*/*", ""):
        status, body, headers = get(url, accept)
        assert (status, headers.get_content_type()) == (404, "application/problem+json")
        assert "privquant answer" in json.loads(body)["detail"]
    for wrong in ("0" * 64, "zz", "%3Cscript%3E"):
        status, page, headers = get(f"{scene.server.url}/c/{wrong}", BROWSER)
        assert (status, headers.get_content_type(), page) == (404, "text/html", missing_page("../"))


def test_a_link_can_be_looked_at_before_it_is_opened(scene: Scene) -> None:
    url = f"{scene.server.url}/c/{scene.campaign()}"
    _, page, shown = get(url, BROWSER)
    status, body, headers = get(url, BROWSER, "HEAD")
    assert (status, body) == (200, "")
    assert headers["content-length"] == shown["content-length"] == str(len(page.encode()))
    assert get(f"{scene.server.url}/c/{'0' * 64}", BROWSER, "HEAD")[:2] == (404, "")


def test_nothing_of_a_campaign_becomes_markup_and_nothing_is_fetched() -> None:
    hostile = "</title><script>alert(1)</script><img src='//x/y' onerror=\"f()\">{style}%s & more"
    found = Tags(invite_page(manifest(question=hostile), "open", "https://ask.example.org/c/ab"))
    plain = Tags(invite_page(manifest(), "open", "https://ask.example.org/c/ab"))
    assert found.found == plain.found
    assert set(found.found) <= {
        *("html", "head", "meta", "title", "link", "script", "body", "main", "div"),
        *("h1", "h2", "p", "b", "i", "code", "pre"),
    }
    assert found.attributes == plain.attributes
    assert not [name for name in found.attributes if name.startswith("on") or name == "style"]
    page = invite_page(manifest(question=hostile), "open", "https://ask.example.org/c/ab")
    assert all(link.startswith("../assets/") for link in re.findall(r'(?:href|src)="([^"]*)"', page))
    assert page.count("<script") == page.count('<script type="module" src="') == 1
    assert "script" in Tags(f"<p>{hostile}</p>").found  # what the test looks for can be found


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 1 / 3, 0.1 + 0.2, 3.0, 50.0])
@pytest.mark.parametrize(
    "domain", [Integers(-5, 5), Integers(0, 2**63 - 1), Grid([1e-7, 0.5, 3.0]), LogGrid(1, 1e6, 150)]
)
def test_the_policy_of_the_page_allows_the_campaign_and_no_more(
    epsilon: float, domain: Integers | Grid, tmp_path: Path
) -> None:
    asked = manifest(epsilon=epsilon, domain=domain)
    (tmp_path / "policy.toml").write_text(policy_of(asked))
    rules = load_policy(tmp_path / "policy.toml").measurements
    assert list(rules) == ["pay.2026"]
    rule = rules["pay.2026"]
    assert (rule.domain.to_dict(), rule.answers) == (domain.to_dict(), 1)
    assert rule.issuer_key == fingerprint(asked.issuer)
    assert spending.keeps(rule.max_units, asked.flip_threshold)
    assert spending.cost(asked.flip_threshold) <= rule.lifetime_units
    if epsilon < 40:  # beyond, the coin is as honest as it can be
        assert not spending.keeps(rule.max_units, flip_threshold(epsilon * (1 + 1e-9) + 2e-12))


@pytest.mark.parametrize(
    ("changes", "state", "said"),
    [
        ({}, "open", "open until"),
        ({}, "paused", "paused at the moment"),
        ({}, "closed", "no more answers are counted"),
        ({"deadline": 86_400}, "open", "1970-01-02 00:00 UTC, has <b>passed</b>"),
        ({"opens": int(time.time()) + 10**6}, "open", "The campaign opens 20"),
        ({}, "open", "with a chance of 26.9 % it sends the opposite"),
        ({}, "open", "more than 2.72 times"),
        ({"epsilon": 50.0}, "open", "with a chance of 5.42e-18 %"),
        ({}, "open", "the issuer\nestimates the median."),
        ({"quantiles": (0.1, 0.5, 0.9)}, "open", "the 0.1 quantile, the median and the 0.9 quantile."),
        ({}, "open", "a whole number from 0 to 999"),
        ({"domain": Grid([1.0, 2.5])}, "open", "one of 3 ranges split at 1 to 2.5"),
        ({"domain": LogGrid(1, 1e6, 5000)}, "open", '{kind = "log", low = 1.0, high = 1000000.0, bins = 5000}'),
        ({"domain": Grid(range(5000))}, "open", "It lists all 5,000 edges of the ranges"),
    ],
)
def test_what_the_page_says(changes: dict[str, Any], state: str, said: str) -> None:
    assert said in unescape(invite_page(manifest(**changes), state, "https://ask.example.org/c/ab"))


@pytest.mark.parametrize(
    "domain", [LogGrid(1e-3, 1e6, 5000), Grid(range(5000)), Grid(range(50)), Grid([1, 10, 100])]
)
def test_no_page_shows_a_policy_that_is_cut_short(domain: Grid, tmp_path: Path) -> None:
    page = invite_page(manifest(domain=domain), "open", "https://ask.example.org/c/ab")
    assert "..." not in unescape(page).replace("#...'", "")
    for text in commands(page):
        if text.startswith("version"):
            (tmp_path / "policy.toml").write_text(text)
            assert load_policy(tmp_path / "policy.toml").measurements["pay.2026"].domain.size == domain.size
    assert ("too many for this page" in page) == (domain == Grid(range(5000)))

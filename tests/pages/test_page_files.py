"""What the pages consist of: small, whole, without anything from elsewhere, in every language, with true hashes."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest
from browser import Browser
from hatchling.builders.wheel import WheelBuilder
from nodejs import JS, run_node
from scene import Scene, manifest
from shuffled_loopback import shuffled_campaign

from privquant.aggregator.page_routes import console_page
from privquant.device.consent import policy_of
from privquant.device.policy import load_policy
from privquant.error_words import Certain, Typical
from privquant.pages.invite_page import invite_page, room_page
from privquant.pages.join_pages import bare_page, shuffled_page
from privquant.pages.page_files import CONTENT_POLICY, modules_of, page_files

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "src/privquant/pages"
MOST = 60_000  # bytes, compressed
UPLOT = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def linked(page: str) -> list[str]:
    return re.findall(r'(?:href|src)="(?:\.\./)?assets/([^"]+)"', page)


def on_demand(names: list[str]) -> list[str]:
    """What modules import while they run, but for the words of a language, and what that imports."""
    texts = [page_files()[name].body.decode() for name in names if name.startswith("js/")]
    entries = {f"js/src/{found}" for text in texts for found in re.findall(r'\bimport\("\./([^"]+)"\)', text)}
    return sorted({module for entry in entries for module in modules_of(entry)} - set(names))


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize("trust", ["local", "shuffled"])
def test_the_join_page_with_all_it_loads_is_small(trust: str, language: str):
    shuffled = shuffled_campaign("https://shuffle.example.org").manifest
    page = {
        "local": invite_page(manifest(), "open", "https://ask.example.org/c/" + "a" * 64),
        "shuffled": shuffled_page(shuffled, at_shuffler=True),
    }[trust]
    names = [*linked(page), f"pages/join/words-{language}.js"]
    more = on_demand(names)
    assert len(more) == 4
    files = names + (more if trust == "shuffled" else [])
    whole = len(gzip.compress(page.encode())) + sum(len(page_files()[name].packed) for name in files)
    print(f"{trust}, {language}: {len(files) + 1} files, {whole} bytes compressed one by one")
    assert whole <= MOST


@pytest.mark.parametrize("page", [invite_page(manifest(), "open", "https://x/c/a"), room_page(), console_page()])
def test_a_page_links_what_there_is_and_nothing_from_elsewhere(page: str):
    assert set(linked(page)) <= set(page_files())
    assert len(linked(page)) == len(re.findall(r'(?:href|src)="', page))
    assert "<style" not in page
    assert not re.search(r"<script(?![^>]* src=)", page)
    assert not re.search(r"\son[a-z]+=|\sstyle=", page)


@pytest.mark.parametrize("entry", ["pages/join/main.js", "pages/join/room.js", "pages/console/main.js"])
def test_modules_are_relative_and_there(entry: str):
    modules = modules_of(entry)
    assert modules[0] == entry
    assert set(modules) <= set(page_files())
    for name in modules:
        text = page_files()[name].body.decode()
        assert not re.search(r"https?://(?!www\.w3\.org)", re.sub(r"//[^\n]*|`[^`]*`|\"[^\"]*\"", "", text)), name
        assert "eval(" not in text
        assert "innerHTML" not in text


def test_the_policy_allows_what_the_pages_need_and_no_more():
    rules = dict(rule.split(" ", 1) for rule in CONTENT_POLICY.split("; "))
    assert rules.pop("default-src") == "'none'"
    assert {rules.pop(name) for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert rules == {"base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}


def test_every_language_has_every_word():
    """The same names, the same kinds, functions of as many arguments, the same marks."""
    code = """
    const shape = (value) =>
      typeof value === "function" ? `of ${value.length}`
      : Array.isArray(value) ? value.map(shape)
      : typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, shape(v)]).sort())
      : (value.match(/[*]{2}/g) ?? []).length;
    const found = {};
    const pages = "%s/join";
    const { default: rooms } = await import(`${pages}/room-words.js`);
    for (const code of %s) {
      const { default: words } = await import(`${pages}/words-${code}.js`);
      found[code] = shape([words, rooms[code]]);
    }
    console.log(JSON.stringify(found));
    """
    languages = re.findall(r'\["([a-z]{2})", "', (PAGES / "shared/languages.js").read_text())
    assert sorted(languages) == sorted(path.stem[-2:] for path in (PAGES / "join").glob("words-*.js"))
    done = run_node("--input-type=module", "-", input=code % (PAGES.as_uri(), json.dumps(languages)))
    found = json.loads(done.stdout)
    assert len(found) >= 2
    assert all(shape == found["en"] for shape in found.values())


def test_the_console_shows_no_range_that_bounds_nothing():
    """What is certain stands for a range on lumpy data; where its slack takes in the last rank it is none."""
    said = [
        Certain(0.5, 10, 20, 0.05, 0.95),
        Certain(0.5, 10, None, 0.05, 0.95),
        Certain(0.99, None, 20, 0.05, 0.95),
        Certain(0.01, 10, None, 0.05, 0.95),
        Typical(0.99, 10, 20, 0.05, None),
    ]
    estimates = [
        {"certain": None, "typical": None, "notes": []} | {type(each).__name__.lower(): each.to_dict()}
        for each in said
    ]
    code = f"""
    const {{ range }} = await import("{PAGES.as_uri()}/console/words.js");
    console.log(JSON.stringify({json.dumps(estimates)}.map((each) => range(each)?.text ?? null)));
    """
    done = run_node("--input-type=module", "-", input=code)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["10 to 20", "at least 10", None, None, "10 to 20"]


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 1 / 3, 0.1 + 0.2, 2.718281828459045, 3.0, 50.0])
def test_the_policy_of_the_page_is_the_one_python_would_write(epsilon: float, tmp_path: Path):
    """The page's own limit, in units of 10^-12, beside that of `privquant policy`."""
    (tmp_path / "js").symlink_to(JS)
    (tmp_path / "pages").symlink_to(PAGES)
    code = f"""
    import {{ policyOf }} from "{tmp_path.as_uri()}/pages/join/policy.js";
    const rule = policyOf({{ measurement: "pay", epsilon: {epsilon!r}, shuffle: null }}).of("pay");
    console.log(String(rule.maxUnits));
    """
    done = run_node("--preserve-symlinks", "--input-type=module", "-", input=code)
    assert done.returncode == 0, done.stderr
    (tmp_path / "policy.toml").write_text(policy_of(manifest(epsilon=epsilon)))
    assert int(done.stdout) == load_policy(tmp_path / "policy.toml").measurements["pay.2026"].max_units


def test_the_hashes_in_the_docs_are_those_of_the_files():
    """`python scripts/page_hashes.py` writes them; sha256sum -c reads them."""
    written = (ROOT / "docs/page-hashes.txt").read_text()
    made = subprocess.run(
        [sys.executable, ROOT / "scripts/page_hashes.py", "--print"], capture_output=True, text=True, check=True
    ).stdout
    assert written == made
    lines = dict(reversed(line.split("  ")) for line in written.splitlines())
    assert lines["c.html"] == hashlib.sha256(bare_page().encode()).hexdigest()
    assert linked(bare_page()) == linked(invite_page(manifest(), "open", "https://x/c/a"))
    loaded = {f"assets/{name}" for name in linked(bare_page())}
    assert loaded < set(lines)
    for name in loaded:
        body = page_files()[name.removeprefix("assets/")].body
        assert lines[name] == hashlib.sha256(body).hexdigest()


def test_the_files_can_be_copied_and_checked(tmp_path: Path):
    subprocess.run([sys.executable, ROOT / "scripts/page_hashes.py", "--copy", tmp_path], check=True)
    check = ["sha256sum", "--quiet", "-c", ROOT / "docs/page-hashes.txt"]
    assert subprocess.run(check, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "assets/js/src/coin.js").write_text("// another coin")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_the_wheel_has_the_pages_in_it(tmp_path: Path):
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as opened:
        inside = set(opened.namelist())
    wanted = {f"privquant/{name}" for name in page_files() if name.startswith("pages/")}
    wanted |= {f"privquant/{name}" for name in page_files() if name.startswith("js/")}
    assert wanted | {"privquant/pages/vendor/uplot/LICENSE"} <= inside


def test_what_is_vendored_is_what_was_published():
    for name, digest in UPLOT.items():
        assert hashlib.sha256((PAGES / "vendor/uplot" / name).read_bytes()).hexdigest() == digest
    assert "MIT License" in (PAGES / "vendor/uplot/LICENSE").read_text()


# -- as served ----------------------------------------------------------------------------------------------


def fetch(url: str, method: str = "GET", body: bytes | None = None, **headers: str):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=body, headers=names, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


def test_what_a_browser_loads_is_what_was_counted(scene: Scene, browser: Browser):
    """By the browser's own count of bytes: every file of the page, compressed, and none besides."""
    link = scene.call("POST", f"/v1/campaigns/{scene.campaign()}/link", {"places": 5})["invite"]
    page = browser.visit(link, context=browser.person())
    page.type("#value", "30")
    page.key("Enter")
    page.sees("Thank you")
    loaded = page.loaded()
    plain = invite_page(manifest(), "open", "https://x/c/a")
    wanted = {*linked(plain), "pages/join/words-en.js"}
    icon = {"pages/shared/icon.svg"}  # which a browser fetches when it pleases
    assert {name.partition("/assets/")[2] for name in loaded} - {""} | icon == wanted
    assert min(loaded.values()) > 0
    assert sum(loaded.values()) <= MOST


def test_files_are_compressed_and_not_sent_twice(scene: Scene):
    url = f"{scene.server.url}/assets/pages/join/main.js"
    status, plain, headers = fetch(url)
    assert (status, headers.get_content_type(), headers["content-encoding"]) == (200, "text/javascript", None)
    status, packed, headers = fetch(url, Accept_Encoding="gzip")
    assert (status, headers["content-encoding"], gzip.decompress(packed)) == (200, "gzip", plain)
    assert fetch(url, If_None_Match=headers["etag"])[:2] == (304, b"")
    assert fetch(url, If_None_Match='"other"')[0] == 200


@pytest.mark.parametrize(
    "name", ["../api.py", "pages/../../api.py", "js/package.json", "pages", "pages/vendor", ""]
)
def test_nothing_else_is_served(scene: Scene, name: str):
    for base in (scene.server.url, scene.server.admin_url):
        assert fetch(f"{base}/assets/{name}")[0] == 404


def test_only_open_links_of_this_server_are_drawn_for_anybody(scene: Scene):
    campaign = scene.campaign()
    link = scene.call("POST", f"/v1/campaigns/{campaign}/link", {"places": 5})["invite"]
    one = scene.call("POST", f"/v1/campaigns/{campaign}/invites", {"count": 1}).splitlines()[1]

    def draw(invite: object) -> int:
        body = json.dumps({"invite": invite}).encode()
        return fetch(f"{scene.server.url}/join/qr", "POST", body, Content_Type="application/json")[0]

    assert draw(link) == 200
    assert draw(one) == 422
    assert draw(link.replace(campaign, "0" * 64)) == 404
    assert [draw(each) for each in ("", "https://elsewhere.example", 5, None)] == [422] * 4


def test_the_console_is_on_the_admin_listener_alone(scene: Scene):
    assert fetch(f"{scene.server.url}/console")[0] == 404
    status, body, headers = fetch(f"{scene.server.admin_url}/console")
    assert (status, body.decode()) == (200, console_page())
    assert headers["content-security-policy"] == CONTENT_POLICY
    assert "set-cookie" not in headers
    status, _, headers = fetch(f"{scene.server.admin_url}/", Accept="text/html")
    assert status == 200  # led on to the console

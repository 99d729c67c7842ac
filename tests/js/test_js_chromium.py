"""The device in a real browser: IndexedDB as its ledger, two tabs at once, tabs and browsers killed on the way.

At epsilon 40 the coin shows the true bit (it would not with probability 4e-18): a bit that was drawn a second time,
for the opposite value, would differ for certain.
"""

import json
import re
import threading
import time
from pathlib import Path

import pytest
from chromium import Chromium, PageServer
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from loopback import TICKET, campaign, reply
from nodejs import evaluate

from privquant.wire import new_token

VECTORS = json.loads((Path(__file__).parents[2] / "docs/vectors/coin.json").read_text())

DEVICE = """
const found = await import("/js/src/browser.js");
const { Device, IndexedDbLedger, NotAnswered, Policy } = found;
const rule = { domain: { kind: "integers", low: 0, high: 100 }, max_epsilon: 40 };
const policy = new Policy({ version: 1, measurements: { steps: rule } });
const patience = { total: 20, request: 10, firstPause: 0.05 };
const refusal = (error) => {
  if (!(error instanceof NotAnswered)) throw error;
  return { kind: error.name, reason: error.reason, text: error.text };
};
"""


def answering(invite: str, value: int, ledger: str = "new IndexedDbLedger()") -> str:
    device = f"new Device(policy, {{ patience, ledger: {ledger} }})"
    return DEVICE + f"return {device}.answer({json.dumps(invite)}, {value}).catch(refusal);"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    running = Chromium(tmp_path_factory.mktemp("chromium")).start()
    yield running
    running.kill()


@pytest.fixture
def server():
    with PageServer(campaign(epsilon=40.0)) as running:
        yield running


@pytest.fixture
def tab(chromium, server):
    return chromium.open(f"{server.base}/page")


def test_an_answer_is_one_bit_and_a_receipt(server, tab):
    token = new_token()
    receipt = tab.run(answering(server.invite(token=token), 30))
    assert (receipt["status"], receipt["asked"], receipt["bit"], receipt["lifetime"]) == ("counted", 50, 1, "40")
    assert [request.what for request in server.asked()] == ["manifest", "query", "reports"]
    assert server.bits == {token: [1]}
    assert all("cookie" not in request.headers and "referer" not in request.headers for request in server.asked())


def test_a_second_answer_is_refused_also_by_a_new_tab(server, tab, chromium):
    invite = server.invite()
    tab.run(answering(invite, 30))
    again = chromium.open(f"{server.base}/page")
    assert again.run(answering(invite, 99))["status"] == "answered before"
    recalled = again.run(DEVICE + f"return new Device(policy).recall({json.dumps(invite)});")
    assert (recalled["status"], recalled["bit"]) == ("answered before", 1)
    server.publish(nonce="1" * 32)
    assert again.run(DEVICE + f"return new Device(policy).recall({json.dumps(server.invite())});") is None
    refused = again.run(answering(server.invite(), 99))
    assert (refused["kind"], refused["reason"]) == ("PolicyRefused", "one-answer")
    assert len(server.bits) == 1


def test_the_campaign_can_be_looked_at_before_anything_is_drawn(server, tab):
    look = (
        DEVICE
        + f"""
    const device = new Device(policy);
    const {{ question, epsilon, id }} = await device.campaign({json.dumps(server.invite())});
    return {{ question, epsilon, id, drawn: await device.ledger.answers("steps") }};
    """
    )
    manifest = server.campaign.manifest
    assert tab.run(look) == {"question": manifest.question, "epsilon": 40, "id": manifest.id, "drawn": []}
    assert [request.what for request in server.asked()] == ["manifest"]


def test_an_open_link_claims_one_place(server, tab):
    link = new_token()
    server.on["query"] = lambda request: reply(410, b"")
    assert tab.run(answering(server.invite(link=link), 30))["reason"] == "server-refused"
    del server.on["query"]
    assert tab.run(answering(server.invite(link=link), 30))["status"] == "counted"
    assert len(server.claims) == len(server.bits) == 1


def test_both_bits_give_the_same_requests_byte_for_byte_but_the_bit(server, chromium):
    """At epsilon 40 both bits occur for certain. Each answer is in an origin of its own."""
    shapes = set()
    for value in (0, 100):
        with PageServer(server.campaign) as own:
            chromium.open(f"{own.base}/page").run(answering(own.invite(), value))
            raws = [request.raw.replace(own.base.encode(), b"X") for request in own.asked()]
            raws = [raw.replace(own.base.removeprefix("http://").encode(), b"X") for raw in raws]
            raws = [re.sub(rb'"token":"[^"]{22}"|"token_hash":"[0-9a-f]{64}"', b"T", raw) for raw in raws]
            shapes.add(tuple(re.sub(rb'"bit":[01]', b"B", raw) for raw in raws))
            assert [[int(value <= 50)]] == list(own.bits.values())
    assert len(shapes) == 1
    assert len(next(iter(shapes))) == 3


def test_the_coin_of_the_browser_meets_every_vector(tab):
    code = f"""
    const {{ Coin, flipThreshold, realEpsilon }} = await import("/js/src/coin.js");
    const {{ fromHex }} = await import("/js/src/form.js");
    const {{ thresholds, draws }} = {json.dumps(VECTORS)};
    return thresholds.every((t) => String(flipThreshold(t.epsilon)) === t.flip_threshold)
      && thresholds.every((t) => realEpsilon(BigInt(t.flip_threshold)) === t.real_epsilon)
      && draws.every((d) => new Coin(BigInt(d.flip_threshold)).report(d.bit, fromHex(d.draw)) === d.report);
    """
    assert tab.run(code) is True


def test_what_the_browser_seals_python_opens(tab):
    key = X25519PrivateKey.generate()
    sealed = tab.run(
        f"""
        const {{ seal }} = await import("/js/src/hpke.js");
        const {{ fromHex, toHex, ascii }} = await import("/js/src/form.js");
        const key = fromHex("{key.public_key().public_bytes_raw().hex()}");
        return toHex(await seal(key, ascii("info"), ascii(""), ascii("one bit")));
        """
    )
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    assert suite.decrypt(bytes.fromhex(sealed), key, info=b"info") == b"one bit"


# -- a server that means harm -------------------------------------------------------------------------------


def test_a_tampered_threshold_is_refused(server, tab):
    server.threshold = 100
    assert tab.run(answering(server.invite(), 30))["reason"] == "threshold"
    server.on["query"] = lambda request: reply(200, b'{"threshold":"50","threshold":"51","ticket":"t"}')
    assert tab.run(answering(server.invite(), 30))["reason"] == "question-malformed"
    server.on["query"] = lambda request: reply(200, json.dumps({"threshold": 50, "ticket": TICKET}).encode())
    assert tab.run(answering(server.invite(), 30))["reason"] == "question-malformed"
    assert not server.bits


def test_a_tampered_manifest_or_signature_is_refused(server, tab):
    invite, honest = server.invite(), server.campaign
    server.publish(planned_users=5)
    assert tab.run(answering(invite, 30))["reason"] == "manifest-forged"
    envelope = json.loads(honest.envelope)
    envelope["signature"] = f"{int(envelope['signature'], 16) ^ 1:0128x}"
    server.on["manifest"] = lambda request: reply(200, json.dumps(envelope).encode())
    refused = tab.run(answering(invite, 30))
    assert (refused["reason"], "signature does not verify" in refused["text"]) == ("manifest-forged", True)
    shuffled = honest.envelope.replace(b'"model":"local"', b'"model":"shuffle"')
    server.on["manifest"] = lambda request: reply(200, shuffled)
    assert tab.run(answering(invite, 30))["reason"] == "trust-model"
    server.on["manifest"] = lambda request: reply(200, honest.envelope + b" " * 300_000)
    assert tab.run(answering(invite, 30))["reason"] == "too-large"
    assert not server.bits


def test_a_redirect_is_not_followed(server, tab):
    with PageServer(server.campaign) as elsewhere:
        server.on["query"] = lambda request: reply(307, b"", Location=elsewhere.base + request.path)
        assert tab.run(answering(server.invite(), 30))["reason"] == "redirect"
        assert not elsewhere.requests


# -- a browser that cannot ----------------------------------------------------------------------------------


def test_a_page_over_plain_http_gets_a_sentence(server, chromium):
    elsewhere = server.base.replace("127.0.0.1", "somewhere.test")
    refused = chromium.open(f"{elsewhere}/page").run(answering(server.invite(), 30))
    assert (refused["kind"], refused["reason"]) == ("PlatformRefused", "platform")
    assert refused["text"].endswith("Open it over https.")
    assert not server.asked()


@pytest.mark.parametrize(
    ("engine", "sentence"),
    [
        ("{ isSecureContext: true }", "has no web cryptography"),
        ("{ isSecureContext: false, crypto: {} }", "Open it over https"),
        ("{ crypto: { subtle: { importKey: async () => { throw new Error('NotSupported'); } } } }", "Ed25519"),
    ],
)
def test_an_older_engine_gets_a_sentence(engine, sentence):
    code = "const { whatIsMissing } = await import(`${js}/platform.js`);"
    assert sentence in evaluate(f"{code} console.log(JSON.stringify(await whatIsMissing({engine})));")
    assert evaluate(f"{code} console.log(JSON.stringify(await whatIsMissing()));") is None


# -- the ledger ---------------------------------------------------------------------------------------------


def test_every_step_is_one_strict_transaction(server, tab):
    code = (
        DEVICE
        + f"""
    const seen = [];
    const {{ transaction }} = IDBDatabase.prototype;
    IDBDatabase.prototype.transaction = function noting(...args) {{
      const made = transaction.apply(this, args);
      seen.push([made.mode, made.durability].join(" "));
      return made;
    }};
    await new Device(policy, {{ patience }}).answer({json.dumps(server.invite())}, 30);
    return seen;
    """
    )
    seen = tab.run(code)
    assert set(seen) == {"readwrite strict"}
    assert len(seen) == 6  # find, answers, prepare, send, acknowledge, answers for the receipt


@pytest.mark.parametrize("fault", ["newer", "corrupt", "unknown field", "lax"])
def test_a_ledger_that_cannot_be_understood_refuses(server, tab, fault):
    tab.run(answering(server.invite(), 30))
    damage = {
        "newer": "const open = indexedDB.open('privquant ledger', 3);"
        "await new Promise((done) => { open.onsuccess = done; }); open.result.close();",
        "corrupt": "await change((answer) => ({ ...answer, bit: 2 }));",
        "unknown field": "await change((answer) => ({ ...answer, note: 'x' }));",
        "lax": "Object.defineProperty(IDBTransaction.prototype, 'durability', { value: 'relaxed' });",
    }[fault]
    change = """
    const change = (how) => new Promise((done) => {
      const open = indexedDB.open("privquant ledger");
      open.onsuccess = () => {
        const step = open.result.transaction("answers", "readwrite");
        const store = step.objectStore("answers");
        const all = store.getAll();
        all.onsuccess = () => store.put(how(all.result[0]));
        step.oncomplete = () => { open.result.close(); done(); };
      };
    });
    """
    tab.run(change + damage)
    seen = len(server.asked())
    refused = tab.run(answering(server.invite(), 30))
    reasons = {"newer": "ledger-version", "lax": "ledger-unwritable"}
    assert (refused["kind"], refused["reason"]) == ("LedgerRefused", reasons.get(fault, "ledger-corrupt"))
    assert len(server.asked()) == seen


def test_a_tab_that_holds_the_ledger_makes_another_wait_and_then_give_up(server, tab, chromium):
    holding = """
    const { IndexedDbLedger } = await import("/js/src/browser.js");
    await new IndexedDbLedger().answers("steps");
    return new Promise((held) => {
      const open = indexedDB.open("privquant ledger");
      open.onsuccess = () => {
        const store = open.result.transaction("answers", "readwrite").objectStore("answers");
        const again = () => { store.count().onsuccess = () => { if (!window.enough) again(); }; };
        again();
        held(true);
      };
    });
    """
    assert tab.run(holding) is True
    other = chromium.open(f"{server.base}/page")
    refused = other.run(answering(server.invite(), 30, "new IndexedDbLedger({ patience: 0.3 })"))
    assert (refused["kind"], refused["reason"]) == ("TryLater", "ledger-busy")
    tab.run("window.enough = true;")
    assert other.run(answering(server.invite(), 30))["status"] == "counted"


MEMORY = """{
  kept: [],
  async answers() { return this.kept; },
  async find() { return this.kept[0] ?? null; },
  async prepare(measurement, campaign, draw) { return (this.kept[0] = { ...draw([]), state: "prepared" }); },
  async advance(answer, event) { return { ...answer, state: event === "send" ? "sent" : "acked" }; },
}"""


def both_tabs(server, chromium, ledger: str = "new IndexedDbLedger()") -> tuple[list[dict], set[int]]:
    """Two tabs answer one invite at the same time about opposite values: receipts, and the bits that arrived.

    The server lets no question out before both have asked, so that both are about to draw.
    """
    token = new_token()
    barrier = threading.Barrier(2)

    def together(request):
        barrier.wait(20)
        return server.honest(request)

    server.on["query"] = together
    tabs = [chromium.open(f"{server.base}/page") for _ in range(2)]
    runs = [tab.begin(answering(server.invite(token=token), value, ledger)) for tab, value in zip(tabs, (0, 100))]
    receipts = [tab.end(run) for tab, run in zip(tabs, runs)]
    for tab in tabs:
        tab.close()
    return receipts, set(server.bits[token])


def test_two_tabs_at_once_agree_on_one_bit(server, chromium):
    for _ in range(8):
        with PageServer(server.campaign) as own:
            receipts, arrived = both_tabs(own, chromium)
            assert {receipt["bit"] for receipt in receipts} == arrived
            assert len(arrived) == 1


def test_two_tabs_with_a_ledger_each_are_noticed(server, chromium):
    """The twin: were the ledger kept in the tab, there would be two bits."""
    assert both_tabs(server, chromium, MEMORY)[1] == {0, 1}


# -- killed on the way --------------------------------------------------------------------------------------

# What is done to the page so that it stops for good at a step; `stopped` tells the server.
STOP = """
const stopped = () => { const call = new XMLHttpRequest(); call.open("GET", "/stopped", false); call.send(); };
const never = new Promise(() => {});
const { prepare, advance } = IndexedDbLedger.prototype;
const stops = {
  // The coin is thrown, and nothing is written yet: the engine stands still inside the transaction.
  thrown() {
    const bare = crypto.getRandomValues.bind(crypto);
    crypto.getRandomValues = (into) => { const drawn = bare(into); stopped(); for (;;); return drawn; };
  },
  // The bit is written down, and not yet marked as one that may leave.
  drawn() {
    IndexedDbLedger.prototype.prepare = async function stop(...args) {
      await prepare.apply(this, args); stopped(); await never;
    };
  },
  // It is marked as sent, and no byte of it has left.
  marked() {
    IndexedDbLedger.prototype.advance = async function stop(...args) {
      await advance.apply(this, args); stopped(); await never;
    };
  },
  // The server has it and has said so, and that is not yet written down.
  counted() {
    IndexedDbLedger.prototype.advance = async function stop(answer, event) {
      if (event === "ack") { stopped(); await never; }
      return advance.call(this, answer, event);
    };
  },
};
"""
# `sending` and `unanswered` are stopped by the server: it has the report and does not answer; it counted it or not.
STEPS = ["asking", "thrown", "drawn", "marked", "sending", "unanswered", "counted"]


def stop_at(server, tab, invite: str, step: str) -> None:
    """Let the page answer about 0 and stand still at this step."""
    reached = threading.Event()

    def reach(request):
        reached.set()
        return reply(200, b"{}")

    def hang(request):
        if step == "unanswered":
            server.keep(request)
        reached.set()
        return lambda sock: time.sleep(3)

    server.on["stopped"] = reach
    if step in ("asking", "sending", "unanswered"):
        server.on["query" if step == "asking" else "reports"] = hang
    arm = STOP + (f"stops.{step}();" if step in ("thrown", "drawn", "marked", "counted") else "")
    tab.begin(DEVICE + arm + f"return new Device(policy, {{ patience }}).answer({json.dumps(invite)}, 0);")
    assert reached.wait(30), step
    server.on.clear()


def expected(step: str) -> int:
    """Before the bit was written it is drawn for the second value, 100; from then on it stays that of the first."""
    return 0 if step in ("asking", "thrown") else 1


@pytest.mark.parametrize("step", STEPS)
def test_a_tab_killed_at_any_step_leaves_one_bit(server, chromium, step):
    tab = chromium.open(f"{server.base}/page")
    token = new_token()
    stop_at(server, tab, server.invite(token=token), step)
    chromium.kill_renderers()
    receipt = chromium.open(f"{server.base}/page").run(answering(server.invite(token=token), 100))
    assert receipt["bit"] == expected(step)
    assert set(server.bits[token]) == {receipt["bit"]}
    assert receipt["status"] == ("already counted" if step in ("unanswered", "counted") else "counted")


@pytest.mark.parametrize("step", ["thrown", "drawn", "marked", "unanswered"])
def test_a_browser_killed_at_any_step_and_started_again_leaves_one_bit(server, tmp_path, step):
    """SIGKILL to all its processes: what was written before is there again, and nothing else."""
    browser = Chromium(tmp_path / "profile").start()
    try:
        token = new_token()
        stop_at(server, browser.open(f"{server.base}/page"), server.invite(token=token), step)
        browser.kill()
        browser.start()
        receipt = browser.open(f"{server.base}/page").run(answering(server.invite(token=token), 100))
        assert receipt["bit"] == expected(step)
        assert set(server.bits[token]) == {receipt["bit"]}
    finally:
        browser.kill()


def test_a_ledger_that_writes_too_late_is_noticed(server, chromium):
    """The twin: with a ledger that forgets, the kill gives a second bit."""
    tab = chromium.open(f"{server.base}/page")
    token = new_token()
    reached = threading.Event()

    def hang(request):
        server.keep(request)
        reached.set()
        return lambda sock: time.sleep(3)

    server.on["reports"] = hang
    tab.begin(answering(server.invite(token=token), 0, MEMORY))
    assert reached.wait(30)
    server.on.clear()
    chromium.kill_renderers()
    chromium.open(f"{server.base}/page").run(answering(server.invite(token=token), 100, MEMORY))
    assert set(server.bits[token]) == {0, 1}

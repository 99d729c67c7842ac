"""The Python device's own tests of shuffled campaigns, honest and hostile, against the device in Node; and vectors.

The ledgers it leaves behind are read by the Python device: both keep one format.
"""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from loopback import HASTY
from nodejs import JS, JsDevice, evaluate, run_node
from test_shuffled import *  # noqa: F403
from test_shuffled import DELTA, EPSILON, TRUST

from privquant.device import Device, Ledger, Policy, Rule, ShuffleRule
from privquant.device import ledger_format as records
from privquant.device.consent import policy_form
from privquant.domain import Integers
from privquant.wire import SEALED_BYTES, SealKey, opener

VECTORS = json.loads((Path(__file__).parents[2] / "docs" / "vectors" / "shuffle.json").read_text())

# These are about Python's own modules.
del test_the_rounds_of_these_tests_keep_their_promise_and_hardly_more  # noqa: F821
del test_spending_units  # noqa: F821
del test_the_page_has_every_refusal  # noqa: F821


class Shuffled(JsDevice):
    def answer(self, invite, value):
        receipt = super().answer(invite, value)
        if hasattr(receipt, "shuffled"):
            receipt.shuffled = SimpleNamespace(**receipt.shuffled)
        return receipt


@pytest.fixture
def device(worker, ledger):
    def make(path=None, patience=HASTY, trust=None, **changes):
        rule = {"domain": Integers(0, 100), "max_epsilon": EPSILON, **changes}
        rule["domain"] = policy_form(rule["domain"])
        if trust is not False:
            rule["shuffle"] = TRUST | (trust or {})
        return Shuffled(worker, {"version": 1, "measurements": {"steps": rule}}, path or ledger, patience, None)

    return make


def test_python_resends_what_node_drew(server, device, ledger):
    """One ledger: the same sealed bytes, whichever device sends them."""
    from loopback import ONCE, reset

    invite = server.invite()
    server.on["reports"] = lambda request: (server.keep(request), reset())[1]
    with pytest.raises(TryLater):  # noqa: F405
        device(patience=ONCE).answer(invite, 0)
    del server.on["reports"]
    rule = Rule(Integers(0, 100), EPSILON, shuffle=ShuffleRule(**TRUST))
    assert Device(Policy({"steps": rule}, ledger), patience=HASTY).answer(invite, 100).status == "already accepted"
    (arrived,) = server.sealed.values()
    assert len(set(arrived)) == 1
    before = ledger.read_bytes()
    assert device().answer(invite, 100).status == "answered before"
    assert ledger.read_bytes() == before


def test_node_resends_what_python_drew(server, device, ledger):
    from loopback import ONCE, reset

    invite = server.invite()
    server.on["reports"] = lambda request: (server.keep(request), reset())[1]
    rule = Rule(Integers(0, 100), EPSILON, shuffle=ShuffleRule(**TRUST))
    with pytest.raises(TryLater):  # noqa: F405
        Device(Policy({"steps": rule}, ledger), patience=ONCE).answer(invite, 0)
    del server.on["reports"]
    assert device().answer(invite, 100).status == "already accepted"
    (arrived,) = server.sealed.values()
    assert len(set(arrived)) == 1
    assert Ledger(ledger).answers("steps")[0].shuffled.round == 1


def test_every_vector():
    """Envelope, announcements, infos and sealed bytes; what it seals Python opens."""
    key = SealKey.from_wire(json.loads(VECTORS["envelope"])["manifest"]["trust"]["seal"])
    found = evaluate(
        f"""
        const {{ openEnvelope }} = await import(`${{js}}/manifest.js`);
        const {{ parseRoundAnswer }} = await import(`${{js}}/shuffle-terms.js`);
        const {{ reportInfo }} = await import(`${{js}}/shuffled.js`);
        const {{ reportRequest }} = await import(`${{js}}/exchange.js`);
        const {{ keepsShuffled }} = await import(`${{js}}/shuffle-check.js`);
        const {{ ascii, fingerprint, fromHex, toBase64, toHex }} = await import(`${{js}}/form.js`);
        const {{ seal }} = await import(`${{js}}/hpke.js`);
        const v = {json.dumps(VECTORS)};
        const issuer = JSON.parse(v.envelope).manifest.issuer;
        const anchor = {{ campaignId: v.campaign, keyFingerprint: await fingerprint(issuer) }};
        const manifest = await openEnvelope(ascii(v.envelope), anchor);
        const rounds = [];
        for (const [k, {{ envelope }}] of v.announcements.entries()) {{
          const before = v.announcements.slice(0, k).map((each) => JSON.parse(each.envelope).announcement);
          const earlier = before.map((each) => each.threshold);
          const answer = JSON.stringify({{ announcement: JSON.parse(envelope), earlier }});
          const {{ round, thresholds }} = await parseRoundAnswer(ascii(answer), manifest);
          rounds.push([round, thresholds.map(String)]);
        }}
        async function pairOf(row) {{
          const wrapped = fromHex("302e020100300506032b656e04220420" + row.ephemeral_private_key);
          const privateKey =
            await crypto.subtle.importKey("pkcs8", wrapped, {{ name: "X25519" }}, false, ["deriveBits"]);
          const raw = fromHex(row.sealed.slice(0, 64));
          const publicKey = await crypto.subtle.importKey("raw", raw, {{ name: "X25519" }}, true, []);
          return {{ privateKey, publicKey }};
        }}
        const sealed = [];
        for (const row of v.sealed) {{
          const info = reportInfo(v.campaign, row.round, BigInt(row.threshold), BigInt(row.coin));
          const none = new Uint8Array(0);
          const fixed = await seal(manifest.shuffle.seal, info, none, Uint8Array.of(row.bit), await pairOf(row));
          const fresh = await seal(manifest.shuffle.seal, info, none, Uint8Array.of(row.bit));
          sealed.push([toHex(info), toHex(fixed), toHex(fresh)]);
        }}
        const report = {{ token: "A".repeat(22), round: 0n, sealed: toBase64(fromHex(v.sealed[0].sealed)) }};
        const kept = v.accounting.map((row) => keepsShuffled({{ ...row, coin: BigInt(row.coin) }}));
        console.log(JSON.stringify({{
          coins: [String(manifest.flipThreshold), ...manifest.shuffle.rounds.map((row) => String(row.coin))],
          key: toHex(manifest.shuffle.seal), rounds, sealed, kept,
          report: new TextDecoder().decode(reportRequest(report)),
        }}));
        """
    )
    coins = [row["coin"] for row in json.loads(VECTORS["envelope"])["manifest"]["trust"]["rounds"]]
    assert found["coins"] == [min(coins, key=int), *coins]
    assert found["key"] == key.public_key.hex()
    thresholds = [json.loads(each["envelope"])["announcement"]["threshold"] for each in VECTORS["announcements"]]
    assert found["rounds"] == [[k, thresholds[: k + 1]] for k in range(len(thresholds))]
    assert found["report"] == VECTORS["report"]
    assert found["kept"] == [row["keeps"] for row in VECTORS["accounting"]]
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = X25519PrivateKey.from_private_bytes(bytes.fromhex(VECTORS["keys"]["seal"]))
    for (info, fixed, fresh), row in zip(found["sealed"], VECTORS["sealed"], strict=True):
        assert (info, fixed) == (row["info"], row["sealed"])
        assert len(fresh) == 2 * SEALED_BYTES
        assert opener(private, bytes.fromhex(info))(bytes.fromhex(fresh)) == row["bit"]


def test_the_ledger_of_the_vectors_is_read_and_written_alike():
    found = evaluate(
        f"""
        const {{ readLedger }} = await import(`${{js}}/ledger-format.js`);
        const {{ ascii }} = await import(`${{js}}/form.js`);
        const whole = {json.dumps(VECTORS["ledger"])};
        const book = await readLedger(ascii(whole));
        const [answer] = book.all();
        const lines = whole.split("\\n");
        let again = lines[0] + "\\n";
        const next = async (make) => {{
          again += new TextDecoder().decode(await make(await readLedger(ascii(again))));
        }};
        await next((each) => each.appendAnnounced(answer.campaign, 0, answer.threshold));
        for (const event of ["draw", "send", "ack"]) await next((each) => each.append(event, answer));
        const seen = [...book.announced].map(([campaign, rounds]) => [campaign, [...rounds].map(String)]);
        const shown = Object.fromEntries(Object.entries(answer).map(([name, value]) => [name, String(value)]));
        console.log(JSON.stringify({{ same: again === whole, seen, shown }}));
        """
    )
    assert found["same"]
    (answer,) = records.read(VECTORS["ledger"].encode()).answers["commute-minutes"].values()
    assert found["seen"] == [[VECTORS["campaign"], [f"0,{answer.threshold}"]]]
    more = answer.shuffled
    assert found["shown"] == {
        "measurement": "commute-minutes", "campaign": VECTORS["campaign"], "state": "acked", "bit": "1",
        "coin": str(answer.coin), "threshold": str(answer.threshold), "token": answer.token, "round": "0",
        "batch": str(more.batch), "delta": str(more.delta), "epsilon": str(more.epsilon), "sealed": more.sealed,
        "shuffler": more.shuffler,
    }  # fmt: skip


def test_the_command_tells_of_a_shuffled_answer(server, tmp_path):
    policy = tmp_path / "policy.json"
    rule = {"domain": {"kind": "integers", "low": 0, "high": 100}, "max_epsilon": 1, "shuffle": TRUST}
    policy.write_text(json.dumps({"version": 1, "ledger": "ledger", "measurements": {"steps": rule}}))
    invite = server.invite()
    done = run_node(JS / "bin" / "privquant-device.js", "answer", invite, "30", "--policy", policy)
    assert done.returncode == 0, done.stderr
    assert "sealed to the issuer, in round 1" in done.stdout
    assert "epsilon 1 of 1, delta 1e-6 of 1e-6, local epsilon 4.9 of 5" in done.stdout
    again = run_node(JS / "bin" / "privquant-device.js", "answer", invite, "--policy", policy, "--json", input="5")
    said = json.loads(again.stdout)
    assert (said["status"], said["round"], said["delta"], said["spent_local_epsilon"]) == (
        "answered before", 1, DELTA, "4.9",
    )  # fmt: skip
    assert "shuffled" not in said

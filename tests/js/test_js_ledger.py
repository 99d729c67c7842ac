"""One ledger for both: Node writes the bytes Python writes, reads what it reads and refuses what it refuses."""

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import threading

import pytest
from loopback import HASTY, ONCE, Server, campaign, reply
from nodejs import HERE, JS, evaluate, node, run_node

from privquant.device import Device, Ledger, LedgerRefused, Patience, Policy, PolicyRefused, Rule, TryLater
from privquant.domain import Integers
from privquant.wire import new_token


def python_device(ledger, **changes) -> Device:
    rule = Rule(**{"domain": Integers(0, 100), "max_epsilon": 1, **changes})
    return Device(Policy({"steps": rule}, ledger), patience=HASTY)


def test_python_and_node_meet_each_others_answers(server, make_device, ledger):
    token = new_token()
    first = python_device(ledger).answer(server.invite(token=token), 30)
    second = make_device().answer(server.invite(token=token), 99)
    assert (second.status, second.bit) == ("answered before", first.bit)
    assert (second.spent, second.lifetime, second.asked) == (first.spent, first.lifetime, first.asked)
    server.publish(nonce="1" * 32)
    with pytest.raises(PolicyRefused) as refusal:
        make_device().answer(server.invite(), 30)
    assert refusal.value.reason == "one-answer"


def test_the_token_of_an_open_link_is_the_same_for_both(server, make_device, ledger):
    """It is made from the ledger's secret: else the second would claim a second place."""
    link = new_token()
    server.on["reports"] = lambda request: reply(503, b"", Retry_After="3600")
    with pytest.raises(TryLater):
        make_device(patience=ONCE).answer(server.invite(link=link), 30)
    del server.on["reports"]
    python_device(ledger).answer(server.invite(link=link), 30)
    assert len(server.claims) == len(server.bits) == 1


def records(path) -> list[dict]:
    return [json.loads(line.partition(" ")[2]) for line in path.read_text().splitlines()]


def test_the_bytes_are_those_of_python_but_for_secret_token_and_bit(server, make_device, tmp_path):
    python_device(tmp_path / "python").answer(server.invite(), 30)
    make_device(tmp_path / "node").answer(server.invite(), 30)
    ours, theirs = records(tmp_path / "node"), records(tmp_path / "python")
    for each in (ours, theirs):
        assert each[0].pop("secret")
        assert each[1].pop("token")
        assert each[1].pop("bit") in (0, 1)
    assert ours == theirs
    assert len((tmp_path / "node").read_bytes()) == len((tmp_path / "python").read_bytes())
    assert stat.S_IMODE(os.stat(tmp_path / "node").st_mode) == 0o600


READ = """
import fs from "node:fs";
const { readLedger } = await import(`${js}/ledger-format.js`);
const { LedgerRefused } = await import(`${js}/refusals.js`);
const found = [];
for (const hex of %s) {
  try {
    const book = await readLedger(new Uint8Array(Buffer.from(hex, "hex")));
    found.push([book.length, book.all().map((answer) => [answer.bit, answer.state])]);
  } catch (error) {
    if (!(error instanceof LedgerRefused)) throw error;
    found.push(error.reason);
  }
}
console.log(JSON.stringify(found));
"""


def python_reads(raw: bytes, place) -> object:
    place.write_bytes(raw)
    try:
        return [[answer.bit, str(answer.state)] for answer in Ledger(place).answers("steps")]
    except LedgerRefused as refusal:
        return refusal.reason


def both_read(raws: list[bytes], place) -> None:
    found = evaluate(READ % json.dumps([raw.hex() for raw in raws]))
    for raw, ours in zip(raws, found, strict=True):
        assert (ours if isinstance(ours, str) else ours[1]) == python_reads(raw, place), raw[-80:]


def test_a_ledger_cut_at_any_byte_is_read_as_python_reads_it(server, make_device, ledger, tmp_path):
    make_device().answer(server.invite(), 30)
    whole = ledger.read_bytes()
    both_read([whole[:length] for length in range(len(whole) + 1)], tmp_path / "cut")


def test_a_ledger_changed_at_any_byte_is_refused(server, make_device, ledger, tmp_path):
    make_device().answer(server.invite(), 30)
    whole = ledger.read_bytes()
    changed = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    both_read(changed, tmp_path / "changed")
    found = evaluate(READ % json.dumps([raw.hex() for raw in changed]))
    # A change in the last line may make it one that was cut short; before it there is no such excuse.
    assert {each for each in found if isinstance(each, str)} == {"ledger-corrupt"}
    last = whole.rstrip(b"\n").rindex(b"\n")
    assert all(isinstance(each, str) for each in found[:last])


FOREIGN = [b"hello\n", b"hello", b"\0" * 40, b"a" * 64 + b" {}\n", b"a" * 64 + b" x", b"\n", b"ab", b"{}"]


def test_a_file_that_is_no_ledger_is_judged_as_python_judges_it(tmp_path):
    both_read(FOREIGN, tmp_path / "foreign")


def test_a_newer_version_is_refused(server, make_device, ledger):
    record = json.dumps({"file": "privquant ledger", "secret": "0" * 64, "version": 2}, separators=(",", ":"))
    mark = hashlib.sha256(f"{'0' * 64} {record}".encode()).hexdigest()
    ledger.write_text(f"{mark} {record}\n")
    with pytest.raises(LedgerRefused) as refusal:
        make_device().answer(server.invite(), 30)
    assert refusal.value.reason == "ledger-version"
    assert not server.requests


def test_a_prepared_bit_stays_here_when_the_policy_was_tightened(server, make_device, ledger):
    server.on["reports"] = lambda request: reply(503, b"", Retry_After="3600")
    token = new_token()
    with pytest.raises(TryLater):
        make_device(patience=ONCE).answer(server.invite(token=token), 30)
    # Without its last record the ledger is that of a device killed after the draw.
    *kept, _sent = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(kept))
    assert Ledger(ledger).answers("steps")[0].state == "prepared"
    seen = len(server.requests)
    for changes, reason in (({"max_epsilon": 0.5}, "epsilon-per-answer"), ({"domain": Integers(0, 50)}, "domain")):
        with pytest.raises(PolicyRefused) as refusal:
            make_device(**changes).answer(server.invite(token=token), 30)
        assert refusal.value.reason == reason
    assert len(server.requests) == seen
    del server.on["reports"]
    assert make_device().answer(server.invite(token=token), 30).status == "counted"


@pytest.mark.parametrize("how", ["directory", "missing directory", "pipe", "device"])
def test_a_ledger_that_is_no_file_is_refused(server, make_device, tmp_path, how):
    place = tmp_path / "place"
    if how == "directory":
        place.mkdir()
    elif how == "pipe":
        os.mkfifo(place)
    elif how == "device":
        place.symlink_to("/dev/full")
    else:
        place = place / "ledger"
    with pytest.raises(LedgerRefused) as refusal:
        make_device(place).answer(server.invite(), 30)
    assert refusal.value.reason == "ledger-unreadable"
    assert not server.requests


# -- the lock -----------------------------------------------------------------------------------------------


def test_node_waits_for_a_lock_that_python_holds(server, make_device, ledger):
    ledger.touch(mode=0o600)
    found = []
    with ledger.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        asking = threading.Thread(target=lambda: found.append(make_device().answer(server.invite(), 30)))
        asking.start()
        asking.join(0.5)
        assert asking.is_alive()
        assert not server.requests
    asking.join(20)
    assert found[0].status == "counted"


def lock_code(ledger, patience: float) -> str:
    return f"""
    const {{ FileLedger }} = await import(`${{js}}/ledger-file.js`);
    let found;
    try {{ found = await new FileLedger({json.dumps(str(ledger))}, {{ patience: {patience} }}).answers("steps"); }}
    catch (error) {{ found = error.reason; }}
    console.log(JSON.stringify(found));
    """


def test_a_lock_that_is_never_free_is_given_up(ledger):
    with ledger.open("w+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert evaluate(lock_code(ledger, 0.2)) == "ledger-busy"


@pytest.mark.parametrize("programs", [["flock"], ["perl"], []])
def test_whichever_program_locks_the_lock_is_the_same(ledger, tmp_path, monkeypatch, programs):
    """With neither there is no lock, and without a lock no answer."""
    node()  # found before the path is taken away
    for name in programs:
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with ledger.open("w+b") as held:
        assert evaluate(lock_code(ledger, 0.2)) == ([] if programs else "ledger-unreadable")
        fcntl.flock(held, fcntl.LOCK_EX)
        assert evaluate(lock_code(ledger, 0.2)) == ("ledger-busy" if programs else "ledger-unreadable")


def test_a_python_and_two_nodes_at_once_agree_on_one_bit(make_device, ledger, tmp_path):
    """Ten rounds, each on a fresh ledger: three answers to one invite at the same time, two of them by Node."""
    policy = tmp_path / "policy.json"
    rule = {"domain": {"kind": "integers", "low": 0, "high": 100}, "max_epsilon": 1}
    policy.write_text(json.dumps({"version": 1, "measurements": {"steps": rule}}))
    command = [node(), str(JS / "bin/privquant-device.js"), "answer"]
    for number in range(10):
        place = tmp_path / f"ledger {number}"
        with Server(campaign()) as server:
            token = new_token()
            invite = server.invite(token=token)
            options = ["--policy", str(policy), "--ledger", str(place)]
            nodes = [subprocess.Popen([*command, invite, value, *options], stdout=-3) for value in ("0", "100")]
            python_device(place).answer(invite, 50)
            assert [each.wait(30) for each in nodes] == [0, 0]
            assert len(set(server.bits[token])) == 1
            assert len(Ledger(place).answers("steps")) == 1


# -- a power cut takes what was not synced ------------------------------------------------------------------


def durable_when_sent(server, ledger, mode: str) -> object:
    """What a power cut would leave of the ledger at the moment the report leaves: its states, or None."""
    done = run_node(HERE / "power_cut.mjs", mode, ledger, server.invite())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_before_a_report_leaves_its_bit_survives_a_power_cut(server, ledger):
    assert durable_when_sent(server, ledger, "sync") == ["sent"]


def test_a_ledger_that_does_not_sync_is_noticed(server, ledger):
    assert durable_when_sent(server, ledger, "forget") is None


# -- patience -----------------------------------------------------------------------------------------------


def test_pauses_are_those_of_python():
    ours = evaluate(
        """
        const { Patience } = await import(`${js}/retries.js`);
        const patience = new Patience({ total: 100, request: 1, firstPause: 0.5, longestPause: 30 });
        const chances = [0, 0.25, 1];
        const pauses = [1, 2, 3, 6, 7, 1000].flatMap((n) => chances.map((chance) => patience.pause(n, chance)));
        const bad = [0, -1, NaN, Infinity, "5", true].filter((total) => {
          try { new Patience({ total }); return true; } catch { return false; }
        });
        console.log(JSON.stringify({ pauses, bad }));
        """
    )
    patience = Patience(total=100, request=1, first_pause=0.5, longest_pause=30)
    assert ours["pauses"] == [patience.pause(n, chance) for n in (1, 2, 3, 6, 7, 1000) for chance in (0, 0.25, 1)]
    assert ours["bad"] == []

"""`privquant-device answer` as a shell or cron sees it: real processes, exit codes, one line."""

import json

import pytest
from loopback import Server, campaign, reply
from nodejs import JS, run_node

from privquant.domain import Integers
from privquant.wire import new_token, problem_body

POLICY = {
    "version": 1,
    "ledger": "ledger",
    "measurements": {"steps": {"domain": {"kind": "integers", "low": -100, "high": 100}, "max_epsilon": 1}},
}


@pytest.fixture
def server():
    with Server(campaign(domain=Integers(-100, 100))) as running:
        yield running


@pytest.fixture
def command(tmp_path):
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))

    def run(*args: object, stdin: str = "", policy: str = "policy.json"):
        options = ["--policy", tmp_path / policy, "--patience", "5"]
        return run_node(JS / "bin/privquant-device.js", *options, "answer", *args, input=stdin)

    return run


def test_answered_and_answered_before_exit_with_0(server, command, tmp_path):
    token = new_token()
    done = command(server.invite(token=token), "-5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Answered: is steps at most -50? The one bit that left this device is ")
    assert "1-differentially private" in done.stdout
    assert "1 of 1." in done.stdout
    assert done.stderr == ""
    assert (tmp_path / "ledger").exists(), "the policy's path is relative to the policy"
    once_more = command(server.invite(token=token), "7")
    assert once_more.stdout.startswith("Answered before, and no further bit leaves: is steps at most -50?")
    again = command(server.invite(token=token), "-", "--json", stdin="7\n")
    receipt = json.loads(again.stdout)
    assert (again.returncode, receipt["answered"], receipt["status"]) == (0, True, "answered before")
    assert [[receipt["bit"]]] == list(server.bits.values())


def test_a_value_outside_the_domain_is_said_to_be_clamped(server, command):
    done = command(server.invite(), "700")
    assert done.returncode == 0
    assert done.stderr == "privquant: 700 lies outside -100 .. 100 and was taken as 100\n"


def test_refused_exits_with_3(server, command):
    server.publish(measurement="weight")
    done = command(server.invite(), 5)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("privquant: refused (unknown-measurement): ")
    assert done.stderr.count("\n") == 1
    told = json.loads(command(server.invite(), 5, "--json").stdout)
    assert (told["answered"], told["final"], told["reason"]) == (False, True, "unknown-measurement")


@pytest.mark.parametrize(
    ("status", "code", "reason"), [(425, "not-yet", "not-yet"), (429, "too-many-requests", "server-error")]
)
def test_not_now_exits_with_4(server, command, status, code, reason):
    server.on["query"] = lambda request: reply(status, problem_body(code, "later"), Retry_After="3600")
    done = command(server.invite(), 5, "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 4
    assert (told["final"], told["reason"], told["retry_after"]) == (False, reason, 3600)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "Usage"),
        (["INVITE", "1", "2"], "Usage"),
        (["INVITE", "seven"], "one number"),
        (["INVITE", "5", "--frobnicate"], "frobnicate"),
        (["INVITE", "5", "--patience", "never"], "patience"),
    ],
)
def test_wrong_use_exits_with_2(server, command, args, said):
    done = command(*[server.invite() if each == "INVITE" else each for each in args])
    assert done.returncode == 2
    assert said in done.stderr
    assert not server.requests


@pytest.mark.parametrize("policy", ["none.json", "policy.toml"])
def test_a_policy_that_cannot_be_read_exits_with_2(server, command, policy):
    done = command(server.invite(), 5, policy=policy)
    assert done.returncode == 2
    assert "policy" in done.stderr
    assert "JSON" in done.stderr or "ENOENT" in done.stderr

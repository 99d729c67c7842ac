"""`privquant answer` as a shell or cron sees it: real processes, exit codes, one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))

from loopback import Server, campaign, reply

from privquant.wire import new_token, problem_body

POLICY = """
version = 1
[measurements.steps]
domain = {kind = "integers", low = -100, high = 100}
max_epsilon = 1
"""


@pytest.fixture
def server():
    from privquant.domain import Integers

    with Server(campaign(domain=Integers(-100, 100))) as running:
        yield running


@pytest.fixture
def privquant(tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY)

    def run(*args: object, stdin: str = "", policy: str = "policy.toml") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "privquant.cli", "answer", *map(str, args)]
        options = ["--policy", tmp_path / policy, "--ledger", tmp_path / "ledger", "--patience", "5"]
        return subprocess.run(
            [*command, *map(str, options)], input=stdin, capture_output=True, text=True, timeout=60, check=False
        )

    return run


def test_answered_and_answered_before_exit_with_0(server, privquant):
    token = new_token()
    done = privquant(server.invite(token=token), "-5")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Answered: is steps at most -50? The one bit that left this device is ")
    assert "1-differentially private" in done.stdout
    assert "1 of 1." in done.stdout
    assert done.stderr == ""
    once_more = privquant(server.invite(token=token), "7")
    assert once_more.stdout.startswith("Answered before, and no further bit leaves: is steps at most -50?")
    again = privquant(server.invite(token=token), "-", "--json", stdin="7\n")
    assert again.returncode == 0
    receipt = json.loads(again.stdout)
    assert (receipt["answered"], receipt["status"]) == (True, "answered before")
    assert [[receipt["bit"]]] == list(server.bits.values())


def test_a_value_outside_the_domain_is_said_to_be_clamped(server, privquant):
    done = privquant(server.invite(token=new_token()), "700")
    assert done.returncode == 0
    assert done.stderr == "privquant: 700 lies outside -100 .. 100 and was taken as 100\n"


def test_the_value_comes_from_standard_input(server, privquant):
    done = privquant(server.invite(), "--json", stdin=" 12\n")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "counted"


def test_refused_exits_with_3(server, privquant):
    server.publish(measurement="weight")
    done = privquant(server.invite(), 5)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("privquant: refused (unknown-measurement): ")
    assert done.stderr.count("\n") == 1
    form = json.loads(privquant(server.invite(), 5, "--json").stdout)
    assert (form["answered"], form["final"], form["reason"]) == (False, True, "unknown-measurement")


def test_try_later_exits_with_4(server, privquant):
    server.on["query"] = lambda request: reply(425, problem_body("not-yet", "wave 2"), Retry_After="600")
    done = privquant(server.invite(), 5, "--json")
    assert done.returncode == 4
    form = json.loads(done.stdout)
    assert (form["final"], form["reason"], form["retry_after"]) == (False, "not-yet", 600)
    server.on["query"] = lambda request: reply(503, problem_body("campaign-paused", "paused"), Retry_After="600")
    paused = privquant(server.invite(token=new_token()), "5", "--json")
    assert (paused.returncode, json.loads(paused.stdout)["reason"]) == (4, "not-yet")


@pytest.mark.parametrize("value", ["", "many", "nan", "9" * 2000])
def test_what_is_no_value_exits_with_2(server, privquant, value):
    done = privquant(server.invite(), "-", stdin=value)
    assert done.returncode == 2
    assert done.stderr.startswith("privquant: ")
    assert done.stderr.count("\n") == 1
    assert not server.bits


def test_a_policy_that_is_not_there_exits_with_2(server, privquant):
    done = privquant(server.invite(), 5, policy="other.toml")
    assert done.returncode == 2
    assert "cannot be read" in done.stderr


def test_help_says_what_the_exit_codes_mean():
    done = subprocess.run(
        [sys.executable, "-m", "privquant.cli", "answer", "--help"], capture_output=True, text=True, check=True
    )
    text = " ".join(done.stdout.replace("│", " ").split())
    for word in ("3 refused for good", "4 not now", "standard input", "--policy", "--ledger", "cron"):
        assert word in text

"""`privquant policy` and `privquant answer` for a shuffled campaign, as a shell sees them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))

from shuffled_loopback import ShuffleServer

from privquant.device import load_policy, spending
from privquant.privacy.coin import flip_threshold
from privquant.wire import RoundTerms, fingerprint, new_token


@pytest.fixture
def server():
    with ShuffleServer() as running:
        yield running


@pytest.fixture
def privquant(tmp_path):
    def run(*words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "privquant.cli", *map(str, words)],
            cwd=tmp_path,
            env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_the_policy_of_a_shuffled_invite_lets_the_device_answer_it_once(server, privquant, tmp_path):
    invite = server.invite(token=new_token())
    done = privquant("policy", invite, "--yes")
    assert done.returncode == 0, done.stderr
    manifest = server.campaign.manifest
    for word in (
        "sealed so that the issuer alone can read it", manifest.shuffle.address, "1,000 to 5,000 people",
        "epsilon 1 and delta 1e-06", "local epsilon 4.9", "0.739 %", fingerprint(manifest.shuffle.key),
    ):  # fmt: skip
        assert word in done.stdout
    assert [request.what for request in server.requests] == ["manifest"]
    (rule,) = load_policy(tmp_path / "policy.toml").measurements.values()
    trusted = rule.shuffle
    assert (rule.lifetime_units, trusted.lifetime_delta_units) == (spending.UNITS, 10**12)
    assert trusted.lifetime_local_units == spending.cost(manifest.flip_threshold)
    assert trusted.shuffler_key == fingerprint(manifest.shuffle.key)
    answered = privquant("answer", invite, 5)
    assert answered.returncode == 0, answered.stderr
    for word in ("Answered: is steps at most 25?", "sealed to the issuer, in round 1", "(1, 1e-06)-differentially",
                 "epsilon 1 of 1, delta 1e-6 of 1e-6, local epsilon 4.9 of 4.9"):  # fmt: skip
        assert word in answered.stdout
    again = json.loads(privquant("answer", invite, 5, "--json").stdout)
    assert (again["status"], again["round"], again["spent_delta"]) == ("answered before", 1, "1e-6")
    server.publish(nonce="1" * 32)
    assert "refused (one-answer)" in privquant("answer", server.invite(), 5).stderr


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        (("--allow-epsilon", 0.9), "epsilon-per-answer"),
        (("--allow-delta", 1e-7), "delta-per-answer"),
        (("--allow-local-epsilon", 4.5), "local-epsilon-per-answer"),
    ],
)
def test_more_than_is_allowed_is_refused(server, privquant, tmp_path, option, reason):
    done = privquant("policy", server.invite(), "--yes", *option)
    assert (done.returncode, list(tmp_path.iterdir())) == (3, [])
    assert f"refused ({reason})" in done.stderr
    assert option[0] in done.stderr


def test_a_table_that_does_not_keep_its_promise_in_one_round_is_refused(server, privquant, tmp_path):
    rows = list(server.campaign.manifest.shuffle.rounds)
    rows[2] = RoundTerms(100, flip_threshold(3.0))
    server.publish(rounds=tuple(rows))
    done = privquant("policy", server.invite(), "--yes")
    assert (done.returncode, list(tmp_path.iterdir())) == (3, [])
    assert "refused (accounting)" in done.stderr
    assert "round 2" in done.stderr

"""`privquant policy` as a shell sees it: it shows, asks, never overwrites, and lets `answer` answer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "device"))

from loopback import Server, campaign, reply

from privquant.device import load_policy, spending
from privquant.domain import Grid, Integers, LogGrid
from privquant.privacy.coin import flip_threshold
from privquant.wire import fingerprint, new_token


@pytest.fixture
def server():
    with Server(campaign(domain=Integers(-100, 100))) as running:
        yield running


@pytest.fixture
def privquant(tmp_path):
    def run(*words: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "privquant.cli", *map(str, words)],
            cwd=tmp_path,
            env=os.environ | {"XDG_STATE_HOME": str(tmp_path)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def test_it_shows_asks_and_writes_what_lets_the_device_answer_once(server, privquant, tmp_path):
    invite = server.invite(token=new_token())
    done = privquant("policy", invite, stdin="y\n")
    assert done.returncode == 0, done.stderr
    issuer = fingerprint(server.campaign.manifest.issuer)
    for word in (
        *(
            "How many steps, in thousands?",
            "a whole number from -100 to 100",
            "the median",
            "one answer about steps",
        ),
        *("epsilon 1:", "26.9 %", issuer, "Write this to policy.toml?"),
    ):
        assert word in done.stdout
    assert [request.what for request in server.requests] == ["manifest"]
    assert b"#" not in server.requests[0].raw
    (rule,) = load_policy(tmp_path / "policy.toml").measurements.values()
    assert (rule.answers, rule.lifetime_units, rule.issuer_key) == (1, spending.UNITS, issuer)
    answered = privquant("answer", invite, 5)
    assert answered.returncode == 0, answered.stderr
    server.publish(nonce="1" * 32)
    assert "refused (one-answer)" in privquant("answer", server.invite(), 5).stderr


@pytest.mark.parametrize("said", ["n\n", "\n", ""])
def test_who_does_not_say_yes_gets_no_file(server, privquant, tmp_path, said):
    done = privquant("policy", server.invite(), stdin=said)
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_what_is_there_is_never_overwritten(server, privquant, tmp_path, kind):
    place = tmp_path / "policy.toml"
    if kind == "file":
        place.write_text("mine")
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(tmp_path / "elsewhere")
    done = privquant("policy", server.invite(), "--yes")
    assert (done.returncode, done.stdout) == (2, "")
    assert "never overwritten" in done.stderr
    assert server.requests == []
    assert kind != "file" or place.read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()
    other = privquant("policy", server.invite(), "--yes", "--out", "other.toml")
    assert other.returncode == 0, other.stderr


def test_a_file_that_came_to_be_there_while_it_asked_stays(tmp_path):
    from privquant.cli.policy import _write
    from privquant.errors import InvalidInput

    (tmp_path / "p.toml").write_text("mine")
    with pytest.raises(InvalidInput, match="never overwritten"):
        _write(tmp_path / "p.toml", "theirs")
    assert (tmp_path / "p.toml").read_text() == "mine"
    with pytest.raises(InvalidInput, match="cannot be written"):
        _write(tmp_path / "no" / "p.toml", "theirs")


@pytest.mark.parametrize(
    ("epsilon", "words", "code"),
    [
        (2.0, (), 0),
        (2.000001, (), 3),
        (8.0, (), 3),
        (8.0, ("--allow-epsilon", "7.9"), 3),
        (8.0, ("--allow-epsilon", "8"), 0),
        (1.0, ("--allow-epsilon", "0.5"), 3),
        (1.0, ("--allow-epsilon", "0"), 2),
    ],
)
def test_above_epsilon_2_it_has_to_be_told(server, privquant, tmp_path, epsilon, words, code):
    server.publish(epsilon=epsilon, flip_threshold=flip_threshold(epsilon))
    done = privquant("policy", server.invite(), "--yes", *words)
    assert done.returncode == code, done.stderr
    assert (tmp_path / "policy.toml").exists() is (code == 0)
    if code == 3:
        assert done.stdout == ""
        assert done.stderr.startswith("privquant: refused (epsilon-per-answer): ")
        assert f"--allow-epsilon {epsilon!r}" in done.stderr


def test_a_campaign_that_is_not_the_invites_is_refused(server, privquant, tmp_path):
    invite = server.invite()
    server.publish(question="Another question?")
    assert "refused (manifest-forged)" in privquant("policy", invite, "--yes").stderr
    other = campaign(domain=Integers(-100, 100))
    server.on["manifest"] = lambda request: reply(200, other.envelope.replace(b'"signature":"', b'"signature":"00'))
    done = privquant("policy", other.invite(server.base).to_url(), "--yes")
    assert (done.returncode, done.stdout) == (3, "")
    assert "refused (manifest-forged): the campaign is not the one of the invite: the signature" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_plain_http_elsewhere_and_what_is_no_invite_are_refused(server, privquant):
    away = server.invite().replace("127.0.0.1", "ask.example.org")
    done = privquant("policy", away, "--yes")
    assert (done.returncode, done.stderr.partition(": ")[2][:20]) == (3, "refused (insecure): ")
    assert privquant("policy", "https://ask.example.org", "--yes").returncode == 3


def test_a_server_that_is_not_there_is_for_later_and_wrong_use_is_said(server, privquant):
    invite = server.invite().replace(server.base, "http://127.0.0.1:9")
    assert privquant("policy", invite, "--yes", "--patience", "1").returncode == 4
    for out in ("p.json", "no-folder/p.toml"):
        done = privquant("policy", server.invite(), "--yes", "--out", out)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("domain", [LogGrid(1, 1e6, 3000), Grid(range(3000)), Grid([1.0, 2.5])])
def test_every_grid_is_written_whole(server, privquant, tmp_path, domain):
    server.publish(domain=domain)
    server.threshold = 1
    assert privquant("policy", server.invite(), "--yes").returncode == 0
    written = (tmp_path / "policy.toml").read_text()
    assert ("edges" in written) is not isinstance(domain, LogGrid)
    assert len(written) < 300 or not isinstance(domain, LogGrid)
    assert privquant("answer", server.invite(), 5).returncode == 0

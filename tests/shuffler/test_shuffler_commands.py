"""Both operators and a person at their command lines: from the shuffler's key to batches that agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from parties import Parties

from privquant.device import Device, Policy, Rule, ServerRefused, ShuffleRule, Transport
from privquant.domain import Integers

USERS = 140  # rounds of about 10 at a large delta: enough for every step, and quick


@pytest.fixture(scope="module")
def at(parties: Parties):  # type: ignore[no-untyped-def]
    """A command, run in the folder of one of the parties."""

    def run(*words: object, fails: str = "") -> str:
        here = {"PRIVQUANT_TOKEN": parties.scene.token, "PRIVQUANT_SERVER": parties.scene.server.admin_url}
        here |= parties.settings.environment()
        done = subprocess.run(
            [sys.executable, "-m", "privquant.cli", *map(str, words)],
            cwd=parties.folder,
            env=os.environ | here,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode == 0) == (not fails), done.stderr
        if fails:
            assert fails in done.stderr
            return done.stderr
        return done.stdout + done.stderr

    return run


def test_from_the_shufflers_key_to_batches_that_agree(parties: Parties, at) -> None:  # type: ignore[no-untyped-def]
    named = at("shuffler", "key").split()
    assert named[:2] == ["--shuffler", parties.settings.url]
    asked = ("--measurement", "steps", "--question", "How many steps?", "--low", 0, "--high", 255)
    create = ("campaign", "create", *asked, "--users", USERS, "--trust", "shuffle", "--delta", "0.01")
    at(*create, fails="--trust shuffle needs --shuffler")
    at(*create[:-4], "--cap", 3, fails="go with --trust shuffle")
    made = at(*create, *named)
    assert "rounds of" in made
    campaign = next(line for line in made.splitlines() if len(line) == 64)
    (address,) = (line.split("join '")[1].rstrip("'") for line in made.splitlines() if "shuffler join" in line)
    assert campaign in address

    at("shuffler", "join", address[:-3], "--yes", fails="a campaign is named as")
    joined = at("shuffler", "join", address, "--round-minutes", 10, "--yes")
    assert "differentially private if the shuffler is honest" in joined
    assert "local epsilon" in joined
    at("shuffler", "join", address, "--yes", fails="joined before")
    at("campaign", "invites", campaign[:8], 5, "no.csv", fails="issued by its shuffler")
    at("shuffler", "invites", campaign[:8], USERS - 1, "invites.csv")
    at("shuffler", "invites", campaign[:8], USERS, "invites.csv", fails="cannot be made")
    assert "#l=" in at("shuffler", "link", campaign[:8], 5)
    coded, typed = at("shuffler", "link", campaign[:8], 1, "--code").splitlines()
    rule = Rule(Integers(0, 255), max_epsilon=1, shuffle=ShuffleRule(max_local_epsilon=8, max_delta="0.01"))
    guest = Device(Policy({"steps": rule}, parties.folder / "guest"))
    for wrong in (None, "0000-0000"):
        with pytest.raises(ServerRefused, match="open link"):
            guest.answer(coded, 30, code=wrong)
    assert guest.answer(coded, 30, code=typed.removeprefix("code: ").upper()).status == "accepted"

    answer_all(parties, parties.folder / "invites.csv")
    parties.until(lambda: parties.shown(campaign)["heard"] == USERS)
    shown = at("campaign", "show", campaign[:8])
    assert f"{USERS} of {USERS} answered" in shown
    assert "rounds counted" in shown
    assert "local epsilon" in shown
    theirs = at("shuffler", "show", campaign[:8])
    assert f"{USERS} reports taken of {USERS} tokens: {USERS} forwarded, 0 in dropped rounds, 0 waiting" in theirs
    assert "steps" in at("shuffler", "list")
    parties.until(lambda: parties.books(campaign)["forwarded"] == USERS)
    books = parties.folder / "books.json"
    books.write_text(at("shuffler", "show", campaign[:8], "--json"))
    assert json.loads(at("campaign", "verify", campaign[:8], "--against", books))["ok"]
    changed = json.loads(books.read_text())
    changed["rounds"][2]["batch"] = "0" * 64
    books.write_text(json.dumps(changed))
    found = subprocess.run(
        [sys.executable, "-m", "privquant.cli", "campaign", "verify", campaign[:8], "--against", str(books)],
        env=os.environ
        | {"PRIVQUANT_TOKEN": parties.scene.token, "PRIVQUANT_SERVER": parties.scene.server.admin_url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 1
    assert json.loads(found.stdout)["differs_from_shuffler"] == [
        f"round 2: counted with {changed['rounds'][2]['reports']} reports here, forwarded with "
        f"{changed['rounds'][2]['reports']} at the shuffler"
    ]

    at("shuffler", "delete", campaign[:8], "--yes", fails="only a closed campaign")
    assert "closed" in at("shuffler", "close", campaign[:8], "--yes")
    assert "erased" in at("shuffler", "delete", campaign[:8], "--yes")
    at("shuffler", "show", campaign[:8], fails="no campaigns have an id")


def answer_all(parties: Parties, file: Path) -> None:
    """Real devices, each with its own ledger."""
    transport = Transport()
    invites = file.read_text().split()[1:]
    for place, invite in enumerate(invites):
        ledger = parties.folder / f"ledger-{place}"
        rule = Rule(Integers(0, 255), max_epsilon=1, shuffle=ShuffleRule(max_local_epsilon=8, max_delta="0.01"))
        device = Device(Policy({"steps": rule}, ledger), transport=transport)
        receipt = device.answer(invite, place % 256)
        assert receipt.status == "accepted"
        assert device.answer(invite, 0).status == "answered before"
    transport.close()


def test_a_folder_that_is_no_shufflers_is_said_so(at, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    at("shuffler", "list", "--data", tmp_path / "nowhere", fails="there is no shuffler's data in")

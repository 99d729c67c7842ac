"""The commands an operator types, against a real server: serve, operator, campaign, demo; backup and restore."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from fleet import Fleet
from scene import damage

from privquant.cli import main
from privquant.messages import Guarantee
from privquant.server import causes
from privquant.server.keys import KeyFolder
from privquant.server.process import free_port
from privquant.wire import Invite


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def privquant(*arguments: object, **environment: str) -> Done:
    """The command, run in this process: starting Python for each would take most of the test's time."""
    said, warned, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.object(sys, "argv", ["privquant", *map(str, arguments)]),
        redirect_stdout(said),
        redirect_stderr(warned),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(code, said.getvalue(), warned.getvalue())


def out(done: Done) -> str:
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Serve:
    """`privquant serve` on a folder, until the block ends."""

    def __init__(self, data: Path) -> None:
        self.port, admin_port = free_port(), free_port()
        self.public_url, self.url = (f"http://127.0.0.1:{port}" for port in (self.port, admin_port))
        command = [sys.executable, "-m", "privquant.cli", "serve", "--data", str(data)]
        command += ["--port", str(self.port), "--admin-port", str(admin_port)]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def __enter__(self) -> Serve:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(self.url + "/readyz", timeout=5).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise AssertionError("privquant serve did not become ready")

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=30) == 0  # a graceful stop is a success


ASKED = ("--measurement", "age", "--question", "How old are you?", "--users", "50")


def test_a_campaign_from_its_commands_through_backup_and_restore(tmp_path: Path) -> None:
    data = tmp_path / "data"
    token = out(privquant("operator", "add", "ada", "--data", data))
    assert privquant("operator", "add", "ada", "--data", data).returncode == 2
    with Serve(data) as server:
        here = {"PRIVQUANT_TOKEN": token, "PRIVQUANT_SERVER": server.url}
        made = privquant(
            *("campaign", "create", "--measurement", "age", "--question", "How old are you?", "--users", 50),
            *("--low", 0, "--high", 120, "--option", "spread=0.25"),
            **here,
        )
        campaign = out(made)
        unknown = privquant("campaign", "show", "zz", **here)
        assert (unknown.returncode, "no campaign has an id that starts with 'zz'" in unknown.stderr) == (2, True)
        assert privquant("campaign", "show", "", **here).returncode == 2
        stranger = privquant("campaign", "list", **(here | {"PRIVQUANT_TOKEN": "pqo_x"}))
        assert (stranger.returncode, "does not know the token" in stranger.stderr) == (2, True)
        with mock.patch.object(sys, "stdin", io.StringIO("n\n")):
            slip = privquant("campaign", "invites", campaign[:10], 501, tmp_path / "many.csv", **here)
        assert (slip.returncode, (tmp_path / "many.csv").exists()) == (1, False)
        out(privquant("campaign", "invites", campaign[:10], 501, tmp_path / "many.csv", "--yes", **here))
        assert len((tmp_path / "many.csv").read_text().splitlines()) == 502
        out(privquant("campaign", "invites", campaign[:10], 40, tmp_path / "invites.csv", **here))
        assert (tmp_path / "invites.csv").stat().st_mode & 0o077 == 0
        invites = (tmp_path / "invites.csv").read_text().splitlines()[1:]
        tokens = [str(Invite.parse(invite).token) for invite in invites]
        fleet = Fleet("127.0.0.1", server.port, campaign, tokens)
        asyncio.run(fleet.run(8))
        shown = out(privquant("campaign", "show", campaign, **here))
        assert "open, 0 of 50 answered (until it is closed, numbers stay at least 32 answers behind)" in shown
        assert json.loads(out(privquant("campaign", "verify", campaign, **here)))["ok"]
        out(privquant("operator", "backup", tmp_path / "backup", "--data", data))
        key = out(privquant("operator", "key", "--data", data))
        rotated = out(privquant("operator", "rotate-key", "--data", data))
        assert rotated not in key
        assert out(privquant("operator", "key", "--data", data)).count("current") == 1
        assert out(privquant("campaign", "pause", campaign, **here)) == "paused"
        astray = privquant("campaign", "list", "--server", server.public_url, **here)
        assert (astray.returncode, "on the server's admin port, by default 8471" in astray.stderr) == (2, True)
        refused = privquant("campaign", "resume", campaign, PRIVQUANT_TOKEN="wrong", PRIVQUANT_SERVER=server.url)
        assert (refused.returncode, "operator" in refused.stderr) == (2, True)
        assert "pause" in out(privquant("operator", "audit", "--data", data))
    shutil.rmtree(data)
    out(privquant("operator", "restore", tmp_path / "backup", "--data", data))
    with Serve(data) as server:
        here = {"PRIVQUANT_TOKEN": token, "PRIVQUANT_SERVER": server.url}
        restored = json.loads(out(privquant("campaign", "show", campaign, "--json", **here)))
        assert (restored["state"], restored["asked_not_answered"]) == ("open", 40)
        verified = json.loads(out(privquant("campaign", "verify", campaign, **here)))
        assert (verified["ok"], verified["reports"], verified["estimates"]) == (True, None, None)
        assert campaign[:16] in out(privquant("campaign", "list", **here))
        (listed,) = json.loads(out(privquant("campaign", "list", "--json", **here)))
        assert {
            name: restored[name] for name in ("id", "state", "heard", "planned_users")
        }.items() <= listed.items()
        promised = restored["estimates"][0]["guarantee"]
        assert (promised["trust"], promised["epsilon"]) == ("local", restored["epsilon"])
        assert str(Guarantee.from_dict(promised)) == restored["privacy"]
        early = privquant("campaign", "delete", campaign, "--yes", **here)
        assert (early.returncode, "close it first" in early.stderr) == (2, True)
        out(privquant("campaign", "close", campaign, "--yes", **here))
        assert "closed, 40 of 50 answered\n" in out(privquant("campaign", "show", campaign, **here))
        assert json.loads(out(privquant("campaign", "verify", campaign, **here)))["reports"] == 40
        late = privquant("campaign", "invites", campaign, 5, tmp_path / "late.csv", **here)
        assert (late.returncode, "the campaign is closed" in late.stderr) == (2, True)
        assert not (tmp_path / "late.csv").exists()
        deleted = privquant("campaign", "delete", campaign, "--yes", **here)
        assert (deleted.returncode, deleted.stderr.startswith("erased: no byte of its rows is left")) == (0, True)
        assert out(privquant("campaign", "list", **here)) == ""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--data", "{file}"), "cannot be the data folder"),
        (
            ("--data", "{folder}", "--port", "{taken}"),
            "cannot listen on 127.0.0.1, port {taken}: Address already in use",
        ),
        (("--data", "{folder}", "--host", "300.1.1.1"), "cannot listen on 300.1.1.1, port 8470"),
        (
            ("--data", "{folder}", "--port", "{free}", "--admin-port", "{taken}"),
            "cannot listen on 127.0.0.1, port {taken}: Address already in use",
        ),
        (("--data", "{folder}", "--admin-port", "8470"), "port and admin_port must differ, both are 8470"),
        (("--data", "{folder}", "--public-url", "ftp://x"), "must start with https:// or http://, got 'ftp://x'"),
        (
            ("--data", "{folder}", "--database", "postgresql://me:word@127.0.0.1:{free}/none"),
            "the database at 127.0.0.1 does not let this server in",
        ),
    ],
)
def test_a_server_that_cannot_start_says_why_in_one_line(
    arguments: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with socket.create_server(("127.0.0.1", 0)) as busy:
        names = {"file": tmp_path / "file", "folder": tmp_path / "folder", "free": free_port()}
        names["taken"] = busy.getsockname()[1]
        done = privquant("serve", *(part.format(**names) for part in arguments))
    lines = [line for line in done.stderr.splitlines() if line.startswith("privquant: ")]
    assert (done.returncode, len(lines)) == (2, 1)
    assert reason.format(**names) in lines[0]
    assert "word" not in done.stderr


def test_a_server_that_takes_its_time_is_not_waited_for_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's process is stopped for a second. The twin answers at once, and nothing is said of it."""
    token = out(privquant("operator", "add", "ada", "--data", tmp_path))
    with Serve(tmp_path) as server:
        here = {"PRIVQUANT_TOKEN": token, "PRIVQUANT_SERVER": server.url}
        assert "waiting" not in privquant("campaign", "list", **here).stderr
        monkeypatch.setattr("privquant.cli.campaign._SOON", 0.2)
        server.process.send_signal(signal.SIGSTOP)
        go_on = threading.Timer(1.0, server.process.send_signal, [signal.SIGCONT])
        go_on.start()
        listed = privquant("campaign", "list", **here)
        go_on.join()
        assert listed.returncode == 0
        assert listed.stderr.count(f"waiting for {server.url}") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("operator", "restore", "nowhere"), "not a backup"),
        (("operator", "backup", "x", "--data", "nowhere"), "no store"),
        (("operator", "backup", "x", "--database", "postgresql://h/d"), "pg_dump"),
        (("operator", "list", "--data", "nowhere"), "no store in"),
        (("operator", "key", "--data", "nowhere"), "no keys in"),
        (("serve", "--workers", "2"), "postgresql"),
        (("serve", "--host", "0.0.0.0"), "--public-url https://ask.example.org"),
        (("serve", "--host", "::"), "--public-url https://ask.example.org"),
        (("operator", "list", "--database", "postgresql://nobody@127.0.0.1:1/none"), "does not answer"),
        (("operator", "key", "--data", "a-file/x"), "no keys in"),
        (
            ("campaign", "create", *ASKED, "--low", "0", "--high", "inf"),
            "--high must be a finite number, got 'inf'",
        ),
        (("campaign", "create", *ASKED, "--low", "nan", "--high", "9"), "--low must be a finite number, got 'nan'"),
        (("campaign", "create", *ASKED, "--low", "1", "--high", "9", "--log"), "--log goes with --bins"),
        (
            ("campaign", "create", *ASKED, "--low", "1", "--high", "9", "--waves", "24"),
            "--waves 24 needs --wave-seconds",
        ),
        (
            ("campaign", "create", *ASKED, "--low", "1", "--high", "9", "--wave-seconds", "60"),
            "--wave-seconds 60 goes with --waves",
        ),
        (("demo", "--epsilon", "nan"), "epsilon must be a finite number above 0"),
        (("campaign", "list"), "PRIVQUANT_TOKEN"),
        (("demo", "--devices", "0"), "devices"),
    ],
)
def test_mistakes_end_in_one_plain_line(
    arguments: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVQUANT_TOKEN", raising=False)
    done = privquant(*arguments)
    assert done.returncode == 2
    assert reason in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_damaged_store_is_neither_copied_nor_restored_nor_read(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    out(privquant("operator", "add", "ada", "--data", data))
    privquant("operator", "key", "--data", data)
    KeyFolder(data / "keys")
    out(privquant("operator", "backup", copy, "--data", data))
    damage(data / "store.sqlite3", "operator")
    again = privquant("operator", "backup", tmp_path / "again", "--data", data)
    assert (again.returncode, "the store is not copied" in again.stderr) == (2, True)
    assert not (tmp_path / "again").exists()
    listed = privquant("operator", "list", "--data", data)
    assert (listed.returncode, causes.DAMAGED in listed.stderr) == (2, True)
    damage(copy / "store.sqlite3", "audit")
    restored = privquant("operator", "restore", copy, "--data", tmp_path / "new")
    assert (restored.returncode, "nothing is restored" in restored.stderr) == (2, True)
    assert not (tmp_path / "new").exists()
    for done in (again, listed, restored):
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_folder_nobody_may_write_to_is_one_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("no folder")
    done = privquant("operator", "add", "ada", "--data", data)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)


def test_the_demo_counts_every_device_exactly_once() -> None:
    done = privquant("demo", "--devices", 300, "--json")
    found = json.loads(out(done))
    assert found["exact"]
    assert found["verified"]
    assert (found["acknowledged"], found["counted"], found["failed"]) == (300, 300, 0)
    assert found["restart_seconds"] > 0  # it was killed on the way


@pytest.mark.full
def test_the_whole_demo_takes_less_than_a_minute() -> None:
    began = time.perf_counter()
    found = json.loads(out(privquant("demo", "--json")))
    print(found, time.perf_counter() - began, file=sys.stderr)
    assert found["exact"]
    assert found["rank_error"] < 0.08  # five standard deviations at 5,000 users and epsilon 1

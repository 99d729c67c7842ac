"""What each party has after a campaign: the shuffler no bit, the aggregator's side no token, address or order."""

from __future__ import annotations

import ast
import asyncio
import base64
import gzip
import json
import random
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from parties import Parties, Sealing
from wiretap import Wiretap

import privquant.shuffler
from privquant import wire
from privquant.server.keys import KeyFolder, seal_key
from privquant.server.sqlite_file import connect

MARK = "Mozilla/5.0 privquant-test-agent"
ADDRESS = "203.0.113.77"
# a report in the clear, with what is around it; the field's name alone is in the program's text, which a process
# reads where no bytecode is kept
REPORT = re.compile(rb'.{0,60}"bit": ?[01].{0,60}', re.DOTALL)


class After:
    """A campaign that went through, with everything that can be looked at afterwards."""

    def __init__(self, folder: Path) -> None:
        self.parties = Parties(folder)
        self.parties.start()
        self.tap = Wiretap(self.parties.scene.settings.port)
        self.parties.aggregator = self.tap.url
        self.manifest = self.parties.campaign()
        count = self.manifest.shuffle.rounds[0].batch + self.manifest.shuffle.rounds[1].batch + 20
        headers = f"user-agent: {MARK}\r\nx-forwarded-for: {ADDRESS}\r\n"
        tokens = self.parties.tokens(self.manifest.id, count)
        self.fleet = Sealing(self.parties, self.manifest, tokens, headers=headers)
        asyncio.run(self.fleet.run(16))
        self.parties.until(lambda: self.parties.shown(self.manifest.id)["shuffle"]["counted_rounds"] == 2)
        self.core = core_of(self.parties.shuffler.pid, folder)
        self.shuffler_files = files_of(self.parties.settings.data)
        self.aggregator_files = files_of(self.parties.scene.settings.data)
        self.shuffler_log = self.parties.shuffler.log.read_bytes()
        self.aggregator_log = self.parties.scene.log.read_bytes()
        self.forwarded = b"".join(head + body for _, head, body in self.tap.requests)

    def close(self) -> None:
        self.tap.close()
        self.parties.kill()


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def core_of(pid: int, folder: Path) -> bytes:
    """A core dump of the running process, where gdb is there to write one, and all its pages."""
    if shutil.which("gcore"):
        subprocess.run(["gcore", "-o", folder / "core", str(pid)], capture_output=True, timeout=120, check=False)
    dumped = [path.read_bytes() for path in folder.glob("core.*")]
    assert all(each.startswith(b"\x7fELF") for each in dumped)
    return b"".join([*dumped, memory_of(pid)])


def memory_of(pid: int) -> bytes:
    """What a core dump has: every readable and writable page of the process."""
    found = []
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            where, rights = line.split()[:2]
            if rights.startswith("rw") and "[v" not in line:
                first, last = (int(each, 16) for each in where.split("-"))
                memory.seek(first)
                try:
                    found.append(memory.read(last - first))
                except OSError:
                    continue
    return b"".join(found)


def spellings(data: bytes) -> list[bytes]:
    """Every form in which bytes might have been left lying about."""
    plain = base64.urlsafe_b64encode(data).rstrip(b"=")
    return [data, data.hex().encode(), plain, base64.b64encode(data)]


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Iterator[After]:
    made = After(tmp_path_factory.mktemp("after"))
    yield made
    made.close()


def test_the_shuffler_never_has_the_key_that_opens(after: After) -> None:
    """Nor in its database, logs or memory; that the right memory is looked at, its own public key in it shows."""
    keys = KeyFolder(after.parties.scene.settings.keys)
    private = seal_key(keys, after.manifest.issuer, after.manifest.nonce).private_bytes_raw()
    everything = b"".join((after.core, after.shuffler_log, *after.shuffler_files.values()))
    assert not any(form in everything for form in spellings(private))
    own = bytes.fromhex(wire.public_key_of(after.parties.keys.current))
    assert own.hex().encode() in after.core


def test_no_report_has_a_form_in_the_clear(after: After) -> None:
    """No place where a bit stands: no such field in what devices send, and no plaintext report anywhere."""
    everything = b"".join((after.core, after.shuffler_log, *after.shuffler_files.values(), after.forwarded))
    in_the_clear = wire.WireReport("A" * 22, "B" * 86, 1).to_bytes()  # the twin
    assert REPORT.search(in_the_clear)
    assert [found.group() for found in REPORT.finditer(everything)] == []
    with connect(after.parties.settings.file) as db:
        columns = {
            name
            for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for _, name, *_ in db.execute(f"PRAGMA table_info({table})").fetchall()
        }
    assert "bit" not in columns


def most_telling(messages: list[bytes], bits: list[int]) -> float:
    """How far the most telling bit of the messages is from independent of the secret, in standard deviations."""
    most, count, ones = 0.0, len(bits), sum(bits)
    for place in range(8 * len(messages[0])):
        said = [message[place // 8] >> (place % 8) & 1 for message in messages]
        both = sum(a & b for a, b in zip(said, bits, strict=True))
        total = sum(said)
        spread = (total * (count - total) * ones * (count - ones)) ** 0.5 / count**1.5
        if spread > 0:
            most = max(most, abs(both - total * ones / count) / spread)
    return most


def test_sealed_bytes_say_nothing_of_the_bit() -> None:
    """2,000 sealed bits; none of the 392 places goes with the bit beyond 5.5 deviations: a false alarm once in
    60,000 runs (392 places, two sides). The twin, whose last byte has the bit in the clear, is found at once."""
    rng = random.Random(16)
    key = wire.SealKey.of(X25519PrivateKey.generate())
    info = wire.report_info("ab" * 32, 0, 5, 2**60)
    bits = [rng.randrange(2) for _ in range(2_000)]
    sealed = [wire.seal(bit, key, info) for bit in bits]
    assert most_telling(sealed, bits) < 5.5
    clear = [each[:-1] + bytes((bit,)) for each, bit in zip(sealed, bits, strict=True)]
    assert most_telling(clear, bits) > 40


def test_reports_of_both_bits_are_the_same_requests() -> None:
    """Same route, same length, same fields: what the shuffler and who listens on the line see."""
    info = wire.report_info("ab" * 32, 0, 5, 2**60)
    key = wire.SealKey.of(X25519PrivateKey.generate())
    token = wire.new_token()
    bodies = [wire.SealedReport(token, 0, wire.seal(bit, key, info)).to_bytes() for bit in (0, 1)]
    assert len(bodies[0]) == len(bodies[1])
    assert [sorted(json.loads(body)) for body in bodies] == [["round", "sealed", "token"]] * 2


def test_the_aggregators_side_has_no_token_and_no_address(after: After) -> None:
    everything = b"".join((after.aggregator_log, *after.aggregator_files.values(), after.forwarded))
    for token in after.fleet.tokens:
        raw = wire.form.from_base64(token, 16, "token")
        for form in (token.encode(), *spellings(raw), *spellings(bytes.fromhex(wire.token_hash(token)))):
            assert form not in everything
    assert MARK.encode() not in everything
    assert ADDRESS.encode() not in everything
    # The search can find: sealed reports did pass this line.
    sent = next(iter(after.fleet.acknowledged)).sealed
    assert any(form in after.forwarded for form in spellings(sent))


def test_the_shufflers_files_have_no_token_and_no_address(after: After) -> None:
    everything = b"".join((after.shuffler_log, *after.shuffler_files.values()))
    for token in after.fleet.tokens:
        raw = wire.form.from_base64(token, 16, "token")
        for form in (token.encode(), *spellings(raw), *spellings(bytes.fromhex(wire.token_hash(token)))):
            assert form not in everything
    assert MARK.encode() not in everything
    assert ADDRESS.encode() not in everything


def test_a_forwarded_round_is_erased_from_the_shufflers_files_and_kept_by_nobody(after: After) -> None:
    over = [each.sealed for each in after.fleet.acknowledged if each.round < 2]
    held = [each.sealed for each in after.fleet.acknowledged if each.round == 2]
    theirs = b"".join(after.shuffler_files.values())
    assert not any(sealed in theirs for sealed in over)
    assert all(sealed in theirs for sealed in held)  # the search can find
    ours = b"".join(after.aggregator_files.values())
    assert not any(sealed in ours for sealed in over + held)


def test_the_forwarded_order_is_not_the_order_of_arrival(after: After) -> None:
    """Of two rounds of about 100: the same order has a chance of 1 in 100!; a sorted one would be by bytes."""
    for number in (0, 1):
        (body,) = {b for p, _, b in after.tap.requests if p.endswith("/batches") and b'"round":%d' % number in b}
        part = wire.open_part(body, after.manifest)
        arrived = [sealed for sealed in after.fleet.order if sealed in set(part.sealed)]
        assert sorted(part.sealed) == sorted(arrived)
        assert list(part.sealed) != arrived
        assert list(part.sealed) != sorted(part.sealed)


def test_the_shuffler_imports_nothing_that_opens() -> None:
    """Beside the import contracts: none of its sources names what opens a report, or a private key of the seal."""
    folder = Path(privquant.shuffler.__file__).parent
    banned = {"opener", "seal_key", "X25519PrivateKey"}
    for source in folder.glob("*.py"):
        tree = ast.parse(source.read_text())
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {each.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for each in node.names}
        assert not names & banned, (source.name, names & banned)


def test_what_lies_in_the_shufflers_database_cannot_be_told_from_noise(after: After) -> None:
    """Held reports do not compress: nothing in them repeats. A table of clear bits would."""
    with connect(after.parties.settings.file) as db:
        sealed = b"".join(row[0] for row in db.execute("SELECT sealed FROM held").fetchall())
    assert len(sealed) >= 10 * wire.SEALED_BYTES
    assert len(gzip.compress(sealed)) > 0.99 * len(sealed)
    assert len(gzip.compress(bytes(secrets.randbelow(2) for _ in range(len(sealed))))) < 0.5 * len(sealed)

"""What an onlooker sees does not depend on the value: same requests, same sizes, same code on the way.

The device's coin has no seed. Where a test needs both bits to occur, the probability that they do not is stated.
"""

import re
import sys
from pathlib import Path

import pytest
from loopback import HASTY, ONCE, reply
from shuffled_loopback import ShuffleServer

import privquant
from privquant.device import Device, Policy, Rule, ShuffleRule, TryLater, client
from privquant.domain import Integers
from privquant.privacy.coin import Coin
from privquant.wire import WireReport

SOURCE = Path(privquant.__file__).parent


def shapes(server, make_device, tmp_path, runs=40):
    """For each run: the bit, and all requests with the random token and the bit itself blanked out."""
    found = []
    for run in range(runs):
        server.requests.clear()
        receipt = make_device(tmp_path / f"{run}").answer(server.invite(), run % 2 * 100)
        raws = [request.raw for request in server.requests]
        raws = [re.sub(rb'"token":"[^"]{22}"|"token_hash":"[0-9a-f]{64}"', b"T", raw) for raw in raws]
        found.append((receipt.bit, tuple(re.sub(rb'"bit":[01]', b"B", raw) for raw in raws)))
    return found


def one_shape(found) -> bool:
    return len({shape for _, shape in found}) == 1 and len({tuple(map(len, shape)) for _, shape in found}) == 1


def test_both_bits_give_the_same_requests_byte_for_byte_but_the_bit(server, make_device, tmp_path):
    """40 answers, 20 for each true bit; that only one bit occurs has probability below 1e-13."""
    found = shapes(server, make_device, tmp_path)
    assert {bit for bit, _ in found} == {0, 1}
    assert one_shape(found)


def test_a_report_that_is_longer_for_one_bit_is_noticed(server, make_device, tmp_path, monkeypatch):
    class Leaky(WireReport):
        def to_bytes(self):
            return super().to_bytes() + b" " * self.bit

    monkeypatch.setattr(client.wire, "WireReport", Leaky)
    assert not one_shape(shapes(server, make_device, tmp_path))


def test_retries_do_not_depend_on_the_bit(server, make_device, tmp_path):
    """A server that refuses the first report of everybody sees the same sequence from everybody."""
    sequences = set()
    for run in range(40):
        server.requests.clear()
        server.on["reports"] = lambda request: reply(503, b"", Retry_After="3600")
        invite = server.invite()
        with pytest.raises(TryLater):
            make_device(tmp_path / f"{run}", patience=ONCE).answer(invite, run % 2 * 100)
        del server.on["reports"]
        make_device(tmp_path / f"{run}").answer(invite, run % 2 * 100)
        sequences.add(tuple((request.what, len(request.raw)) for request in server.requests))
    assert len(sequences) == 1
    assert {bits[0] for bits in server.bits.values()} == {0, 1}


def lines_run(answer) -> list[tuple[str, int]]:
    """Every line of the device, the wire format and the coin that runs, in order, but for reading from sockets."""
    seen = []

    def trace(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if SOURCE not in path.parents or path.name == "transport.py":
            return None
        if event == "line":
            seen.append((path.name, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        answer()
    finally:
        sys.settrace(None)
    return seen


def paths_through_the_code(server, make_device, tmp_path, runs=20) -> set[tuple[tuple[str, int], ...]]:
    make_device(tmp_path / "warm").answer(server.invite(), 0)  # fills the caches of pure functions
    paths = set()
    for run in range(runs):
        device, invite = make_device(tmp_path / f"{run}"), server.invite()
        paths.add(tuple(lines_run(lambda d=device, i=invite, v=run % 2 * 100: d.answer(i, v))))
    return paths


@pytest.mark.skipif(sys.gettrace() is not None, reason="another tracer is at work")
def test_the_same_lines_run_for_every_value_and_bit(server, make_device, tmp_path):
    """No branch on the value or the bit. 20 answers; only one bit occurs with probability below 1e-6."""
    paths = paths_through_the_code(server, make_device, tmp_path)
    assert {bits[0] for bits in server.bits.values()} == {0, 1}
    assert len(paths) == 1
    assert len(next(iter(paths))) > 300


@pytest.mark.skipif(sys.gettrace() is not None, reason="another tracer is at work")
def test_a_branch_on_the_bit_is_noticed(server, make_device, tmp_path, monkeypatch):
    class Branching(Coin):
        def throw(self, bit):
            if bit:
                return super().throw(bit)
            return Coin(self.threshold).throw(bit)

    Branching.throw.__code__ = Branching.throw.__code__.replace(co_filename=str(SOURCE / "device" / "leaky.py"))
    monkeypatch.setattr(client, "Coin", Branching)
    assert len(paths_through_the_code(server, make_device, tmp_path)) == 2


@pytest.mark.skipif(sys.gettrace() is not None, reason="another tracer is at work")
def test_the_same_lines_run_for_every_value_and_bit_of_a_shuffled_answer(tmp_path):
    """As above, accounting and sealing included."""
    rule = Rule(Integers(0, 100), 1, shuffle=ShuffleRule(5, 1e-6))
    with ShuffleServer(round=2) as shuffler:
        paths = paths_through_the_code(
            shuffler, lambda path: Device(Policy({"steps": rule}, path), patience=HASTY), tmp_path
        )
        assert {bits[0] for bits in shuffler.bits.values()} == {0, 1}
    assert len(paths) == 1
    assert {"sealing.py", "shuffle_check.py", "trust_models.py"} <= {name for name, _ in next(iter(paths))}

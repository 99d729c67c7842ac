"""What an onlooker sees does not depend on the value, nor on whether Python or Node answers.

The device's coin has no seed. Where a test needs both bits to occur, the probability that they do not is stated.
"""

import json
import re
import subprocess
from collections import Counter

import pytest
from loopback import HASTY
from nodejs import HERE, node
from shuffled_loopback import ShuffleServer

from privquant.device import Device, Policy, Rule, ShuffleRule
from privquant.domain import Integers


def shape(server) -> tuple[bytes, ...]:
    """All requests with the random token and the bit itself blanked out."""
    raws = [request.raw for request in server.requests]
    secret = rb'"token":"[^"]{22}"|"token_hash":"[0-9a-f]{64}"|"sealed":"[^"]{66}"'
    raws = [re.sub(secret, b"T", raw) for raw in raws]
    return tuple(re.sub(rb'"bit":[01]', b"B", raw) for raw in raws)


def test_both_bits_give_the_same_requests_byte_for_byte_but_the_bit(server, make_device, tmp_path):
    """40 answers, 20 for each true bit; that only one bit occurs has probability below 1e-13."""
    found = set()
    for run in range(40):
        server.requests.clear()
        make_device(tmp_path / f"{run}").answer(server.invite(), run % 2 * 100)
        found.add((shape(server), tuple(len(request.raw) for request in server.requests)))
    assert {bit for bits in server.bits.values() for bit in bits} == {0, 1}
    assert len(found) == 1


def test_the_requests_are_those_of_the_python_device_byte_for_byte(server, make_device, tmp_path):
    make_device(tmp_path / "node").answer(server.invite(), 30)
    ours = shape(server)
    server.requests.clear()
    policy = Policy({"steps": Rule(Integers(0, 100), 1)}, tmp_path / "python")
    Device(policy, patience=HASTY).answer(server.invite(), 30)
    assert ours == shape(server)
    assert len(ours) == 3


def test_shuffled_requests_are_those_of_the_python_device_byte_for_byte(make_device, tmp_path):
    trust = {"max_local_epsilon": 5, "max_delta": "1e-6"}
    with ShuffleServer() as server:
        make_device(tmp_path / "node", shuffle=trust).answer(server.invite(), 30)
        ours = shape(server)
        server.requests.clear()
        rule = Rule(Integers(0, 100), 1, shuffle=ShuffleRule(**trust))
        Device(Policy({"steps": rule}, tmp_path / "python"), patience=HASTY).answer(server.invite(), 30)
        assert ours == shape(server)
        assert len(ours) == 3


def blocks_run(server, tmp_path, *mode: str, runs: int = 24) -> tuple[Counter[int], Counter[tuple[str, ...]]]:
    """The bits that were given, and which blocks of code ran and how often, for values on both sides."""
    # An optimizing compiler leaves inlined functions out of the count.
    command = [node(), "--no-opt", "--no-maglev", str(HERE / "sameness_child.mjs"), *mode]
    bits, paths = Counter(), Counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for run in range(-4, runs):  # the first few warm caches and the engine up
            order = {"ledger": str(tmp_path / f"{run}"), "invite": server.invite(), "value": run % 2 * 100}
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            said = json.loads(process.stdout.readline())
            if run >= 0:
                bits[said["bit"]] += 1
                paths[tuple(said["ran"])] += 1
        process.stdin.close()
    return bits, paths


def the_path(bits: Counter[int], paths: Counter[tuple[str, ...]]) -> tuple[str, ...]:
    """The one that all answers took but two that a busy machine may have held up; each bit has more than two."""
    assert min(bits[0], bits[1]) > 2
    ((path, often),) = paths.most_common(1)
    assert often >= paths.total() - 2
    return path


def test_the_same_blocks_run_for_every_value_and_bit(server, tmp_path):
    """No branch on the value or the bit. 24 answers; one bit occurs twice or less with probability below 1e-4."""
    assert len(the_path(*blocks_run(server, tmp_path))) > 150


def test_a_branch_on_the_bit_is_noticed(server, tmp_path):
    with pytest.raises(AssertionError):
        the_path(*blocks_run(server, tmp_path, "branching"))


def test_the_same_blocks_run_for_every_value_and_bit_of_a_shuffled_answer(tmp_path):
    """As above, at a round whose coin has epsilon 3: one bit twice or less has probability below 1e-7."""
    with ShuffleServer(round=2) as server:
        path = the_path(*blocks_run(server, tmp_path))
    assert any("shuffle-check.js" in block for block in path)

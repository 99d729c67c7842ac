"""`privquant plan` as a person uses it: the domain is given as to every other verb."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import privquant as pq

ASKED = ("plan", "--alpha", "0.05", "--epsilon", "1", "--confidence", "0.9")


def privquant(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "privquant", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("given", "domain"),
    [
        ((), pq.Integers(0, 2**20 - 1)),
        (("--low", "-5", "--high", "500"), pq.Integers(-5, 500)),
        (("--high", "9223372036854775807"), pq.Integers(0, 2**63 - 1)),
        (("--low", "0.5", "--high", "8.5", "--bins", "64"), pq.Grid([0.5 + k / 8 for k in range(65)])),
        (("--low", "1", "--high", "1e6", "--bins", "400", "--log"), pq.LogGrid(1, 1e6, 400)),
    ],
)
def test_the_plan_is_for_the_domain_that_was_given(given: tuple[str, ...], domain: pq.Domain) -> None:
    done = privquant(*ASKED, *given, "--json")
    assert done.returncode == 0, done.stderr
    expected = pq.plan(alpha=0.05, epsilon=1.0, confidence=0.9, domain=domain)
    assert json.loads(done.stdout) == json.loads(json.dumps(expected.to_dict()))
    assert expected.size == domain.size


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--bins", "0"), "got bins=0"),
        (("--log",), "--log goes with --bins"),
        (("--bins", "10", "--log"), "0 < low < high"),
        (("--high", "1.5"), "add --bins N for continuous values"),
        (("--high", "many"), "--high must be a number, got 'many'"),
    ],
)
def test_a_domain_that_is_none_ends_in_one_plain_line(given: tuple[str, ...], said: str) -> None:
    done = privquant(*ASKED, *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1

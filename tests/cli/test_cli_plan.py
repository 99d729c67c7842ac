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


def test_the_real_job_is_planned_as_in_python(tmp_path) -> None:
    """Several quantiles, an interval, rounds and a pilot; the verdict is the first thing printed."""
    values = [str(400 + 3 * k % 700) for k in range(2000)]
    pilot = tmp_path / "times.csv"
    pilot.write_text("ms\n" + "\n".join(values) + "\n")
    given = ("plan", "--users", "9000", "--epsilon", "1", "--confidence", "0.9", "--high", "4095")
    job = ("--quantile", "0.5,0.9", "--interval", "0.95", "--rounds", "40", "--pilot", str(pilot), "--unit", "ms")
    done = privquant(*given, *job, "--json")
    assert done.returncode == 0, done.stderr
    settings = {"users": 9000, "epsilon": 1.0, "confidence": 0.9, "domain": (0, 4095), "unit": "ms"}
    expected = pq.plan(q=[0.5, 0.9], interval=0.95, rounds=40, pilot=[int(v) for v in values], **settings)
    assert json.loads(done.stdout) == json.loads(json.dumps(expected.to_dict()))
    shown = privquant(*given, *job).stdout
    assert " ".join(shown.split()).startswith(expected.verdict)


def test_a_calibration_is_taken_by_name_and_from_the_environment(tmp_path, monkeypatch) -> None:
    missing = tmp_path / "none.json"
    by_name = privquant(*ASKED, "--calibration", str(missing))
    monkeypatch.setenv("PRIVQUANT_CALIBRATION", str(missing))
    by_environment = privquant(*ASKED)
    for done in (by_name, by_environment):
        assert done.returncode == 2
        assert "none.json' cannot be read" in done.stderr


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

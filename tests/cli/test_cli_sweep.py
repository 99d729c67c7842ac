"""`privquant sweep` as a person uses it: real processes."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from privquant.cli.sweep import numbers, protocol_spec
from privquant.errors import InvalidInput

COMMAND = [sys.executable, "-m", "privquant.cli"]


def privquant(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, args)], capture_output=True, text=True, timeout=120, check=False)


def test_a_sweep_of_a_file_and_a_recipe(tmp_path: Path) -> None:
    pay = tmp_path / "pay.csv"
    pay.write_text("salary\n" + "\n".join(str(1000 + 7 * k) for k in range(900)) + "\n")
    done = privquant(
        *("sweep", "--data", f"{pay}:column=salary:low=0:high=9999", "--data", "pareto:n=500:B=4^5"),
        *("--protocol", "naive", "--protocol", "hierarchical:answer=descent,branching=2", "--epsilon", "0.5:2:3"),
        *("--quantile", "0.5,0.9", "--trials", 20, "--seed", 4, "--out", tmp_path / "grid.csv"),
        *("--answers", tmp_path / "answers.parquet", "--workers", 1),
    )
    assert done.returncode == 0, done.stderr
    assert "24 cells of 20 trials" in done.stdout
    with (tmp_path / "grid.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["data"] for row in rows] == ["pay.csv[salary]"] * 12 + ["pareto"] * 12
    assert {row["epsilon"] for row in rows} == {"0.5", "1.0", "2.0"}
    assert {row["options"] for row in rows} == {"{}", '{"answer": "descent", "branching": 2}'}
    assert (tmp_path / "answers.parquet").exists()
    again = (
        "sweep",
        "--data",
        "pareto:n=50:B=4^5",
        "--protocol",
        "naive",
        "--trials",
        2,
        "--out",
        tmp_path / "grid.csv",
    )
    refused = privquant(*again)
    assert (refused.returncode, "is there already" in refused.stderr) == (2, True)
    assert privquant(*again, "--overwrite").returncode == 0


def test_ctrl_c_keeps_finished_cells_and_resume_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "grid.csv"
    arguments = [
        *("sweep", "--data", "pareto:n=2500:B=4^8", "--protocol", "naive", "--epsilon", "0.1:5:24"),
        # trials for some seconds: time to stop it
        *("--rounds", "16", "--trials", "300", "--out", str(out), "--workers", "2"),
    ]
    process = subprocess.Popen([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True)
    journal = tmp_path / "grid.csv.journal"
    deadline = time.monotonic() + 60
    while not journal.exists() or journal.read_text().count("\n") < 3:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "go on with --resume" in errors
    assert "Traceback" not in errors
    assert not out.exists()
    again = privquant(*arguments)
    assert again.returncode == 2
    assert "say resume (--resume)" in again.stderr
    done = privquant(*arguments, "--resume")
    assert done.returncode == 0, done.stderr
    with out.open() as file:
        assert len(list(csv.DictReader(file))) == 24
    assert not journal.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--data", "pareto:n=10:B=10", "--epsilon", "one"), "epsilon must be numbers such as 0.5,1,2"),
        (("--data", "pareto:n=10:B=10", "--protocol", "naive:colour=red"), "no option 'colour'"),
        (("--data", "pareto:n=10:B=10", "--protocol", "naive:users=5"), "no option 'users'"),
        (("--data", "none.csv:column=a:low=0:high=1"), "there is no file none.csv"),
    ],
)
def test_bad_input_ends_with_one_line_and_exit_code_2(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    done = privquant("sweep", "--out", tmp_path / "grid.csv", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_numbers_and_protocols_as_the_command_line_takes_them() -> None:
    assert numbers("0.5, 1,2", "epsilon") == [0.5, 1.0, 2.0]
    assert numbers("0.1:10:3", "epsilon") == pytest.approx([0.1, 1.0, 10.0])
    assert protocol_spec("naive") == ("naive", {})
    assert protocol_spec("bayess:c=0.3,final=test") == ("bayess", {"c": 0.3, "final": "test"})
    for wrong in ("1:2", "0:1:3", "1:2:x", ""):
        with pytest.raises(InvalidInput):
            numbers(wrong, "epsilon")
    with pytest.raises(InvalidInput, match="NAME:option=value"):
        protocol_spec("naive:behaviour")

"""`privquant estimate` as a person uses it: a real process on a real file."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def privquant(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "privquant.cli", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def salaries(tmp_path_factory):
    rng = np.random.default_rng(1)
    values = np.round(rng.lognormal(10.5, 0.5, 8000)).astype(int)
    folder = tmp_path_factory.mktemp("data")
    csv = folder / "salaries.csv"
    csv.write_text("name,salary,share,note\n" + "".join(f"u{i},{v},{v / 7:.3f},x\n" for i, v in enumerate(values)))
    pq.write_table(pa.table({"salary": values}), folder / "salaries.parquet")
    return folder


def common(salaries, name="salaries.csv"):
    return ["estimate", salaries / name, "--column", "salary", "--low", 0, "--high", 500000, "--epsilon", 1]


@pytest.mark.parametrize("name", ["salaries.csv", "salaries.parquet"])
def test_json_result_is_near_the_truth_and_repeatable(salaries, name):
    first = privquant(*common(salaries, name), "--seed", 5, "--json")
    assert first.returncode == 0, first.stderr
    (found,) = json.loads(first.stdout)["estimates"]
    assert found["simulated"] is True
    assert found["users"] == 8000
    assert found["rank_error"] < 0.06
    assert found["guarantee"]["epsilon"] == pytest.approx(1.0)
    assert privquant(*common(salaries, name), "--seed", 5, "--json").stdout == first.stdout


def test_table_says_that_it_simulates_and_what_is_promised(salaries):
    done = privquant(*common(salaries), "--seed", 5, "--quantile", 0.9, "--quantile", 0.5)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert "simulated private collection" in text
    assert "differentially private whatever any server does" in text
    assert text.index("0.9") < text.index("0.5")  # in the order asked for


def test_continuous_values_in_bins(salaries):
    done = privquant(
        "estimate", salaries / "salaries.csv", "--column", "share", "--low", 100, "--high", 100000,
        "--bins", 400, "--log", "--epsilon", 2, "--seed", 1, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["estimates"]
    assert found["bin"].startswith("(")
    assert found["rank_error"] < 0.05


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--epsilon", "0"], "epsilon must be a finite number above 0, got 0.0"),
        (["--epsilon", "nan"], "epsilon must be a finite number above 0, got nan"),
        (["--epsilon", "-1"], "above 0, got -1.0"),
        (["--quantile", "1"], "strictly between 0 and 1, got 1.0"),
        (["--quantile", "0"], "strictly between 0 and 1, got 0.0"),
        (["--column", "note"], "numbers"),
        (["--column", "wage"], "salary"),
        (["--column", "share"], "have a fraction, but the domain is Integers; say --fractions round, or --bins N"),
        (["--quantile", "half"], "--quantile takes numbers between 0 and 1, such as 0.9 or 0.5,0.9, got 'half'"),
        (["--high", "-1"], "high must be at least low, got low=0, high=-1"),
        (["--high", "1.5"], "must be a whole number, got 1.5"),
        (["--high", "ten"], "must be a number, got 'ten'"),
        (["--protocol", "guess"], "unknown protocol 'guess'; there are naive, "),
        (["--missing", "maybe"], "'refuse', 'drop', got 'maybe'"),
        (["--seed", "-4"], "--seed must be at least 0, got -4"),
    ],
)
def test_bad_input_is_one_plain_line_and_exit_code_2(salaries, change, said):
    done = privquant(*common(salaries), *change)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_files_that_cannot_be_read(salaries, tmp_path):
    missing = privquant("estimate", tmp_path / "no.csv", "--column", "x", "--low", 0, "--high", 1)
    assert missing.returncode == 2
    assert "no.csv" in missing.stderr
    empty = tmp_path / "empty.csv"
    empty.write_text("salary\n")
    done = privquant("estimate", empty, "--column", "salary", "--low", 0, "--high", 9)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    bounds = privquant("estimate", salaries / "salaries.csv", "--column", "salary", "--epsilon", 1)
    assert bounds.returncode == 2
    assert "never inferred from the data" in bounds.stderr


def test_version_and_help():
    assert privquant("--version").stdout.startswith("privquant 0.")
    for verb in ("estimate", "plan", "account", "audit", "sweep"):
        done = privquant(verb, "--help")
        assert done.returncode == 0, done.stderr
        assert "Usage" in done.stdout


def test_help_shows_the_defaults():
    shown = privquant("estimate", "--help").stdout
    assert "default: (0.5)" in shown
    assert "default: (8470)" in privquant("serve", "--help").stdout


def test_bins_without_an_end_are_null_in_json_and_shown_in_words(salaries):
    asked = ["estimate", salaries / "salaries.csv", "--column", "salary", "--low", 0, "--high", 100, "--bins", 4]
    done = privquant(*asked, "--protocol", "naive", "--seed", 1, "--json")
    (found,) = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["estimates"]
    assert (found["value"], found["truth"]) == (None, None)
    assert found["bin"] == found["truth_bin"] == "(100, inf)"
    assert "(100, inf)" in privquant(*asked, "--protocol", "naive", "--seed", 1).stdout


def test_every_quantile_has_its_notes(salaries):
    shown = privquant(*common(salaries), "--quantile", 0.5, "--quantile", 0.9, "--seed", 5).stdout
    said = " ".join(shown.split())  # a narrow terminal breaks lines
    for quantile in ("0.5", "0.9"):
        assert f"quantile {quantile}: certain, for any data: with 95 % confidence some value " in said


def test_the_shuffle_model(salaries):
    done = privquant(*common(salaries), "--trust", "shuffle", "--delta", "1e-8", "--seed", 5, "--json")
    assert done.returncode == 0, done.stderr
    promise = json.loads(done.stdout)["estimates"][0]["guarantee"]
    assert (promise["trust"], promise["epsilon"], promise["delta"]) == ("shuffle", 1.0, 1e-8)
    assert sum(row["batch"] for row in promise["rounds"]) == 8000
    shown = " ".join(privquant(*common(salaries), "--trust", "shuffle", "--delta", "1e-8").stdout.split())
    assert "at least its own number of honest reports" in shown
    for wrong, said in (
        (["--trust", "shuffle"], "--trust shuffle needs a delta, e.g. --delta 1e-8"),
        (["--delta", "1e-8"], "delta goes with --trust shuffle"),
        (["--trust", "shuffle", "--delta", "1e-8", "--protocol", "bayess"], "or say --trust local"),
    ):
        done = privquant(*common(salaries), *wrong)
        assert done.returncode == 2
        assert said in done.stderr


def test_values_outside_the_domain_are_a_warning_at_the_top_and_the_truth_is_the_datas(salaries):
    """Salaries around 36,000 in a domain up to 10,000: the answer 10000 is as far off as can be."""
    asked = ["estimate", salaries / "salaries.csv", "--column", "salary", "--low", 0, "--high", 10_000, "--seed", 5]
    done = privquant(*asked)
    assert done.returncode == 0, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("Warning: the answer 10000 at quantile 0.5 is the highest value of the domain")
    assert first.endswith("give a wider --low .. --high.")
    as_json = privquant(*asked, "--json")
    (found,) = json.loads(as_json.stdout)["estimates"]
    values = sorted(int(line.split(",")[1]) for line in (salaries / "salaries.csv").read_text().splitlines()[1:])
    assert found["value"] == 10_000
    assert found["truth"] == values[3999] > 30_000
    above = sum(value > 10_000 for value in values)
    assert found["rank_error"] == pytest.approx(0.5 - (1 - above / 8000))
    assert found["warning"] in first.replace("give a wider --low .. --high", "give a wider domain")
    assert as_json.stderr.startswith("Warning: the answer 10000")
    (fine,) = json.loads(privquant(*common(salaries), "--seed", 5, "--json").stdout)["estimates"]
    assert fine["warning"] is None
    assert fine["truth"] == values[3999]


def test_one_quantile_or_several_have_one_shape(salaries):
    done = privquant(*common(salaries), "--quantile", "0.9,0.1", "--seed", 5, "--json")
    assert [row["quantile"] for row in json.loads(done.stdout)["estimates"]] == [0.9, 0.1]


OWN = """
import privquant as pq
from privquant.protocols.naive.search import NaiveSearch

@pq.register
class Mine(NaiveSearch):
    name = "mine"
"""


def test_a_module_with_a_protocol_of_ones_own(salaries, tmp_path, monkeypatch):
    (tmp_path / "my_protocols.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    asked = [*common(salaries), "--protocol", "mine", "--seed", 5, "--json"]
    done = privquant("--import", "my_protocols", *asked)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["estimates"][0]["protocol"] == "mine"
    assert "unknown protocol 'mine'" in privquant(*asked).stderr
    missing = privquant("--import", "no_such_module", *asked)
    assert missing.returncode == 2
    assert missing.stderr.startswith("privquant: --import takes the name of a module, got 'no_such_module'")


def test_shells_complete_the_verbs(monkeypatch):
    assert "--install-completion" in privquant("--help").stdout
    monkeypatch.setenv("_PRIVQUANT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "privquant est")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert privquant().stdout.split() == ["estimate"]

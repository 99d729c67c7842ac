"""`privquant account` and `privquant audit` as a user runs them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from privquant.cli import main
from privquant.privacy.binomial import most_colluders


def _run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["privquant", *arguments])
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    code = ended.value.code
    return (code if isinstance(code, int) else 0), out, err


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda *arguments: _run(capsys, monkeypatch, *arguments)


def test_account_shows_every_method(run: Any) -> None:
    code, out, _ = run("account", "--epsilon", "0.5", "--batch", "100000")
    assert code == 0
    for expected in ("exact", "stronger", "clones", "theorem", "lemma", "6.60", "2.75", "honest"):
        assert expected in out


def test_account_as_json(run: Any) -> None:
    code, out, _ = run("account", "--batch", "1000", "--delta", "1e-6", "--colluding", "0.1", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["honest"] == found["guarantee"]["batch"] == 1000 - most_colluders(1000, 0.1, miss=1e-7) < 900
    assert [row["method"] for row in found["methods"]] == ["exact", "stronger", "clones", "theorem", "lemma"]
    assert found["guarantee"]["epsilon"] <= 1.0
    said = run("account", "--batch", "1000", "--delta", "1e-6", "--colluding", "0.1")[1]
    assert f"up to {1000 - found['honest']} of a batch of 1,000 do" in " ".join(said.split())


def test_account_shows_what_is_reached_where_the_cap_decides(run: Any) -> None:
    code, out, _ = run("account", "--epsilon", "1", "--cap", "2", "--json")
    assert code == 0
    found = json.loads(out)
    exact = found["methods"][0]
    assert exact["local_epsilon"] == 2.0
    assert exact["epsilon"] == pytest.approx(found["guarantee"]["epsilon"], rel=1e-6)
    assert exact["epsilon"] < 0.04
    loose = json.loads(run("account", "--epsilon", "1", "--cap", "20", "--json")[1])["methods"][0]
    assert loose["epsilon"] == 1.0


def test_account_of_a_given_coin_and_of_drop_outs(run: Any) -> None:
    code, out, _ = run("account", "--local-epsilon", "6", "--batch", "100000", "--answered", "50000")
    assert code == 0
    assert "0.344" in out
    assert "If only 50,000 of 100,000 answer" in out


@pytest.mark.parametrize("arguments", [("--epsilon", "1"), ("--compare",)])
def test_account_draws_its_curves(run: Any, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    picture = tmp_path / "curves.svg"
    code, _, _ = run("account", "--plot", str(picture), *arguments)
    assert code == 0
    drawn = picture.read_text()
    assert "<svg" in drawn
    assert drawn.count("<path") > 20


def test_account_compares_users_needed(run: Any) -> None:
    code, out, _ = run("account", "--compare", "--json")
    rows = {(row["epsilon"], row["batch"]): row["ratio"] for row in json.loads(out)}
    assert code == 0
    assert rows[0.1, 1_000] > 20
    assert 4 < rows[1.0, 1_000_000] < 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("account", "--batch", "0"), "batch must be at least 1"),
        (("account", "--delta", "2"), "delta must be"),
        (("account", "--epsilon", "1", "--local-epsilon", "2"), "not both"),
        (("account", "--plot", "/no/such/folder/x.png"), "cannot be written"),
        (("account", "--plot", "x.nothing"), "cannot be written"),
        (("audit", "--draws", "1"), "draws must be at least 4"),
        (("audit", "--coin", "1", "--command", "x"), "an audit throws one randomizer"),
        (("audit", "--tree", "oue", "--shipped"), "--shipped is for the coin"),
        (("audit", "--tree", "fir"), "--tree must be one of"),
        (("audit", "--callable", "no_such_module:f"), "--callable is module:name"),
        (("audit", "--command", "echo 1"), "must contain {input} and {draws}"),
    ],
)
def test_bad_input_ends_in_one_line_and_code_2(run: Any, arguments: tuple[str, ...], said: str) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert out == ""


def test_audit_passes_our_coin_and_catches_a_worse_one(run: Any) -> None:
    """False alarm of the first at most 1e-6 (its confidence); the second is missed with less than that."""
    settings = ("--epsilon", "1", "--confidence", "0.999999")
    code, out, _ = run("audit", *settings)
    assert code == 0
    assert "was not caught" in out
    code, out, _ = run("audit", *settings, "--coin", "1.05", "--json")
    found = json.loads(out)
    assert code == 1
    assert found["caught"]
    assert found["draws"] == 2_000_000


@pytest.mark.parametrize("encoding", ["oue", "sue", "hadamard"])
def test_audit_of_the_tree_reports(run: Any, encoding: str) -> None:
    """Unseeded; the honest one is accused with probability at most 1e-6. Twin: made with 2 and sold as 1."""
    settings = ("--tree", encoding, "--epsilon", "1", "--draws", "6000", "--confidence", "0.999999")
    code, _, _ = run("audit", *settings)
    assert code == 0
    code, _, _ = run("audit", *settings, "--coin", "2")
    assert code == 1


def test_audit_of_a_function_in_this_folder(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "honest_or_not.py").write_text("def tell(bit):\n    return bit\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, out, _ = run("audit", "--callable", "honest_or_not:tell", "--draws", "1000")
    assert code == 1
    assert "NOT 1-differentially private" in out


def test_a_function_that_fails_is_not_called_dishonest(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 accuses; a function that cannot be thrown is wrong use, 2."""
    (tmp_path / "fails.py").write_text("def boom(bit):\n    raise OSError('no such coin')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, _, errors = run("audit", "--callable", "fails:boom", "--draws", "1000")
    assert code == 2
    assert "the randomizer failed at input 0: OSError: no such coin" in errors


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("account", "--compare", "--epsilon", "2"), "--compare has its own grid"),
        (("account", "--compare", "--batch", "5000"), "--compare has its own grid"),
        (("audit", "--inputs", "0,5"), "--inputs goes with --callable or --command"),
    ],
)
def test_options_that_would_be_ignored_are_refused(run: Any, arguments: tuple[str, ...], says: str) -> None:
    code, _, errors = run(*arguments)
    assert (code, says in errors) == (2, True)


@pytest.mark.parametrize("verb", ["account", "audit"])
def test_help_names_every_option(run: Any, verb: str) -> None:
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert "--json" in out
    assert "--epsilon" in out

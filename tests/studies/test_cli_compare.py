"""`privquant compare` prints its tables."""

import csv

import pytest
import typer
from typer.testing import CliRunner

from privquant import cli
from privquant.cli import compare
from privquant.errors import InvalidInput


@pytest.fixture
def app():
    made = typer.Typer()
    cli.register(made, compare)

    @made.callback()
    def root() -> None:
        pass

    return made


def run(app, *arguments):
    return CliRunner().invoke(app, ["compare", *arguments])


def test_a_table_is_printed_and_written(app, tmp_path):
    out = tmp_path / "cells.csv"
    given = ("--table", "shuffle", "--trials", "4", "--data-sets", "2", "--quick", "--workers", "1")
    found = run(app, *given, "--out", str(out))
    assert found.exit_code == 0, found.output
    assert "| pareto |" in found.stdout
    assert "lemma : ours" in found.stdout
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15
    assert {row["cell"] for row in rows} >= {"shuffle pareto isotonic exact", "shuffle ties naive lemma"}
    assert not (tmp_path / "cells.csv.journal").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--out", "cells.txt"), "must end in .csv or .parquet, got 'cells.txt'"),
        (("--out", "nowhere/cells.csv"), "there is no folder nowhere"),
        (("--figure", "rounds.png"), "--figure shows the table of rounds"),
        (("--table", "rounds", "--figure", "nowhere/rounds.png"), "there is no folder nowhere"),
    ],
)
def test_where_to_write_is_looked_at_first(app, arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run(app, *arguments)
    assert isinstance(found.exception, InvalidInput)
    assert says in str(found.exception)


def test_a_row_has_the_errors_of_every_quantile(app, tmp_path):
    out = tmp_path / "cells.csv"
    given = ("--table", "several", "--trials", "20", "--data-sets", "1", "--quick", "--workers", "1")
    assert run(app, *given, "--out", str(out)).exit_code == 0
    with out.open() as file:
        rows = {row["cell"]: row for row in csv.DictReader(file)}
    together = rows["several pareto 9000 (0.25, 0.5, 0.75)"]
    assert all(0 <= float(together[f"rank_error_mean{of}"]) < 0.5 for of in ("", "_0.5", "_0.75"))
    assert together["rank_error_mean_0.9"] == ""


def test_unknown_tables_are_refused(app):
    found = run(app, "--table", "nonsense")
    assert isinstance(found.exception, InvalidInput)
    assert "table must be one of 'search'" in str(found.exception)


def test_speed_is_no_table_of_it(app):
    found = run(app, "--table", "speed")
    assert isinstance(found.exception, InvalidInput)

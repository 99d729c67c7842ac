"""`privquant compare` prints its tables and says whether they are met."""

import csv
import json

import pytest
import typer
from typer.testing import CliRunner

from privquant.cli import compare
from privquant.errors import InvalidInput


@pytest.fixture
def app():
    made = typer.Typer()
    compare.register(made)

    @made.callback()
    def root() -> None:
        pass

    return made


def run(app, *arguments):
    return CliRunner().invoke(app, ["compare", *arguments])


def test_a_table_is_printed_and_written(app, tmp_path):
    out = tmp_path / "cells.json"
    found = run(app, "--table", "shuffle", "--trials", "4", "--data-sets", "2", "--out", str(out), "--quick")
    assert found.exit_code == 0, found.output
    assert "| pareto |" in found.stdout
    assert "lemma : ours" in found.stdout
    assert len(json.loads(out.read_text())) == 15


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--out", "cells.txt"), "must end in .csv or .json, got 'cells.txt'"),
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


def test_a_csv_has_one_number_a_word(app, tmp_path):
    out = tmp_path / "cells.csv"
    assert (
        run(app, "--table", "several", "--trials", "20", "--data-sets", "1", "--out", str(out), "--quick").exit_code
        == 0
    )
    with out.open() as file:
        errors = [row["error"] for row in csv.DictReader(file)]
    assert all(float(word) >= 0 for text in errors for word in text.split())


def test_unknown_tables_are_refused(app):
    found = run(app, "--table", "nonsense")
    assert isinstance(found.exception, InvalidInput)
    assert "table must be one of 'search'" in str(found.exception)


def test_the_figure_is_drawn(tmp_path):
    from privquant.lab.studies.search_cell import Measured
    from privquant.lab.studies.search_report import draw_rounds
    from privquant.lab.studies.search_table import rounds_jobs

    results = {job.key: Measured(0.5, (0.02,), 10) for job in rounds_jobs(10, 2, 1)}
    draw_rounds(results, tmp_path / "rounds.png")
    assert (tmp_path / "rounds.png").stat().st_size > 10_000

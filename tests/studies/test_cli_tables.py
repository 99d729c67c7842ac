"""`python -m studies search`, `coverage` and `liars` print their tables."""

import csv

import pytest
from studies_outcomes import made_up
from typer.testing import CliRunner

from privquant.errors import InvalidInput
from studies.__main__ import COMMANDS, app
from studies.table import Runs
from studies.tables import TABLES


def run(*arguments):
    return CliRunner().invoke(app(), arguments)


def test_a_table_is_printed_and_written(tmp_path):
    out = tmp_path / "cells.csv"
    given = ("--table", "shuffle", "--trials", "4", "--data-sets", "2", "--quick", "--workers", "1")
    found = run("search", *given, "--out", str(out))
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
def test_where_to_write_is_looked_at_first(arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run("search", *arguments)
    assert isinstance(found.exception, InvalidInput)
    assert says in str(found.exception)


def test_a_row_has_the_errors_of_every_quantile(tmp_path):
    out = tmp_path / "cells.csv"
    given = ("--table", "several", "--trials", "20", "--data-sets", "1", "--quick", "--workers", "1")
    assert run("search", *given, "--out", str(out)).exit_code == 0
    with out.open() as file:
        rows = {row["cell"]: row for row in csv.DictReader(file)}
    together = rows["several pareto 9000 (0.25, 0.5, 0.75)"]
    assert all(0 <= float(together[f"rank_error_mean{of}"]) < 0.5 for of in ("", "_0.5", "_0.75"))
    assert together["rank_error_mean_0.9"] == ""


def test_unknown_tables_are_refused():
    found = run("search", "--table", "nonsense")
    assert isinstance(found.exception, InvalidInput)
    assert "table must be one of 'success'" in str(found.exception)


def test_speed_is_no_table_of_it():
    found = run("search", "--table", "speed")
    assert isinstance(found.exception, InvalidInput)


@pytest.mark.parametrize(
    ("study", "shows"), [("coverage", "| pareto 4^9 | 2500 |"), ("liars", "| last 5 % | 0.5 |")]
)
def test_coverage_and_liars_are_studies_of_their_own(study, shows, monkeypatch):
    """The outcomes are made up: what is looked at is the way from the command to the cells and to the report."""
    seen = []

    def instead(cells, **settings):
        seen.extend(cells)
        return made_up(cells, 0.5)

    monkeypatch.setattr("studies.cli.tables.run_cells", instead)
    found = run(study, "--trials", "8000", "--quick")
    assert found.exit_code == 0, found.output
    assert shows in found.stdout
    assert seen == TABLES[study].cells(Runs(400, 1))


def test_help_lists_every_study():
    names = [command.__name__ for command in COMMANDS]
    assert names == ["paper", "published", "search", "coverage", "liars", "calibration"]
    shown = run("--help").stdout
    assert all(name in shown for name in names)

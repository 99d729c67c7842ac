"""`benchmarks/goals.py` holds the tables to their goals. In short: it can say both; in full: what it says."""

import math
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from studies_outcomes import made_up, of_rate

from privquant.lab.experiment.results import Results
from privquant.lab.experiment.runner import run_cells
from studies.limits import success_limit
from studies.table import Runs
from studies.tables import TABLES

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def goals(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield import_module("goals")
    for name in [n for n, m in sys.modules.items() if str(getattr(m, "__file__", "")).startswith(str(FOLDER))]:
        del sys.modules[name]


def with_rates(table, ours, others):
    """Results in which isotonic search hits as often as `ours`, what it is held against as often as `others`."""
    cells = TABLES[table].cells(Runs(400, 8))

    def rate(cell):
        alone = table == "several" and cell.users < cell.data.n
        rounds = table == "rounds" and cell.schedule.kind != "suggested"
        return others if cell.protocol != "isotonic" or alone or rounds else ours

    return Results(tuple(cells), tuple(of_rate(cell, rate(cell)) for cell in cells), 1)


def test_a_goal_is_a_least_or_a_most_one(goals):
    assert goals.Goal("success", 0.9, 0.85).met
    assert str(goals.Goal("success", 0.8, 0.85)) == "MISSED success: 0.8, at least 0.85"
    assert not goals.Goal("width", 18.0, 17.5, least=False).met
    assert str(goals.Goal("width", 17.0, 17.5, least=False)) == "met    width: 17, at most 17.5"


@pytest.mark.parametrize(
    ("table", "ours", "others", "count"),
    [("success", 0.97, 0.1, 10), ("shuffle", 0.9, 0.3, 1), ("rounds", 0.90, 0.88, 2), ("several", 0.9, 0.6, 9)],
)
def test_goals_are_met_and_missed(goals, table, ours, others, count):
    held = goals.GOALS[table](with_rates(table, ours, others))
    assert len(held) == count
    assert all(goal.met for goal in held)
    ours, others = (0.5, 0.9) if table != "rounds" else (0.90, 0.80)
    assert not any(goal.met for goal in goals.GOALS[table](with_rates(table, ours, others)))


def test_users_are_counted_against_the_rival(goals):
    """Success rises with users as the limit does, for DpBayeSS as if so many were one."""
    cells = TABLES["users"].cells(Runs(400, 8))

    def found(cell, stretch):
        worth = cell.data.n / (stretch if cell.protocol == "bayess" else 1.0)
        return of_rate(cell, success_limit(cell.epsilon, 0.5, worth, 0.04))

    for stretch in (2.5, 3.1):
        (goal,) = goals.GOALS["users"](Results(tuple(cells), tuple(found(c, stretch) for c in cells), 1))
        assert goal.found == pytest.approx(stretch, rel=0.03)
        assert goal.met == (stretch > 2.8)


def test_coverage_needs_certified_intervals_that_cover_and_a_control_that_fails(goals):
    cells = TABLES["coverage"].cells(Runs(100, 1))
    right = made_up(cells, 0.9)
    held = goals.GOALS["coverage"](right)
    assert len(held) == 48 + 18 + 1
    assert all(goal.met for goal in held)
    certified = replace(cells[0], claim="certified")
    swapped = Results(right.cells, tuple(of_rate(replace(c, claim="certified"), 0.9) for c in cells), 1)
    assert [goal.what for goal in goals.GOALS["coverage"](swapped) if not goal.met] == [
        "the negative control's lowest coverage"
    ]
    uncovered = Results(
        right.cells, tuple(of_rate(replace(certified, claim="likelihood-ratio"), 0.9) for _ in cells), 1
    )
    assert sum(not goal.met for goal in goals.GOALS["coverage"](uncovered)) == 48


def test_success_is_near_the_limit(goals):
    """120 runs of each held cell: 3.5 deviations below what is asked; false alarm 2.5e-4 a cell that just meets it.
    The twin: DpBayeSS fails the same bound in the cell where it is furthest behind.
    """
    shapes = {dict(c.notes)["cell"]: c for c in TABLES["success"].cells(Runs(120, 3))}
    held = {f"search {' '.join(map(str, which))}": least for which, least in goals.LEAST_SUCCESS.items()}
    furthest = "search tiny 4294967296 0.5 0.879"
    cells = [shapes[f"{cell} isotonic"] for cell in held] + [shapes[f"{furthest} bayess"]]
    bounds = [least - 3.5 * math.sqrt(least * (1 - least) / 120) for least in (*held.values(), held[furthest])]
    met = [found.success(0.04) >= bound for (_, found), bound in zip(run_cells(cells, seed=3, workers=1), bounds)]
    assert met == [True] * 10 + [False]


@pytest.mark.parametrize(("given", "code"), [(("shuffle", "8"), 0), (("success", "2"), 1)])
def test_it_ends_with_1_if_a_goal_is_missed(given, code):
    """The ratio of 14 is far above 6 in few runs; ten cells that must not miss once do, at this seed."""
    table, trials = given
    command = [sys.executable, FOLDER / "goals.py", "--table", table, "--trials", trials, "--workers", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    assert ("MISSED" in done.stdout) == bool(code)
    assert "| pareto" in done.stdout


FAR_AHEAD = pytest.mark.xfail(
    reason="DpBayeSS as the text has it needs 2.67 +- 0.06 times the users, not 2.8", strict=True
)


def hold(goals, table, trials, data_sets):
    held = goals.measured(table, trials=trials, data_sets=data_sets, seed=1, workers=2)
    assert all(goal.met for goal in held), "\n".join(map(str, held))


@pytest.mark.full
@pytest.mark.parametrize("table", ["success", pytest.param("users", marks=FAR_AHEAD), "shuffle"])
def test_the_whole_table(goals, table):
    hold(goals, table, 4000, 500)


@pytest.mark.full
@pytest.mark.parametrize("table", ["rounds", "several", "coverage"])
def test_the_slower_tables(goals, table):
    hold(goals, table, 1000, 250)

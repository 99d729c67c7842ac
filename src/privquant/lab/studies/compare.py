"""The tables of `privquant compare` by name; the modules behind them say what each measures."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.lab.studies import coverage, liars
from privquant.lab.studies.search import curve, rounds, several, shuffle, success, users
from privquant.lab.studies.table import Runs
from privquant.validation import check_count


class Study(NamedTuple):
    """What to run, and what is said about it."""

    cells: Callable[[Runs], list[Cell]]
    report: Callable[[Results], str]


TABLES = {
    "search": Study(success.cells, success.report),
    "users": Study(users.cells, users.report),
    "curve": Study(curve.cells, curve.report),
    "shuffle": Study(shuffle.cells, shuffle.report),
    "rounds": Study(rounds.cells, rounds.report),
    "several": Study(several.cells, several.report),
    "coverage": Study(coverage.cells, coverage.report),
    "liars": Study(liars.cells, liars.report),
}


def runs(trials: int, data_sets: int, share: int = 1) -> Runs:
    """So many trials a cell over so many drawn data sets, or of a part of both."""
    all_of_them, drawn = check_count(trials, "trials", 1), check_count(data_sets, "data-sets", 1)
    return Runs(max(all_of_them // share, 1), max(all_of_them // drawn, 1))

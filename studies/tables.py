"""The tables that are made of cells, by name; the modules behind them say what each measures."""

from __future__ import annotations

from types import ModuleType

from privquant.validation import check_count
from studies import coverage, liars
from studies.search import curve, rounds, several, shuffle, success, users
from studies.table import Runs

SEARCH: dict[str, ModuleType] = {
    "success": success,
    "users": users,
    "curve": curve,
    "shuffle": shuffle,
    "rounds": rounds,
    "several": several,
}
"""Isotonic search beside its rivals. Each table has `cells(runs)`, what to run, and `report(results)`, what is said
about it."""

TABLES: dict[str, ModuleType] = {**SEARCH, "coverage": coverage, "liars": liars}


def runs(trials: int, data_sets: int, share: int = 1) -> Runs:
    """So many trials a cell over so many drawn data sets, or of a part of both."""
    all_of_them, drawn = check_count(trials, "trials", 1), check_count(data_sets, "data-sets", 1)
    return Runs(max(all_of_them // share, 1), max(all_of_them // drawn, 1))

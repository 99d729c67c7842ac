"""All figures by name, from one sweep: PDF, PNG, the CSV behind each, and our rates beside the recorded ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privquant.errors import InvalidInput
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.results import Results, write_table
from privquant.lab.experiment.runner import run_cells
from studies import style
from studies.paper import accounting, beyond, constant, padding, pareto, shuffle, uniform
from studies.paper.figure import Effort, Figure
from studies.published import recorded_cells, two_sample_z

SEED = 2024
CELLS = "cells.csv"
COMPARISON = "published.csv"


def catalogue() -> dict[str, Figure]:
    """Every figure by its name: the paper's first, in its order."""
    families = (pareto, uniform, constant, shuffle, beyond, padding, accounting)
    return {figure.name: figure for family in families for figure in family.FIGURES}


def chosen(names: Sequence[str] | None) -> list[Figure]:
    """The figures of these names; a name may also be the beginning of several (`pareto`)."""
    known = catalogue()
    if not names:
        return list(known.values())
    found: dict[str, Figure] = {}
    for name in names:
        exact = {name: known[name]} if name in known else {k: f for k, f in known.items() if k.startswith(name)}
        if not exact:
            raise InvalidInput(f"there is no figure {name!r}; there are {', '.join(known)}")
        found |= exact
    return list(found.values())


@dataclass(frozen=True)
class Regenerated:
    """What was written."""

    files: list[Path]
    comparison: list[dict[str, Any]]


def regenerate(
    names: Sequence[str] | None = None,
    *,
    out: str | Path,
    quick: bool = False,
    seed: int = SEED,
    **running: Any,
) -> Regenerated:
    """Run and draw figures into the folder `out`.

    quick:   fewer trials and a thinner grid.
    running: where and how, as for `run_cells`: workers, executor, resume (of the same figures), progress.
    """
    figures, effort = chosen(names), Effort(quick)
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"the folder {folder} cannot be made: {error.strerror}") from error
    wanted = {figure.name: figure.cells(effort) for figure in figures}
    together = [cell for cells in wanted.values() for cell in cells]
    with style.styled():
        outcomes: dict[tuple[str, int], Outcome] = {}
        if together:
            found = run_cells(together, seed=seed, out=folder / CELLS, **running)
            outcomes = {cell.run: outcome for cell, outcome in found}
        files = []
        for figure in figures:
            cells = wanted[figure.name]
            drawing = figure.draw(Results(tuple(cells), tuple(outcomes[c.run] for c in cells), seed))
            files += style.save(drawing.figure, folder, figure.name)
            files.append(write_table(drawing.rows, folder / f"{figure.name}.csv"))
    comparison = compare(together, outcomes)
    if comparison:
        files.append(write_table(comparison, folder / COMPARISON))
    return Regenerated(files, comparison)


def compare(cells: Iterable[Cell], outcomes: dict[tuple[str, int], Outcome]) -> list[dict[str, Any]]:
    """Our success rate beside the recorded one, with their distance in standard errors of the difference."""
    made = []
    for row, cell in recorded_cells(cells):
        outcome = outcomes[cell.run]
        ours, trials = outcome.success(style.ALPHA), outcome.trials
        made.append(
            {
                "data": row.data,
                "n": row.n,
                "B": row.size,
                "mechanism": row.mechanism,
                "epsilon": row.epsilon,
                "c": row.c,
                "published": row.success,
                "published_trials": row.trials,
                "ours": ours,
                "ours_trials": trials,
                "difference": ours - row.success,
                "standard_errors": two_sample_z(ours, trials, row.success, row.trials),
            }
        )
    return made

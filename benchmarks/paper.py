"""All Pareto cells of the paper, whole: 6 data sets x 10 epsilons x 200 trials x 3 mechanisms, argmin included."""

from __future__ import annotations

from measure import Row, seconds

from privquant.lab.paper.figure import Effort
from privquant.lab.paper.pareto import FIGURES
from privquant.lab.sweep import run_cells


def rows() -> list[Row]:
    cells = [cell for figure in FIGURES for cell in figure.cells(Effort())]
    run_cells(cells[:1], seed=1, workers=1)
    found = []
    for mechanism in ("DpBayeSS", "DpNaiveNBS", "Hierarchical"):
        chosen = [cell for cell in cells if cell.label == mechanism]
        taken = seconds(lambda chosen=chosen: run_cells(chosen, seed=1))  # type: ignore[misc]
        found.append(
            {
                "benchmark": "all Pareto cells of the paper",
                "case": f"{mechanism}: {len(chosen)} cells of 200 trials, all cores",
                "ours_seconds": taken,
                "unit": "run",
            }
        )
    whole = sum(row["ours_seconds"] for row in found)
    found.append({**found[0], "case": f"together: {len(cells)} cells of 200 trials", "ours_seconds": whole})
    return found

"""The planner's table: every grid point in its place, from data drawn as often as it says."""

import json
from importlib.resources import files

import numpy as np

from privquant.lab.experiment.runner import run_cells
from privquant.lab.studies.calibration import CONFIDENCES, ROWS, SHAPES, Row, cells, report, write

SMALL = (Row("isotonic/local", "isotonic", largest=300), Row("isotonic/shuffle", "isotonic", "exact", largest=100))


def test_a_small_calibration_has_every_point_in_its_place(tmp_path):
    found = run_cells(cells(4, SMALL), seed=4, workers=1)
    assert len(found.cells) == 3 * 3 * 4 * (2 + 1) * len(SHAPES)
    document = report(found, SMALL)
    table = document["errors"]["isotonic/local"]
    assert np.shape(table["table"]["typical"]) == (3, 3, 4, 2, len(CONFIDENCES))
    assert document["made_by"] == "privquant calibrate --trials 4 --seed 4"

    errors = [
        np.quantile(outcome.rank_errors(), 0.9, method="higher")
        for cell, outcome in found
        if (cell.data.domain.size, cell.quantile, cell.epsilon, cell.data.n) == (2**20, 0.99, 0.3, 300)
    ]
    assert len(errors) == len(SHAPES)
    point = {kind: table["table"][kind][1][2][1][1][3] for kind in ("typical", "hardest")}
    assert point["typical"] == float(f"{np.median(errors):.3g}")
    assert point["hardest"] == float(f"{max(errors):.3g}")

    write(document, tmp_path / "calibration.json")
    assert json.loads((tmp_path / "calibration.json").read_text())["errors"].keys() == document["errors"].keys()


def test_the_shipped_table_is_of_this_grid():
    """Its rows and its form, so that the next calibration can take its place."""
    shipped = json.loads((files("privquant.planning") / "calibration.json").read_text())
    assert {name: tuple(found["users"]) for name, found in shipped["errors"].items()} == {
        row.name: row.users for row in ROWS
    }
    again = report(run_cells(cells(1, SMALL[1:]), seed=1, workers=1), SMALL[1:])
    assert shipped.keys() == again.keys()
    for part in ("shapes", "delta", "log2_sizes", "quantiles", "epsilons", "confidences"):
        assert shipped[part] == json.loads(json.dumps(again[part]))


def test_data_are_drawn_every_ten_trials():
    assert {cell.redraw for cell in cells(60, SMALL)} == {10}
    assert {cell.redraw for cell in cells(20, SMALL)} == {5}

"""The planner's laws: every setting in its place, data drawn for each run, and a document the planner can read."""

import json
from importlib.resources import files

import numpy as np
import pytest

from privquant.lab.experiment.runner import run_cells
from privquant.lab.sample import Sample
from privquant.planning.calibration import calibrated, calibration
from studies.calibration import ROWS, SAME, Row, cells, points, report, write
from studies.calibration.cliff import Cliff
from studies.calibration.settings import BITS, EPSILONS, FAMILIES, QUANTILES, spread_evenly

SMALL = (
    Row("isotonic/local", "isotonic", points=(8, 4, 8), largest=3000),
    Row("isotonic/shuffle", "isotonic", "exact", points=(3, 0, 0), largest=300, families=("typical",)),
)


def test_a_small_calibration_can_be_planned_with(tmp_path):
    found = run_cells(cells(4, SMALL, 4), seed=4, workers=1)
    document = report(found, SMALL, 4)
    assert document["made_by"] == "python -m studies calibration --trials 4 --seed 4"
    path = tmp_path / "calibration.json"
    write(document, path)
    assert calibrated(path) == ("isotonic/local", "isotonic/shuffle")
    for name in calibrated(path):
        errors = [
            calibration(name, path).error(
                users=3000, epsilon=1.0, confidence=0.9, size=2**20, quantile=0.5, kind=kind
            )
            for kind in calibration(name, path).kinds
        ]
        assert errors[0] > 0
        assert errors == sorted(errors)
        assert errors[-1] <= 0.5


def test_the_shipped_laws_are_of_these_rows():
    shipped = json.loads((files("privquant.planning") / "calibration.json").read_text())
    assert tuple(shipped["laws"]) == (*(row.name for row in ROWS), *SAME)
    assert shipped["families"] == json.loads(json.dumps(FAMILIES))
    for row in ROWS:
        assert shipped["laws"][row.name]["stretch"] == row.stretch
    assert shipped["made_by"] == "privquant calibrate --trials 10 --seed 1"


def test_every_run_has_data_of_its_own():
    assert {cell.redraw for cell in cells(4, SMALL, 4)} == {1}


@pytest.mark.parametrize("family", FAMILIES)
def test_settings_reach_from_end_to_end(family):
    made = points(Row("isotonic/local", "isotonic", points=(200, 200, 200)), family)
    for column, (low, high) in (("epsilon", EPSILONS), ("quantile", QUANTILES), ("bits", BITS)):
        values = [getattr(point, column) for point in made]
        assert low <= min(values) < low + 0.1 * (high - low)
        assert high - 0.1 * (high - low) < max(values) <= high
    # no cliff is found by ten people
    assert min(point.users for point in made) <= (50 if family == "hardest" else 10)


def test_settings_fill_the_cube_evenly():
    """Every half of every axis has half of the points, and every eighth of the cube its share to a quarter."""
    found = spread_evenly(400, 6)
    assert np.abs((found < 0.5).mean(axis=0) - 0.5).max() < 0.02
    octant = (found[:, :3] < 0.5) @ [1, 2, 4]
    assert np.abs(np.bincount(octant, minlength=8) / 50 - 1).max() < 0.25
    assert np.array_equal(found[:100], spread_evenly(100, 6))


def test_on_a_cliff_one_value_alone_will_do():
    draw = Cliff(1000, 2**16, 0.5, 0.04).draw(np.random.default_rng(1))
    place = draw.population(0.5)
    assert isinstance(draw.sample, Sample)
    errors = draw.sample.rank_error(np.array([place - 1, place, place + 1]), 0.5)
    assert errors.tolist() == pytest.approx([0.04, 0.0, 0.04])

"""The authors' recorded runs, repeated. Short form here; all 130 rows and the search for c are marked `full`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from privquant.errors import InvalidInput
from privquant.lab.experiment.runner import run_cells
from studies.published import (
    CONSTANTS,
    MECHANISMS,
    Compared,
    Recorded,
    cells,
    recorded_runs,
    report,
    two_sample_z,
    verdict,
)


def compare(rows: list[Recorded], *, trials: int, seed: int, workers: int = 1) -> list[Compared]:
    return report(rows, run_cells(cells(rows, trials), seed=seed, workers=workers))


def test_the_record_has_every_row() -> None:
    rows = recorded_runs()
    assert len(rows) == 130
    assert {row.mechanism for row in rows} == set(MECHANISMS)
    assert all(row.trials == 200 and row.c is None for row in rows)
    assert len(recorded_runs(CONSTANTS)) == 30
    assert {row.c for row in recorded_runs(CONSTANTS)} >= {0.1, 2.0}


def test_dpbayess_agrees_with_a_sample_of_the_record() -> None:
    """Six recorded rows, 300 trials each. If the rates are equal, a row is beyond 4 standard errors with
    probability 6e-5: false-alarm rate 5e-4 in all, fixed seed."""
    rows = [row for row in recorded_runs(mechanisms=["DpBayeSS"]) if row.n == 2500][4::4]
    found = compare(rows, trials=300, seed=1)
    assert len(found) == 6
    assert max(abs(row.z) for row in found) < 4
    # The whole sample has no drift either: the sum of n standard normals is beyond 4 sqrt(n) as rarely.
    assert abs(sum(row.z for row in found)) < 4 * len(found) ** 0.5


def test_another_mechanism_is_told_apart_from_the_record() -> None:
    """The comparison can fail: the naive search repeated against DpBayeSS's rows is far off."""
    rows = [row for row in recorded_runs(mechanisms=["DpBayeSS"]) if row.data == "pareto" and row.n == 2500]
    wrong = [replace(row, mechanism="DpNaiveNBS") for row in rows[4:8]]
    assert not verdict(compare(wrong, trials=300, seed=0)).agrees


@pytest.mark.full
def test_all_recorded_rows_agree() -> None:
    """130 rows, 1000 trials each: at most 3 beyond 3 standard errors (expected 0.35), none beyond 4.5."""
    found = verdict(compare(recorded_runs(), trials=1000, seed=2025, workers=0))
    assert found.rows == 130
    assert found.agrees, str(found)


@pytest.mark.full
def test_the_search_for_the_constant_agrees() -> None:
    """30 rows of the search for c, 1000 trials each, by the same rule."""
    found = verdict(compare(recorded_runs(CONSTANTS), trials=1000, seed=2025, workers=0))
    assert found.rows == 30
    assert found.agrees, str(found)


def test_the_distance_counts_the_noise_of_both_samples() -> None:
    assert two_sample_z(0.5, 1000, 0.5, 200) == 0.0
    assert two_sample_z(1.0, 1000, 1.0, 200) == 0.0
    # 0.1 / sqrt(0.25 (1/1000 + 1/200)) by hand, with a pooled rate of (580 + 100) / 1200.
    assert two_sample_z(0.6, 1000, 0.5, 200) == pytest.approx(
        0.1 / (0.5833333 * 0.4166667 * 0.006) ** 0.5, rel=1e-5
    )


def test_the_verdict_is_the_rule() -> None:
    row = recorded_runs()[0]
    good = Compared(row, 1000, row.success, 0.0)
    bad = Compared(row, 1000, 1.0, 0.0)
    assert verdict([good] * 130).agrees
    assert not verdict([good] * 129 + [bad]).agrees
    slightly = Compared(replace(row, success=0.5), 1000, 0.63, 0.0)
    assert 3 < slightly.z < 4.5
    assert verdict([good] * 127 + [slightly] * 3).agrees
    assert not verdict([good] * 126 + [slightly] * 4).agrees


def test_rows_do_not_depend_on_workers() -> None:
    rows = recorded_runs(mechanisms=["DpNaiveNBS"])[:3]
    one = [row.to_dict() for row in compare(rows, trials=20, seed=3)]
    two = [row.to_dict() for row in compare(rows, trials=20, seed=3, workers=2)]
    assert json.dumps(one) == json.dumps(two)


def test_a_row_is_repeated_in_both_behaviours() -> None:
    rows = [row for row in recorded_runs() if row.n == 2500 and row.epsilon == 1.0][:2] + recorded_runs(CONSTANTS)[
        :1
    ]
    published, text = cells(rows, 10)[-2:]
    assert published.options == {"behaviour": "published", "c": rows[-1].c}
    assert text.options == {"behaviour": "text", "c": rows[-1].c}
    assert len({cell.seed(1) for cell in cells(rows, 10)}) == 2 * len(rows)


def test_an_unknown_mechanism_is_refused() -> None:
    with pytest.raises(InvalidInput, match="DpBayeSS, DpNaiveNBS, Hierarchical"):
        recorded_runs(mechanisms=["Laplace"])

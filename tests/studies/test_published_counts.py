"""The recorded runs of DpNaiveNBS and of the hierarchical mechanism, shortened; `test_published` has all rows."""

from dataclasses import replace

from privquant.lab.experiment.runner import run_cells
from studies.published import cells, recorded_runs, report, verdict


def compare(rows, trials, seed):
    return report(rows, run_cells(cells(rows, trials), seed=seed, workers=1))


def test_the_naive_search_agrees_with_every_recorded_row():
    """45 rows, 1000 trials each. Equal rates put a row beyond 3 standard errors with 0.27 %: more than 1 of 45 with
    probability 0.7 %, any beyond 4.5 with 3e-4; fixed seed."""
    found = verdict(compare(recorded_runs(mechanisms=["DpNaiveNBS"]), trials=1000, seed=11))
    assert found.rows == 45
    assert found.agrees, str(found)


def test_the_tree_agrees_with_the_rows_that_are_not_near_zero():
    """3 rows of the smaller domain, 300 trials each: none beyond 4 standard errors, false-alarm rate 2e-4."""
    rows = [
        r for r in recorded_runs(mechanisms=["Hierarchical"]) if (r.n, r.size) == (2500, 4**8) and r.epsilon > 2
    ]
    found = compare(rows, trials=300, seed=11)
    assert len(found) == 3
    assert max(abs(row.z) for row in found) < 4


def test_another_mechanism_or_answer_is_told_apart():
    """The comparison can fail: the naive search against the tree's record, and the tree read by descent."""
    rows = [r for r in recorded_runs(mechanisms=["Hierarchical"]) if (r.n, r.size) == (2500, 4**8)][5:7]
    wrong = [replace(row, mechanism="DpNaiveNBS") for row in rows]
    assert not verdict(compare(wrong, trials=200, seed=0)).agrees
    right = compare(rows, trials=200, seed=0)
    assert all(row.text > row.recorded.success + 0.1 for row in right), "descent beats the argmin on the same tree"

"""A sweep's numbers depend on its cells and its seed, and on nothing else: not on workers, order or kills."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import privquant.lab as lab
from privquant.domain import Integers
from privquant.errors import InvalidInput, PrivquantError
from privquant.lab.data import dataset, from_values
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.runner import run_cells
from privquant.lab.trials import sweep

PARETO = "pareto:n=2500:B=4^8"
UNIFORM = "uniform-interval:n=1000:B=1000"


def small(**changes: object) -> Results:
    settings: dict[str, object] = {
        "data": [PARETO, UNIFORM],
        "protocols": ["naive", ("naive", {"behaviour": "published"})],
        "epsilons": [0.5, 2.0],
        "quantiles": [0.5, 0.8],
        "trials": 120,
        "seed": 7,
        "workers": 1,
    }
    return sweep(**{**settings, **changes})  # type: ignore[arg-type]


def test_the_same_numbers_for_any_number_of_workers() -> None:
    one, two = small(workers=1), small(workers=2)
    assert one.rows == two.rows
    assert one.trial_rows == two.trial_rows
    assert small(seed=8).rows != one.rows


def test_other_cells_in_the_grid_change_nothing() -> None:
    by_key = {cell.key: row for cell, row in zip(small().cells, small().rows, strict=True)}
    fewer = small(epsilons=[2.0], quantiles=[0.8])
    assert len(fewer.cells) == 4
    for cell, row in zip(fewer.cells, fewer.rows, strict=True):
        assert by_key[cell.key] == row


def test_more_trials_extend_a_cell() -> None:
    """In whole blocks of 50: the first 100 of 120 trials are those of a sweep of 100."""
    short = small(trials=100, epsilons=[0.5], quantiles=[0.5])
    long = small(trials=120, epsilons=[0.5], quantiles=[0.5])
    for a, b in zip(short.outcomes, long.outcomes, strict=True):
        assert np.array_equal(a.answers, b.answers[:100])


def test_a_row_can_be_run_again_by_trials() -> None:
    found = small(epsilons=[0.5], quantiles=[0.8])
    cell, row = found.cells[0], found.rows[0]
    again = lab.trials(
        dataset("pareto", n=2500, size=4**8).indices(),
        protocol="naive",
        epsilon=0.5,
        domain=Integers(0, 4**8 - 1),
        quantile=0.8,
        trials=120,
        seed=row["cell_seed"],
    )
    assert np.array_equal(again.indices, found.outcomes[0].answers)
    assert row["success_0.04"] == again.success(0.04)
    assert row["rank_error_mean"] == pytest.approx(float(again.rank_errors().mean()))
    assert cell.seed(7) == row["cell_seed"]


def test_seeds_of_cells_are_their_own() -> None:
    cells = small().cells
    assert len({cell.seed(7) for cell in cells}) == len(cells)
    assert all(0 <= cell.seed(7) < 2**63 for cell in cells)
    assert cells[0].seed(7) != cells[0].seed(8)


def test_measures_follow_their_definitions() -> None:
    """Success, rank error and the paper's |F(m) - F(true m)| against the definitions, one trial at a time."""
    found = small(epsilons=[0.5], trials=50)
    for cell, outcome, row in zip(found.cells, found.outcomes, found.rows, strict=True):
        values = np.sort(cell.data.indices())
        q, n = cell.quantile, values.size

        def cdf(v: int, values: np.ndarray = values, n: int = n) -> float:
            return sum(1 for x in values.tolist() if x <= v) / n

        truth = next(v for v in values.tolist() if cdf(v) >= q - 1e-12)
        answers = outcome.answers[:12, 0].tolist()
        good = [cdf(v - 1) < q + 0.04 and cdf(v) > q - 0.04 for v in answers]
        assert outcome.hits(0.04)[:12].tolist() == good
        assert outcome.abs_errors()[:12] == pytest.approx([abs(cdf(v - 1) - cdf(truth)) for v in answers])
        assert outcome.rank_errors()[:12] == pytest.approx([max(0, cdf(v - 1) - q, q - cdf(v)) for v in answers])
        rate = row["success_0.04"]
        assert row["success_sd_0.04"] == pytest.approx((rate * (1 - rate) / 50) ** 0.5)


def test_own_values_and_rounds() -> None:
    values = from_values(np.random.default_rng(1).integers(-50, 50, 400), Integers(-100, 100), name="mine")
    found = sweep([values], protocols="naive", epsilons=3.0, rounds=[None, 8], trials=60, seed=1, workers=2)
    assert [row["rounds"] for row in found.rows] == [None, 8]
    assert all(row["data"] == "mine" and -100 <= row["truth"] <= 100 for row in found.rows)
    assert (
        found.rows
        == sweep([values], protocols="naive", epsilons=3.0, rounds=[None, 8], trials=60, seed=1, workers=1).rows
    )


# -- files -----------------------------------------------------------------------------------------------------


def test_csv_has_the_versions_and_the_seed(tmp_path: Path) -> None:
    found = small(out=tmp_path / "grid.csv")
    with (tmp_path / "grid.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert list(rows[0]) == list(found.rows[0])
    assert rows[0]["seed"] == "7"
    assert rows[0]["numpy"] == np.__version__
    assert rows[0]["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert {"privquant", "numba", "cell_seed", "success_0.04", "success_sd_0.04", "B", "n"} <= set(rows[0])
    assert float(rows[3]["success_0.04"]) == found.rows[3]["success_0.04"]
    assert not (tmp_path / "grid.csv.journal").exists()


def test_parquet_and_one_row_a_trial(tmp_path: Path) -> None:
    found = small(out=tmp_path / "grid.parquet", epsilons=[0.5])
    assert pq.read_table(tmp_path / "grid.parquet").to_pylist() == found.rows
    found.write(tmp_path / "answers.parquet", per="trial")
    table = pq.read_table(tmp_path / "answers.parquet").to_pylist()
    assert len(table) == 8 * 120
    assert table == found.trial_rows


def test_the_largest_domain_fits_a_parquet_file(tmp_path: Path) -> None:
    sweep(
        ["uniform-interval:n=100:B=2^63"],
        protocols=["naive"],
        epsilons=[1.0],
        trials=3,
        seed=1,
        workers=1,
        out=tmp_path / "huge.parquet",
    )
    assert pq.read_table(tmp_path / "huge.parquet").to_pylist()[0]["B"] == 2**63


# -- interruption ----------------------------------------------------------------------------------------------

SCRIPT = """
from privquant.lab.trials import sweep
sweep(["pareto:n=2500:B=4^8"], protocols=["bayeslearn"], epsilons=[0.1 * k for k in range(1, 31)],
      trials=5, rounds=[16], seed=3, workers=2, out={out!r})
"""


def grid(out: Path | None, **more: object) -> Results:
    return sweep(
        ["pareto:n=2500:B=4^8"],
        protocols=["bayeslearn"],  # with rounds the object itself asks, which takes long enough to be killed
        epsilons=[0.1 * k for k in range(1, 31)],
        trials=5,
        rounds=[16],
        seed=3,
        out=out,
        **more,  # type: ignore[arg-type]
    )


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def test_a_killed_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "killed.csv"
    journal = tmp_path / "killed.csv.journal"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(out=str(out))])
    try:
        deadline = time.monotonic() + 60
        while not journal.exists() or journal.read_text().count("\n") < 4:
            assert process.poll() is None, "the sweep ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        workers = children(process.pid)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    kept = journal.read_text().count("\n") - 1
    assert 0 < kept < 30
    assert not out.exists()
    # Workers of a killed parent end by themselves.
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in workers):
            break
        time.sleep(0.1)
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)

    with pytest.raises(InvalidInput, match="holds finished cells of an interrupted sweep: say resume"):
        grid(out, workers=1)
    # A line cut short by the kill is dropped; a finished cell is not run again, which a marked one shows.
    lines = journal.read_text().splitlines()
    marked = json.loads(lines[1])
    marked["answers"][0] = [12345]
    journal.write_text("\n".join([lines[0], json.dumps(marked), *lines[2:], lines[1][:40]]))
    resumed = grid(out, workers=2, resume=True)
    whole = grid(None, workers=1)
    differing = [(a.answers != b.answers).sum() for a, b in zip(resumed.outcomes, whole.outcomes, strict=True)]
    assert sorted(differing)[-2:] == [0, 1]
    assert [row["success_0.04"] for row in resumed.rows] == [row["success_0.04"] for row in whole.rows]
    assert out.exists()
    assert not journal.exists()


def test_an_interrupted_sweep_resumes_to_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted (Ctrl-C) after five cells, resumed: byte for byte the file of a sweep that was not."""
    from privquant.lab.experiment.runner import Journal

    small(out=tmp_path / "whole.csv")
    add, seen = Journal.add, []

    def interrupting(self: Journal, *given: object) -> None:
        add(self, *given)  # type: ignore[arg-type]
        seen.append(given)
        if len(seen) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "add", interrupting)
    with pytest.raises(KeyboardInterrupt):
        small(out=tmp_path / "cut.csv")
    monkeypatch.undo()
    small(out=tmp_path / "cut.csv", resume=True)
    assert (tmp_path / "cut.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_journal_of_another_sweep_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "grid.csv.journal"
    journal.write_text(json.dumps({"format": 2, "seed": 99}) + "\n")
    with pytest.raises(InvalidInput, match=r"of another sweep: .*seed was 99, is now 7"):
        small(out=tmp_path / "grid.csv", resume=True)
    journal.write_text("garbage\nmore\n")
    with pytest.raises(InvalidInput, match="damaged"):
        small(out=tmp_path / "grid.csv", resume=True)


# -- bad input -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"data": [5]}, "data are DataSets or lines of text, got 5"),
        ({"protocols": []}, "protocols is empty"),
        ({"protocols": ["navie"]}, "unknown protocol 'navie'"),
        ({"protocols": [("naive", {"colour": 1})]}, "no option 'colour'"),
        ({"epsilons": [0.0]}, "epsilon must be a finite number above 0"),
        ({"quantiles": [1.0]}, "quantile must lie strictly between 0 and 1"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"workers": -1}, "workers must be at least 0"),
        ({"rounds": [0]}, "rounds must be at least 1"),
        ({"draw": "sometimes"}, "draw must be one of"),
        ({"alphas": [0.0]}, "alpha must be a number strictly between 0 and 1"),
        ({"out": "grid.xlsx"}, "a table is written to .csv or .parquet"),
        ({"out": "nowhere/grid.csv"}, "there is no folder nowhere"),
        ({"resume": True}, "resume needs out"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(changes: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        small(**changes)
    assert says in str(caught.value)


def test_cells_that_occur_twice_run_once() -> None:
    cell = Cell.of(dataset("pareto", n=500, size=1024), "naive", 1.0, trials=60)
    found = run_cells([cell, cell], seed=1, workers=1)
    assert found.rows[0] == found.rows[1]


def test_a_table_that_is_there_is_not_replaced_silently(tmp_path: Path) -> None:
    out = tmp_path / "grid.csv"
    out.write_text("somebody's work\n")
    with pytest.raises(InvalidInput, match="is there already; give another name, or say overwrite=True"):
        small(out=out)
    assert out.read_text() == "somebody's work\n"
    small(out=out, overwrite=True, epsilons=[2.0], trials=5)
    assert out.read_text().startswith("data,n,B,")


def test_a_sweep_as_a_data_frame() -> None:
    found = small(trials=5, epsilons=[2.0], rounds=[None, 4])
    pandas, polars = found.to_pandas(), found.to_polars()
    assert list(pandas.columns) == polars.columns == list(found.rows[0])
    assert pandas["rank_error_mean"].tolist() == polars["rank_error_mean"].to_list()
    assert polars["rounds"].to_list() == [row["rounds"] for row in found.rows]
    assert len(found.to_pandas(per="trial")) == found.to_polars(per="trial").height == 5 * len(found.rows)
    with pytest.raises(InvalidInput, match="per must be one of 'cell', 'trial', got 'day'"):
        found.to_pandas(per="day")


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(PrivquantError, match="this needs polars, which is not installed: pip install polars"):
        small(trials=5, epsilons=[2.0]).to_polars()

"""The runner's promises: killed workers and other executors change no number, and a broken executor loses none."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from privquant.errors import PrivquantError
from privquant.lab.data import dataset
from privquant.lab.experiment import runner
from privquant.lab.experiment.cell import Cell, Registered, Shuffled
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.runner import run_cells
from privquant.lab.experiment.source import Drawn
from privquant.lab.schedule import Schedule

TRIALS = 30


def cells(protocol: str = "bayeslearn") -> list[Cell]:
    """Asked by the object itself (rounds), so that a block takes long enough to be killed in the middle."""
    data = dataset("pareto", n=2000, size=4**8)
    return [
        Cell.of(data, protocol, epsilon, trials=TRIALS, schedule=Schedule.rounds(16))
        for epsilon in (0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
    ]


def same(a: Results, b: Results) -> bool:
    return all(np.array_equal(x.answers, y.answers) for x, y in zip(a.outcomes, b.outcomes, strict=True))


def kill_a_worker(killed: list[int], times: int) -> threading.Thread:
    """SIGKILL to a child of this process that is a worker of the pool, `times` times."""

    def children() -> list[int]:
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                found.append(int(stat.parent.name))
        return found

    before = set(children())

    def hunt() -> None:
        deadline = time.monotonic() + 60
        while len(killed) < times and time.monotonic() < deadline:
            for pid in set(children()) - before - set(killed):
                time.sleep(0.3)
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                killed.append(pid)
                break
            time.sleep(0.02)

    thread = threading.Thread(target=hunt, daemon=True)
    thread.start()
    return thread


def test_a_killed_worker_changes_no_number(tmp_path: Path) -> None:
    whole = run_cells(cells(), seed=5, workers=1)
    killed: list[int] = []
    thread = kill_a_worker(killed, 2)
    disturbed = run_cells(cells(), seed=5, workers=2, out=tmp_path / "table.csv")
    thread.join(1.0)
    assert len(killed) == 2, "the sweep ended before two workers could be killed"
    assert same(whole, disturbed)
    assert disturbed.rows == whole.rows


def test_workers_that_always_die_end_the_run_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_work", _die)
    with pytest.raises(PrivquantError, match="died 5 times without finishing a block"):
        run_cells(cells("naive"), seed=5, workers=2)


def _die(job: runner.Job) -> Outcome:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_gives_the_same_numbers(kind: type[ThreadPoolExecutor]) -> None:
    whole = run_cells(cells("naive"), seed=5, workers=1)
    with kind(2) as executor:
        assert same(whole, run_cells(cells("naive"), seed=5, executor=executor))
    with kind(2) as executor:
        assert not same(whole, run_cells(cells("naive"), seed=6, executor=executor))


def test_a_broken_executor_ends_the_run_with_its_journal(tmp_path: Path) -> None:
    """A caller's executor is the caller's to mend: the run stops, and goes on from what was finished."""
    out = tmp_path / "table.csv"
    killed: list[int] = []
    with ProcessPoolExecutor(1) as executor:
        executor.submit(os.getpid).result()
        [worker] = list(executor._processes)
        thread = threading.Thread(target=_kill_after_a_cell, args=(out, worker, killed), daemon=True)
        thread.start()
        with pytest.raises(BrokenExecutor):
            run_cells(cells(), seed=5, executor=executor, out=out)
    assert killed
    journal = out.with_name(out.name + ".journal")
    assert journal.read_text().count("\n") >= 2
    resumed = run_cells(cells(), seed=5, workers=1, out=out, resume=True)
    assert same(resumed, run_cells(cells(), seed=5, workers=1))


def _kill_after_a_cell(out: Path, worker: int, killed: list[int]) -> None:
    journal = out.with_name(out.name + ".journal")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if journal.exists() and journal.read_text().count("\n") >= 2:
            os.kill(worker, signal.SIGKILL)
            killed.append(worker)
            return
        time.sleep(0.01)


# -- sources, templates and claims -----------------------------------------------------------------------------


def test_drawn_users_are_drawn_anew_and_know_their_population() -> None:
    cell = Cell(Drawn("uniform", 400, 10**6), Registered("naive", 1.0), trials=60, redraw=10)
    [outcome] = run_cells([cell], seed=1, workers=1).outcomes
    assert len(np.unique(outcome.truth)) == 6
    assert (outcome.population >= 0).all()
    assert np.abs(outcome.population - outcome.truth).max() > 0
    fixed = Cell.of(dataset("pareto", n=400, size=1000), "naive", 1.0, trials=60)
    [outcome] = run_cells([fixed], seed=1, workers=1).outcomes
    assert len(np.unique(outcome.truth)) == 1
    assert (outcome.population == -1).all()


def test_a_large_drawn_crowd_repeats_a_histogram() -> None:
    sample = Drawn("pareto", 300_000, 4**9).draw(np.random.default_rng(1)).sample
    assert sample.n == 300_000
    assert (np.diff(np.concatenate(([0], sample.cumulative))) % 3 == 0).all()
    with pytest.raises(PrivquantError, match="is a multiple of that, got 100001"):
        Drawn("pareto", 100_001, 4**9)


def test_shuffled_templates_fit_a_cell() -> None:
    for name in ("isotonic", "naive"):
        cell = Cell(Drawn("pareto", 20_000, 4**9), Shuffled(name, 1.0, 1e-6), trials=4, redraw=2)
        assert cell.made().guarantee.trust == "shuffle"
        [outcome] = run_cells([cell], seed=1, workers=1).outcomes
        assert outcome.rank_errors().mean() < 0.05
    with pytest.raises(PrivquantError, match="protocol with a shuffled form must be one of"):
        Shuffled("bayess", 1.0, 1e-6)


def test_claims_are_kept_beside_the_answers() -> None:
    data = Drawn("pareto", 2500, 4**9)
    certified = Cell.of(data, "isotonic", 1.0, options={"interval": 0.9}, claim="certified", trials=4, redraw=1)
    unguarded = {"guard": False}
    control = Cell.of(data, "isotonic", 1.0, options=unguarded, claim="likelihood-ratio", trials=4, redraw=1)
    wide, narrow = run_cells([certified, control], seed=1, workers=1).outcomes
    assert wide.low.shape == wide.high.shape == (4, 1)
    assert (narrow.widths() < wide.widths()).all()
    below, above = wide.missed()
    assert not (below & above).any()
    plain = Cell.of(data, "isotonic", 1.0, trials=4)
    assert run_cells([plain], seed=1, workers=1).outcomes[0].low.shape == (4, 0)
    with pytest.raises(PrivquantError, match="claimed by isotonic search only"):
        Cell.of(data, "naive", 1.0, claim="certified")


def test_an_outcome_survives_its_journal() -> None:
    cell = Cell.of(
        Drawn("pareto", 500, 4**9), "isotonic", 1.0, options={"interval": 0.9}, claim="certified", trials=3
    )
    [outcome] = run_cells([cell], seed=1, workers=1).outcomes
    again = Outcome.from_dict(outcome.to_dict())
    for name in ("answers", "below", "upto", "truth", "truth_upto", "population", "low", "high", "low_below"):
        assert np.array_equal(getattr(again, name), getattr(outcome, name))
    assert again.quantiles == outcome.quantiles


def test_every_cell_of_a_study_has_a_seed_of_its_own() -> None:
    data = Drawn("pareto", 500, 4**9)
    made = [
        Cell.of(data, "isotonic", 1.0),
        Cell.of(data, "isotonic", 1.0, schedule=Schedule.rounds(8)),
        Cell.of(data, "isotonic", 1.0, schedule=Schedule.equal(8)),
        Cell.of(data, "isotonic", 1.0, users=100),
        Cell.of(data, "isotonic", 1.0, redraw=7),
        Cell.of(data, "isotonic", 1.0, claim="likelihood-ratio"),
        Cell(data, Shuffled("isotonic", 1.0, 1e-6)),
        Cell(data, Shuffled("isotonic", 1.0, 1e-6, method="clones")),
    ]
    assert len({cell.seed(1) for cell in made}) == len(made)

"""The table of liars: what it runs, and that it shows what the guard does."""

import numpy as np
import pytest

from privquant.errors import InvalidInput
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.runner import run_cells
from privquant.lab.experiment.source import Drawn
from privquant.lab.sample import Sample
from privquant.messages import Query
from privquant.privacy.coin import flip_threshold
from studies import liars
from studies.attack import Attack, UsersAndLiars
from studies.table import Runs


def test_the_table_shows_liars_at_the_end_without_and_with_the_guard(monkeypatch):
    """40 runs a cell, fixed seed: .40 against .05 in the long form, where the bound is .057."""
    monkeypatch.setattr(liars, "ROWS", (liars.ROWS[1],))
    monkeypatch.setattr(liars, "OTHER_ROWS", liars.ROWS)
    monkeypatch.setattr(liars, "USERS", (2_000,))
    monkeypatch.setattr(liars, "SHAPES", ("normal",))
    monkeypatch.setattr(liars, "OTHERS", ("naive",))
    results = run_cells(liars.cells(Runs(800, 1)), seed=1, workers=1)
    found = results.by_note("cell")
    before, after = (found[liars._name(liars.ROWS[0], 2_000, "normal", guard)] for guard in ("False", "True"))
    assert liars.moved(before) > 0.2
    assert liars.moved(after) < 0.1
    assert before.alarms.sum() == 0
    assert after.alarms[:, 0].mean() > 0.9
    shown = liars.report(results)
    assert f"| last 5 % | 0.5 | 0.057 | {liars.moved(before):.3f} -> {liars.moved(after):.3f}, " in shown
    again = Outcome.from_dict(after.to_dict())
    assert np.array_equal(again.alarms, after.alarms)


def test_every_row_can_be_run():
    assert len({cell.key for cell in liars.cells(Runs(4_000, 1))}) == len(liars.cells(Runs(4_000, 1)))


@pytest.mark.parametrize(
    ("when", "first", "last"),
    [("first", 0, 5), ("middle", 50, 55), ("last", 95, 100), ("thin", 80, 100), ("spread", 0, 100)],
)
def test_liars_come_when_they_are_said_to(when, first, last):
    found = Attack(0.05, when).liars(100, np.random.default_rng(1))
    assert found.sum() == 5
    assert found[first:last].sum() == 5


def test_a_liar_sends_its_bit_or_answers_by_a_fake_value_through_the_coin():
    sample, coin = Sample(np.arange(1000), 1000), flip_threshold(2.0)
    queries = [Query(threshold, coin) for threshold in (100, 900) for _ in range(500)]

    def said(attack):
        users = UsersAndLiars(sample, attack, 4_000, np.random.default_rng(2))
        bits = [report.bit for report in users.answer(queries)]
        return np.mean(bits[:500]), np.mean(bits[500:])

    assert said(Attack(0.25, "first", bit=1)) == (1.0, 1.0)
    low, high = said(Attack(0.25, "first", rank=0.5))
    flip = coin / 2**64
    # 500 throws each: 4 deviations, false alarm 1e-4
    assert low == pytest.approx(flip, abs=4 * np.sqrt(flip * (1 - flip) / 500))
    assert high == pytest.approx(1 - flip, abs=4 * np.sqrt(flip * (1 - flip) / 500))


def test_withheld_reports_are_given_back_at_the_end():
    users = UsersAndLiars(
        Sample(np.arange(100), 100), Attack(0.1, "first", withheld=True), 100, np.random.default_rng(3)
    )
    queries = [Query(50, flip_threshold(1.0))] * 30
    assert len(users.answer(queries)) == 20
    assert len(users.late()) == 10


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"share": 0.3}, "share of liars lies from 0 to 0.25"),
        ({"share": 0.1, "when": "noon"}, "when must be one of"),
        ({"share": 0.1, "bit": 2}, "a liar's bit is 0 or 1"),
        ({"share": 0.1, "rank": 1.5}, "rank must be a number"),
    ],
)
def test_attacks_that_cannot_be_are_refused(given, message):
    with pytest.raises(InvalidInput, match=message):
        Attack(**given)


def test_liars_are_some_of_the_users_who_are_asked_once():
    with pytest.raises(InvalidInput, match="draw is 'empirical'"):
        Cell.of(Drawn("normal", 100, 1000), "isotonic", 1.0, attack=Attack(0.05), draw="statistical")

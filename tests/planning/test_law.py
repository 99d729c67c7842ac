"""The law of rank errors: its unit, its ends, and that it goes the way it must."""

import math

import numpy as np
import pytest

from privquant.errors import InvalidInput
from privquant.planning.asking import AskingSchedule
from privquant.planning.calibration import (
    CALIBRATED_DELTA,
    PRODUCTS,
    calibration,
    coin_of_round,
    law_of,
    liars_face,
    shuffled_kappa,
)
from privquant.planning.law import FEW, Law, Run, normal_tail, unit
from privquant.planning.limits import information_limit, limit_of_the_asked
from privquant.privacy.shuffle import local_epsilon
from privquant.protocols.isotonic.shuffled import shuffled_isotonic
from studies.calibration.law_fit import Counts, features, fitted

NORMAL = Law((*[0.0] * len(FEW), 1.0, *[0.0] * (2 * len(FEW) - 1)), FEW)
SETTINGS = [
    {"epsilon": epsilon, "quantile": q, "size": size}
    for epsilon in (0.2, 1.0, 3.0)
    for q in (0.03, 0.5, 0.9, 0.98)
    for size in (2**10, 2**36)
]


def test_the_unit_is_between_the_two_limits():
    """The coin's noise alone is less, the coin's and all of the sampling error more."""
    for epsilon in (0.2, 1.0, 3.0):
        for q in (0.1, 0.5, 0.9):
            one = float(unit(Run(1000.0, math.tanh(epsilon / 2), q, 20.0)))
            asked = {"alpha": one, "epsilon": epsilon, "confidence": 0.6827, "quantile": q}
            assert limit_of_the_asked(**asked) < 1000 < information_limit(**asked)
    whole = Run(1000.0, math.tanh(0.5), 0.5, 20.0, share=0.0)
    asked = {"alpha": float(unit(whole)), "epsilon": 1.0, "confidence": 0.6827}
    assert information_limit(**asked) == pytest.approx(1000, rel=1e-3)


def test_no_rank_error_passes_an_end():
    run = Run(50.0, 0.3, 0.9, 20.0)
    assert NORMAL.failure(0.95, 0.2, run) == 0.0
    only_below = NORMAL.failure(0.1, 0.1, run)
    assert only_below == pytest.approx(float(normal_tail(0.1 / float(unit(run)))))
    assert NORMAL.failure(0.1, 0.0999, run) > 1.9 * only_below


@pytest.mark.parametrize("name", ["isotonic/local", "isotonic/shuffle", "naive/local", "bayeslearn/local"])
def test_more_users_a_larger_epsilon_and_easier_data_never_hurt(name):
    """Over all that can be planned, to a hundredth: a fitted law may bend by less than it is known."""
    table = calibration(name)
    for setting in SETTINGS:
        for kind in ("typical", "lumpy"):
            for alpha in (0.01, 0.05):
                if alpha >= min(setting["quantile"], 1 - setting["quantile"]):
                    continue
                crowds = [10, 100, 1000, 10**4, 10**6, 10**8]
                by_users = [table.failure(kind, alpha, alpha, users=n, **setting) for n in crowds]
                # A plan that fails more often than not is no plan: there a law may bend.
                steps = np.diff(np.minimum(by_users, 0.5))
                assert np.all(steps <= (0.01 if name.startswith("isotonic") else 0.06)), (setting, kind, by_users)
    for setting in SETTINGS[::5]:
        errors = [table.error(users=3000, confidence=0.9, kind=kind, **setting) for kind in table.kinds]
        assert errors == sorted(errors)
        assert 0 < errors[0] <= max(setting["quantile"], 1 - setting["quantile"])
        surer = [table.error(users=3000, confidence=c, **setting) for c in (0.5, 0.8, 0.95, 0.99)]
        assert surer == sorted(surer)
        if "shuffle" not in name:
            private = [
                table.error(users=3000, confidence=0.9, **{**setting, "epsilon": e}) for e in (0.1, 0.5, 1, 2, 4)
            ]
            assert private == sorted(private, reverse=True)


def test_few_people_are_not_read_as_a_hundred():
    at = {"epsilon": 1.0, "confidence": 0.8, "size": 2**20, "quantile": 0.5}
    table = calibration("isotonic/local")
    errors = [table.error(users=n, **at) for n in (10, 30, 100, 300)]
    assert errors == sorted(errors, reverse=True)
    assert errors[1] > 1.4 * errors[2]


def test_the_fit_finds_a_law_from_its_own_counts():
    """10,000 runs a setting of errors two units wide: told from errors of one unit, and within 2 % of the truth."""
    rng = np.random.default_rng(3)
    z = np.tile([0.5, 1.0, 2.0, 3.0], 50)
    run = Run(rng.uniform(100, 1e4, 200), np.full(200, 0.4), np.full(200, 0.5), rng.uniform(8, 40, 200))
    truth = normal_tail(z / 2.0)
    counts = Counts(z, np.ones(200), run, np.full(200, 1e4), rng.binomial(10_000, truth).astype(float))
    law = fitted(counts, "smooth")
    found = normal_tail(features(z, np.ones(200), run, PRODUCTS["smooth"]) @ np.array(law["coefficients"]))
    assert np.abs(found - truth).max() < 0.02
    assert np.abs(normal_tail(z) - truth).max() > 0.1


def test_coins_read_between_sizes_are_those_of_exact_accounting():
    for epsilon, batch in ((0.2, 700), (1.0, 3000), (1.0, 45), (3.0, 90_000)):
        exact = max(local_epsilon(epsilon=epsilon, delta=1e-8, batch=batch), epsilon)
        assert coin_of_round(batch, epsilon, 1e-8) == pytest.approx(exact, rel=0.07)
    assert coin_of_round(2.0**30, 1.0, 1e-8) > coin_of_round(2.0**24, 1.0, 1e-8)


def test_a_smaller_delta_costs_users_where_coins_are_the_limit():
    at = {"users": 3000, "epsilon": 0.3, "confidence": 0.9, "size": 2**20, "quantile": 0.5}
    table = calibration("isotonic/shuffle")
    strict, plain = (table.error(**at, delta=d) for d in (1e-12, CALIBRATED_DELTA))
    assert 1.05 * plain < strict < 1.6 * plain


def test_what_shuffled_rounds_tell_is_what_the_real_run_throws():
    users, epsilon, delta = 20_000, 1.0, 1e-8
    made = shuffled_isotonic((0, 2**20 - 1), users=users, epsilon=epsilon, delta=delta)
    from privquant.privacy.coin import Coin

    real = math.sqrt(sum(n * Coin(coin).kappa ** 2 for n, coin in made.rounds) / users)
    assert shuffled_kappa("isotonic", users, epsilon, delta, 2**20, "exact") == pytest.approx(real, rel=0.01)
    assert 2.0 < liars_face(users, epsilon, delta, 2**20) < made.epsilon


def test_every_pace_costs_users():
    table = calibration("isotonic/local")
    at = {"users": 5000, "epsilon": 1.0, "confidence": 0.9, "size": 2**20, "quantile": 0.5}
    plain = table.error(**at)

    def error(**schedule):
        return table.error(**at, schedule=AskingSchedule(**schedule))

    for schedule in ({"quantiles": (0.25, 0.5, 0.9)}, {"interval": 0.95}, {"rounds": 10}, {"in_flight": 1000}):
        assert error(**schedule) > 1.02 * plain, schedule
    assert error(rounds=10) > error(rounds=100)
    assert error(in_flight=2000) > error(in_flight=50)


def test_a_law_of_another_form_is_refused():
    with pytest.raises(InvalidInput, match=f"such a law has {3 * len(FEW)} coefficients, got 2"):
        law_of({"features": "few", "coefficients": [1.0, 2.0]})

"""The curve through the rates: the likeliest one, where it should be, and never trusted beyond the isotonic fit."""

from statistics import NormalDist

import numpy as np
import pytest
from scipy.optimize import minimize

from privquant.protocols.isotonic import curve, rules
from privquant.protocols.isotonic.posterior import profile, to_weights
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.table import add_counts, new_table

KAPPA = 0.5
LAST = 10**6 - 1
UNIFORM = Search(LAST, 0.0, np.array([KAPPA]))
WINDOW = (400_000, 600_000)
MANY = 10**7


def normal(score):
    return NormalDist().cdf(score)


def table_of(share, thresholds, reports=MANY, search=UNIFORM):
    """A table without noise: at each threshold c the rate of a distribution function share(c)."""
    table = new_table(len(thresholds) + 20)
    for c in thresholds:
        rate = 0.5 + float(search.kappas[0]) * (share(c) - 0.5)
        add_counts(table, search, 0, -1, False, c, reports, round(rate * reports))
    return table


def spread_out(count=41, window=WINDOW):
    return np.linspace(*window, count).astype(int).tolist()


def noisy(seed, count=60):
    """Places and weighted counts as a search leaves them, for the arithmetic alone."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.normal(0.0, 0.3, count))
    n = rng.integers(1, 60, count).astype(float)
    shares = np.array([normal(2.5 * place) for place in x])
    s = rng.binomial(n.astype(int), 0.5 + KAPPA * (shares - 0.5)).astype(float)
    weight = rng.uniform(0.2, 1.0, count)
    return x, weight * n, weight * s


@pytest.mark.parametrize("count", [60, 500])
@pytest.mark.parametrize("seed", range(6))
def test_the_fit_is_the_likeliest_curve(seed, count):
    """Against scipy's simplex search from several starts, which knows nothing of the gradient."""
    x, n, s = noisy(seed, count)
    height = 0.25
    given = curve.Seen(x, n, s, KAPPA, 0.25, height)
    found = curve.fit_curve(given)
    best = max(
        -minimize(lambda p: -curve.log_likelihood(given, p), start, method="Nelder-Mead").fun
        for start in ([0.0, 1.0, 0.0], [0.2, 2.0, 0.0], [-0.2, 0.0, 0.0])
    )
    assert curve.log_likelihood(given, found) >= best - 1e-3


def test_pooled_thresholds_keep_all_reports_and_their_mean_place():
    x, n, s = noisy(3, 500)
    seen = curve.Seen(x, n, s, KAPPA, 0.25, 0.1)
    places, reports, ones, *rest = curve._pooled(seen, 64)
    assert tuple(rest) == seen[3:]
    assert np.all(np.diff(places) > 0.0)
    for pooled, each in ((reports, n), (ones, s), (reports * places, n * x)):
        assert pooled.sum() == pytest.approx(each.sum())
    # as many groups as thresholds change nothing
    for pooled, each in zip(curve._pooled(seen, 500), seen, strict=True):
        assert pooled == pytest.approx(each)


@pytest.mark.parametrize("count", [50, 300])
@pytest.mark.parametrize("seed", range(20))
def test_the_search_starts_from_the_likeliest_curve_of_the_grid(seed, count):
    """However many thresholds there are: those tried after pooling have the best one among them."""
    given = curve.Seen(*noisy(seed, count), KAPPA, 0.25, 0.1)
    grid = [
        np.array([place, np.log(0.25) + power * np.log(3.0), 0.0])
        for place in (-0.5, -0.25, 0.0, 0.25, 0.5)
        for power in range(9)
    ]
    best = max(grid, key=lambda at: curve.log_likelihood(given, at))
    assert curve._start(given) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("share", [1e-9, 0.01, 0.3, 0.5, 0.99, 1.0 - 1e-9])
def test_the_normal_score_is_the_inverse_of_the_distribution(share):
    assert curve.normal_score(share) == pytest.approx(NormalDist().inv_cdf(share), abs=1e-7)


@pytest.mark.parametrize("at", [(0.1, 1.0, 0.2), (-0.3, 2.0, -0.5), (0.0, 0.0, 0.0)])
def test_the_gradient_is_that_of_the_objective(at):
    given = curve.Seen(*noisy(9), KAPPA, 0.25, 0.3)
    gradient, information = np.empty(3), np.empty((3, 3))
    curve.slopes(given, np.array(at), gradient, information)
    for i in range(3):
        step = np.zeros(3)
        step[i] = 1e-6
        ahead, behind = (curve.log_likelihood(given, np.array(at) + sign * step) for sign in (1, -1))
        assert gradient[i] == pytest.approx((ahead - behind) / 2e-6, rel=1e-4, abs=1e-4)
    assert np.all(np.linalg.eigvalsh(information) > 0.0)


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.75, 0.99])
@pytest.mark.parametrize("place", [470_000, 500_000, 533_333])
def test_a_normal_distribution_is_found_exactly(quantile, place):
    height = NormalDist().inv_cdf(quantile)
    table = table_of(lambda c: normal(height + (c - place) / 20_000), spread_out())
    assert curve.curve_crossing(table, UNIFORM, quantile, 510_000, *WINDOW) == pytest.approx(place, abs=60)


def test_a_distribution_that_rises_faster_on_one_side_is_found_nearly():
    """A symmetric curve is off by more: the twin that shows what the third parameter is for."""
    place = 500_000

    def share(c):
        return normal((c - place) / (40_000 if c < place else 15_000))

    table = table_of(share, spread_out(window=(380_000, 560_000)), reports=2000)
    found = curve.curve_crossing(table, UNIFORM, 0.5, 490_000, 380_000, 560_000)
    assert found == pytest.approx(place, abs=1500)
    x = (table.threshold[:41] - 490_000) / 180_000
    given = curve.Seen(x, table.reports[0, :41], table.ones[0, :41], KAPPA, 0.25, 0.0)
    even = minimize(lambda p: -curve.log_likelihood(given, np.array([*p, 0.0])), [0.0, 2.0], method="Nelder-Mead")
    assert abs(490_000 + even.x[0] * 180_000 - place) > 3000


def test_the_answer_is_the_first_value_that_reaches_the_quantile():
    """Values 0 .. 40, F(c) = Phi((c - 20.3) / 4): F(20) < 1/2 <= F(21)."""
    small = Search(40, 0.0, np.array([KAPPA]))
    for place, wanted in ((20.3, 21), (20.9, 21), (20.98, 21), (21.1, 22)):
        table = table_of(lambda c, place=place: normal((c - place) / 4.0), range(5, 36), search=small)
        assert curve.curve_crossing(table, small, 0.5, 19, 4, 36) == wanted
        assert curve.curve_crossing(table, small, 0.5, 24, 4, 36) == wanted


def test_reports_for_another_quantile_bend_the_curve_little():
    """A hundred times as many reports far above, where no normal curve through the window passes."""
    table = table_of(lambda c: normal((c - 500_000) / 50_000), spread_out(), reports=100)
    for c in spread_out(11, (700_000, 720_000)):
        add_counts(table, UNIFORM, 0, -1, False, c, 40_000, 29_600)
    assert curve.curve_crossing(table, UNIFORM, 0.5, 500_000, *WINDOW) == pytest.approx(500_000, abs=100)
    # with all of the domain for a window nothing is outside, and every report weighs the same
    assert abs(curve.curve_crossing(table, UNIFORM, 0.5, 500_000, 0, LAST) - 500_000) > 5000


def test_a_quantile_within_the_noise_of_the_end_of_ranks_has_no_curve():
    """At q = .99 and kappa = 1/2 the rate's deviation is .43 / sqrt(reports), the distance to the end .005."""
    for reports, believed in ((150, False), (220, True)):
        table = table_of(lambda c: normal(2.3 + (c - 520_000) / 20_000), spread_out(), reports=reports)
        found = curve.curve_crossing(table, UNIFORM, 0.99, 510_000, *WINDOW)
        assert (found >= 0) == believed


def test_two_thresholds_make_no_curve():
    table = table_of(lambda c: c / LAST, [450_000, 550_000])
    assert curve.curve_crossing(table, UNIFORM, 0.5, 500_000, *WINDOW) == -1


@pytest.mark.parametrize(
    "share",
    [
        lambda c: 0.5,
        lambda c: 0.0,
        lambda c: 1.0,
        lambda c: 1.0 - c / LAST,
        lambda c: 0.0 if c < 500_000 else 1.0,
    ],
    ids=["flat", "none", "all", "falling", "one value"],
)
@pytest.mark.parametrize("kappa", [1e-4, 0.5, 1.0])
def test_what_is_no_curve_still_gives_an_answer(share, kappa):
    search = Search(LAST, 0.5, np.array([kappa]))
    table = table_of(share, spread_out(), reports=500, search=search)
    assert -1 <= curve.curve_crossing(table, search, 0.5, 500_000, *WINDOW) <= LAST
    assert 0 <= rules.answer(table, search, 0.5, False) <= LAST


def with_atom(reports, bottom=0.28, atom=512_345):
    """40 % of all users on one value, which holds the median."""

    def share(c):
        return bottom + 0.2 * c / LAST + (0.4 if c >= atom else 0.0)

    return atom, table_of(share, sorted({*spread_out(), atom - 1, atom}), reports=reports)


@pytest.mark.parametrize("bottom", [0.12, 0.28])
def test_a_curve_far_less_likely_than_the_isotonic_fit_is_dropped(bottom):
    atom, table = with_atom(2000, bottom)
    assert curve.curve_crossing(table, UNIFORM, 0.5, atom, *WINDOW) == -1
    assert rules.answer(table, UNIFORM, 0.5, False) == atom


@pytest.mark.parametrize(("bottom", "side"), [(0.12, 1), (0.28, -1), (0.32, -1)])
def test_an_answer_stays_in_the_central_part_of_the_posterior(bottom, side):
    """With few reports the curve is believed, and passes the atom by; the answer stays nearer."""
    _, table = with_atom(40 if bottom == 0.32 else 30, bottom)
    rules.fit_for_answer(table, UNIFORM, 0.5, False)
    to_weights(table, 1.0, False)
    window = (rules.value_at(table, UNIFORM, curve.TAIL) - 1, rules.value_at(table, UNIFORM, 1.0 - curve.TAIL))
    to_weights(table, rules.ANSWER_POWER, False)
    end = rules.value_at(table, UNIFORM, 0.5 + side * rules.CENTRAL)
    passed_by = curve.curve_crossing(table, UNIFORM, 0.5, rules.value_at(table, UNIFORM, 0.5), *window)
    assert passed_by >= 0
    assert side * passed_by > side * end
    assert rules.answer(table, UNIFORM, 0.5, False) == end


@pytest.mark.parametrize("seed", range(5))
def test_no_curve_is_ahead_of_the_best_cell_without_a_floor(seed):
    """Which is the isotonic fit: against the min-max formula for it, block by block."""
    x, n, s = noisy(seed, 25)
    rates = [
        max(min(s[i:j].sum() / n[i:j].sum() for j in range(k + 1, 26)) for i in range(k + 1)) for k in range(25)
    ]
    rates = np.clip(rates, 0.25, 0.75)
    slow = float((s * np.log(rates) + (n - s) * np.log1p(-rates)).sum())
    table = table_of(lambda c: 0.5, range(25), reports=1)
    profile(table, n, s, 0.5, 0.0, 0.25, 0.75)
    assert table.fit[:26].max() == pytest.approx(slow, rel=1e-12)
    given = curve.Seen(x, n, s, KAPPA, 0.25, 0.0)
    assert curve.log_likelihood(given, curve.fit_curve(given)) <= slow

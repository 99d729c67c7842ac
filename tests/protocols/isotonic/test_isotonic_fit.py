"""The fit against slow, obviously right twins: min-max formulas and direct optimisation of the likelihood."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from privquant.protocols.isotonic.posterior import cell_at, profile
from privquant.protocols.isotonic.prior import Search, point_in_cell, prior_mass
from privquant.protocols.isotonic.rules import (
    answer,
    spread_share,
    spread_thresholds,
    threshold_at,
    weigh_for_query,
)
from privquant.protocols.isotonic.table import add_counts, add_sorted, counts_at, grown, new_table

LEAST, MOST = 0.2, 0.8


def search_over(size, lam=0.5, kappas=(0.6,)):
    return Search(size - 1, lam, np.array(kappas))


def table_of(rows, search, coins=1):
    """A table with (threshold, reports, ones) told in the order given."""
    table = new_table(40, coins=coins)
    for threshold, reports, ones in rows:
        add_counts(table, search, 0, -1, False, threshold, reports, ones)
    return table


def log_likelihood(n, s, p):
    return float(np.sum(s * np.log(p) + (n - s) * np.log1p(-p)))


def isotonic_by_min_max(n, s, low, high):
    """Best rising rates within low .. high: max over starts of min over ends of the mean between them, clipped."""
    rates = [
        max(min(s[a : b + 1].sum() / n[a : b + 1].sum() for b in range(i, len(n))) for a in range(i + 1))
        for i in range(len(n))
    ]
    return np.clip(rates, low, high)


def profile_by_min_max(n, s, target, floor, clip=True):
    highest, lowest = max(target - floor, (LEAST + target) / 2), min(target + floor, (MOST + target) / 2)
    found = []
    for k in range(len(n) + 1):
        total = 0.0
        for part, low, high in ((slice(0, k), LEAST, highest), (slice(k, None), lowest, MOST)):
            if n[part].size:
                low, high = (low, high) if clip else (1e-9, 1 - 1e-9)
                total += log_likelihood(n[part], s[part], isotonic_by_min_max(n[part], s[part], low, high))
        found.append(total)
    return np.array(found)


def random_counts(rng, count):
    n = rng.integers(1, 30, count).astype(float)
    return n, rng.binomial(n.astype(int), rng.random(count)).astype(float)


def fitted(n, s, target, floor):
    search = search_over(1000)
    table = table_of([(10 * k, int(a), int(b)) for k, (a, b) in enumerate(zip(n, s, strict=True))], search)
    profile(table, table.reports[0], table.ones[0], target, floor, LEAST, MOST)
    return table.fit[: len(n) + 1].copy()


def test_the_profile_is_the_min_max_fit_of_each_side():
    rng = np.random.default_rng(5)
    for _ in range(200):
        n, s = random_counts(rng, int(rng.integers(1, 9)))
        target, floor = rng.uniform(0.3, 0.7), rng.uniform(0.0, 0.2)
        assert fitted(n, s, target, floor) == pytest.approx(profile_by_min_max(n, s, target, floor), abs=1e-9)


def test_a_fit_that_is_not_clipped_would_be_noticed():
    n, s = random_counts(np.random.default_rng(5), 6)
    assert fitted(n, s, 0.5, 0.05) != pytest.approx(profile_by_min_max(n, s, 0.5, 0.05, clip=False), abs=1e-9)


def test_no_monotone_rates_within_bounds_are_more_likely():
    """Direct optimisation finds the same maximum: clipping the free fit solves the bounded problem."""
    rng = np.random.default_rng(6)
    for _ in range(12):
        n, s = random_counts(rng, 5)
        target, floor = 0.45, 0.06
        found = fitted(n, s, target, floor)
        for k in range(6):
            low = np.where(np.arange(5) < k, LEAST, target + floor)
            high = np.where(np.arange(5) < k, target - floor, MOST)
            best = minimize(
                lambda p, n=n, s=s: -log_likelihood(n, s, p),
                (low + high) / 2,
                bounds=list(zip(low, high, strict=True)),
                constraints={"type": "ineq", "fun": np.diff},
                method="SLSQP",
                options={"ftol": 1e-12, "maxiter": 400},
            )
            assert found[k] == pytest.approx(-best.fun, abs=1e-4)


def exact_prior(low, high, size, lam):
    share = Fraction(high - low, size)
    # ln((high+2)/(low+2)) from an exact ratio: the digits a difference of logarithms would lose
    logs = math.log1p(float(Fraction(high - low, low + 2))) / math.log1p(size)
    return (1 - lam) * float(share) + lam * logs


@pytest.mark.parametrize("size", [1, 2, 3, 1000, 2**32, 2**63])
@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_prior_masses_add_up_and_keep_their_digits_high_up(size, lam):
    search = search_over(size, lam)
    assert prior_mass(-1, size - 1, search) == pytest.approx(1.0, rel=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(50):
        low = int(rng.integers(-1, size - 1, endpoint=True)) if size > 1 else -1
        high = min(low + int(rng.integers(1, 50)), size - 1)
        if high > low:
            assert prior_mass(low, high, search) == pytest.approx(exact_prior(low, high, size, lam), rel=1e-12)


@pytest.mark.parametrize("size", [2, 3, 10, 2**20, 2**62 + 12345, 2**63])
def test_a_point_in_a_cell_has_the_share_of_its_mass(size):
    search = search_over(size)
    rng = np.random.default_rng(2)
    for _ in range(100):
        ends = sorted({int(v) for v in rng.integers(-1, size - 1, 2, endpoint=True)})
        if len(ends) < 2:
            continue
        low, high = ends
        share = rng.random()
        found = int(point_in_cell(low, high, share, search))
        assert low <= found <= high
        target = share * prior_mass(low, high, search)
        if low < found < high:
            # no other index is nearer, up to rounding of the masses
            here = abs(prior_mass(low, found, search) - target)
            for other in (found - 1, found + 1):
                assert here <= abs(prior_mass(low, other, search) - target) * (1 + 1e-6) + 1e-16


def test_the_table_does_not_depend_on_the_order_of_counts():
    rng = np.random.default_rng(3)
    rows = [(int(c), int(n), int(n) // 3) for c, n in zip(rng.integers(0, 999, 60), rng.integers(1, 9, 60))]
    search = search_over(1000)
    one = new_table(8)
    for row in rows:
        if one.held[0] + 2 >= one.threshold.size:
            one = grown(one)
        add_counts(one, search, 0, -1, False, *row)
    other = new_table(80)
    for row in sorted(rows):
        add_counts(other, search, 0, -1, False, *row)
    count = int(one.held[0])
    assert count == int(other.held[0]) == len({c for c, _, _ in rows})
    for name in ("threshold", "reports", "ones"):
        assert (getattr(one, name)[..., :count] == getattr(other, name)[..., :count]).all()
    assert one.mass[: count + 1] == pytest.approx(other.mass[: count + 1], rel=1e-12)
    assert one.mass[: count + 1].sum() == pytest.approx(1.0)


def test_a_round_in_one_pass_is_its_counts_one_by_one():
    """Against a dictionary, and masses from the final neighbours: ties in a round, old thresholds, both ends."""
    rng, search = np.random.default_rng(7), search_over(400)
    for _ in range(30):
        table, slow, grid = new_table(120, coins=2, sides=2), {}, set()
        for _ in range(12):
            rows = int(rng.integers(1, 10))
            thresholds = np.sort(rng.integers(0, 399, rows))
            reports = rng.integers(1, 9, rows)
            ones = rng.integers(0, reports + 1)
            coin, side, bulk = int(rng.integers(2)), int(rng.integers(-1, 2)), bool(rng.integers(2))
            add_sorted(table, search, coin, side, bulk, thresholds, reports, ones)
            for c, n, s in zip(thresholds.tolist(), reports, ones, strict=True):
                counts = slow.setdefault(c, np.zeros((4, 2)))
                counts[coin] += n, s
                if side >= 0:
                    counts[2 + side] += n, s
                if bulk:
                    grid.add(c)
        count, held = int(table.held[0]), sorted(slow)
        assert table.threshold[:count].tolist() == held
        assert table.grid[:count].tolist() == [c in grid for c in held]
        wanted = np.array([slow[c] for c in held])
        assert (np.vstack([table.reports, table.side_reports])[:, :count] == wanted[:, :, 0].T).all()
        assert (np.vstack([table.ones, table.side_ones])[:, :count] == wanted[:, :, 1].T).all()
        masses = [prior_mass(low, high, search) for low, high in zip([-1, *held], [*held, 399], strict=True)]
        assert table.mass[: count + 1].tolist() == masses


@pytest.mark.parametrize("size", [3, 40, 2**40, 2**63])
def test_the_thresholds_of_a_round_rise_and_are_those_of_their_shares(size):
    rng, search = np.random.default_rng(8), search_over(size)
    out = np.empty(32, np.int64)
    for _ in range(20):
        rows = [
            (int(rng.integers(0, size - 1)), 5, int(rng.integers(0, 6))) for _ in range(int(rng.integers(0, 30)))
        ]
        table, spread, points = table_of(rows, search), float(rng.uniform(0.01, 0.5)), int(rng.integers(2, 33))
        weigh_for_query(table, search, 0.5, False, 1.0)
        spread_thresholds(table, search, spread, points, out)
        assert np.all(np.diff(out[:points]) >= 0)
        shares = [spread_share(spread, point, points) for point in range(points)]
        assert out[:points].tolist() == [threshold_at(table, search, share, 0.0) for share in shares]


def test_a_full_table_says_so():
    search, table = search_over(1000), new_table(3)
    for threshold in range(table.threshold.size - 1):
        add_counts(table, search, 0, -1, False, threshold, 1, 0)
    with pytest.raises(IndexError, match="full"):
        add_counts(table, search, 0, -1, False, 500, 1, 0)
    three = np.array([500, 600, 700])
    with pytest.raises(IndexError, match="full"):
        add_sorted(new_table(1), search, 0, -1, False, three, three, three)


def test_counts_of_a_weaker_coin_keep_their_rate_and_their_information():
    strong, weak, quantile = 0.8, 0.4, 0.3
    search = search_over(100, kappas=(strong, weak))
    table = new_table(10, coins=2)
    add_counts(table, search, 1, -1, False, 50, 1000, 460)
    n, s, total = counts_at(table, search, quantile)
    p = {kappa: 0.5 + kappa * (quantile - 0.5) for kappa in (strong, weak)}
    information = {kappa: kappa**2 / (p[kappa] * (1 - p[kappa])) for kappa in p}
    assert n[0] * information[strong] == pytest.approx(1000 * information[weak])
    assert (s[0] / n[0] - 0.5) / strong == pytest.approx((460 / 1000 - 0.5) / weak)
    assert total == n[0]
    add_counts(table, search, 0, -1, False, 50, 10, 5)
    both, _, _ = counts_at(table, search, quantile)
    assert both[0] == pytest.approx(total + 10)


@pytest.mark.parametrize("kappa", [1e-9, 1e-3, 1.0 - 1e-15, 1.0])
@pytest.mark.parametrize("quantile", [1e-6, 0.5, 1 - 1e-6])
def test_no_coin_and_no_quantile_gives_nan(kappa, quantile):
    search = search_over(2**63, kappas=(kappa,))
    table = new_table(40)
    for threshold, reports, ones in [(5, 40, 0), (2**40, 30, 30), (2**62, 7, 3)]:
        add_counts(table, search, 0, -1, False, threshold, reports, ones)
        weigh_for_query(table, search, quantile, False, 1.0)
        assert table.weight[: table.held[0] + 1].sum() == pytest.approx(1.0)
        assert 0 <= threshold_at(table, search, 0.5, 0.03) <= 2**63 - 2
        assert 0 <= answer(table, search, quantile, False) <= 2**63 - 1


def test_the_posterior_moves_to_where_the_counts_point():
    search = search_over(1000)
    table = table_of([(300, 500, 110), (600, 500, 390)], search)
    weigh_for_query(table, search, 0.5, False, 1.0)
    assert cell_at(table, 0.5)[0] == 1
    assert 300 < answer(table, search, 0.5, False) <= 600

"""The picture of a run: what it draws is what the reports, the answer and its statements say."""

import sys

import numpy as np
import pytest

import privquant as pq
from privquant.errors import InvalidInput, MissingDependency
from privquant.planning.picture import by_threshold, fitted_shares, monotone, pooled

pytest.importorskip("matplotlib")

VALUES = np.random.default_rng(5).integers(0, 1000, 4000)
SETTINGS = {"epsilon": 2.0, "domain": (0, 1023), "rng": 1}


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")


def labels(ax):
    return ax.get_legend_handles_labels()[1]


def by_label(ax, start):
    return next(h for h, label in zip(*ax.get_legend_handles_labels(), strict=True) if label.startswith(start))


def run_protocol(**options):
    protocol = pq.protocol("isotonic", (0, 1023), users=4000, epsilon=2.0, **options)
    return protocol, pq.run(protocol, VALUES, rng=1)


def test_the_picture_has_reports_curve_answer_and_ranges(tmp_path):
    one = pq.median(VALUES, **SETTINGS)
    ax = one.plot()
    assert by_label(ax, "answer").get_xdata()[0] == one.value
    box = by_label(ax, "certain").get_paths()[0].get_extents()
    assert (box.x0, box.x1) == (one.certain.low, one.certain.high)
    assert box.y1 - box.y0 == pytest.approx(2 * one.certain.within)
    typical = by_label(ax, "typical range").get_extents().transformed(ax.transData.inverted())
    assert (typical.x0, typical.x1) == pytest.approx((one.typical.low, one.typical.high))
    curve = by_label(ax, "fitted curve")
    assert np.interp(one.value, curve.get_xdata(), curve.get_ydata()) == pytest.approx(0.5, abs=0.02)
    search = ax.figure.axes[1]
    assert list(search.lines[0].get_xdata()) == list(one.record.order)
    ax.figure.savefig(tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 10_000


def test_drawn_into_a_panel_of_ones_own():
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    assert pq.median(VALUES, **SETTINGS).plot(ax=ax) is ax
    assert len(ax.figure.axes) == 1
    assert ax.get_legend() is not None


@pytest.mark.parametrize(
    ("q", "settings"),
    [
        (0.99, {}),
        (0.01, {"interval": 0.9}),
        (0.5, {"trust": "shuffle", "delta": 1e-6}),
        (0.5, {"smooth": False}),
        (0.5, {"domain": pq.Grid([10, 200, 700])}),
        (0.999, {"domain": pq.LogGrid(1, 900, 60)}),
        (0.5, {"domain": (0, 10**15)}),
    ],
)
def test_every_kind_of_run_can_be_drawn(q, settings):
    one = pq.quantile(VALUES, q, **(SETTINGS | settings))
    ax = one.plot()
    ax.figure.canvas.draw()
    assert len(ax.figure.axes) == 2
    assert any(label.startswith("reports") for label in labels(ax))
    assert ("fitted curve" in labels(ax)) <= settings.get("smooth", True)


def test_few_users_can_be_drawn():
    for users in (1, 2, 8):
        pq.median(VALUES[:users], **SETTINGS).plot().figure.canvas.draw()


def test_each_of_several_quantiles_has_its_own_search():
    low, high = pq.quantile(VALUES, [0.2, 0.8], **SETTINGS)
    assert np.median(low.record.order) < np.median(high.record.order)
    assert low.plot().get_xlim()[1] < high.plot().get_xlim()[1]


def test_the_search_is_drawn_only_where_its_order_is_known():
    protocol, one = run_protocol()
    assert set(one.record.order) == {threshold for (_, _, _, threshold), _, _ in protocol.counts()}
    assert list(one.record.order) != sorted(one.record.order)
    again = pq.from_state(protocol.state())
    restored = pq.stated(again.estimate(), again)
    assert restored.record.order is None
    assert len(restored.plot().figure.axes) == 1
    other, _ = run_protocol()
    protocol.merge(other)
    assert pq.stated(protocol.estimate(), protocol).record.order is None


def test_a_state_of_nobody_heard_knows_its_order():
    fresh = pq.from_state(pq.protocol("isotonic", (0, 1023), users=4000, epsilon=2.0).state())
    assert pq.run(fresh, VALUES, rng=1).record.order == run_protocol()[1].record.order


@pytest.mark.parametrize(
    ("estimate", "said"),
    [
        (lambda: pq.median(VALUES, protocol="naive", **SETTINGS), "only isotonic search .* an estimate of 'naive'"),
        (lambda: pq.protocol("isotonic", (0, 9), users=5, epsilon=1.0).estimate(), "this estimate has no answer"),
        (
            lambda: run_protocol()[0].estimate(),
            r"this estimate came without the counts of its run, which .*pq.stated\(estimate",
        ),
    ],
)
def test_nothing_to_plot_is_said(estimate, said):
    with pytest.raises(InvalidInput, match=f"nothing to plot: {said}"):
        estimate().plot()


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependency, match=r"needs matplotlib, .*pip install 'privquant\[lab\]'"):
        pq.median(VALUES, **SETTINGS).plot()


# -- what is drawn -------------------------------------------------------------------------------------------


def far_off(rows):
    """How many pooled points lie more than 4.5 of their standard errors from the data's own share."""
    truth = [(c, weight, weight * np.mean(c >= VALUES), reports) for c, weight, _, reports in rows]
    pairs = zip(pooled(rows), pooled(truth), strict=True)
    return sum(abs(found.share - true.share) > 4.5 * found.error for found, true in pairs)


def test_shares_are_those_of_the_data():
    """Fixed seed. Standard errors are upper bounds, so the false-alarm rate is below 16 * 7e-6. The twin takes the
    coin's bits for the truth.
    """
    protocol = pq.protocol("isotonic", (0, 1023), users=40_000, epsilon=1.0, quantile=0.9, spread=0.45)
    pq.run(protocol, np.repeat(VALUES, 10), rng=1)
    rows = by_threshold(protocol)
    points = pooled(rows)
    assert 8 <= len(points) <= 16
    assert sum(point.reports for point in points) == 40_000
    assert max(point.error for point in points) <= 0.1
    assert far_off(rows) == 0
    kappa = protocol.coin.kappa
    raw = [(c, w, w * (0.5 + kappa * (share / w - 0.5)), reports) for c, w, share, reports in rows]
    assert far_off(raw) > 0


def test_coins_of_two_kinds_add_up_by_their_information():
    one = pq.median(VALUES, epsilon=1.0, domain=(0, 1023), trust="shuffle", delta=1e-6, rng=1)
    protocol = pq.from_state(one.record.state)
    assert len(protocol.coins()) > 1
    rows = by_threshold(protocol)
    kappas = [pq.Coin(coin).kappa for coin in protocol.coins()]
    for _, weight, _, reports in rows:
        assert min(kappas) ** 2 * reports <= weight * (1 + 1e-12)
        assert weight <= max(kappas) ** 2 * reports * (1 + 1e-12)
    assert sum(row[3] for row in rows) == 4000


def slowest_monotone(rows):
    """The same fit by its min-max formula."""

    def mean(i, j):
        return sum(row[2] for row in rows[i : j + 1]) / sum(row[1] for row in rows[i : j + 1])

    n = len(rows)
    fit = [max(min(mean(i, j) for j in range(k, n)) for i in range(k + 1)) for k in range(n)]
    return [min(max(share, 0.0), 1.0) for share in fit]


def test_the_fit_that_never_falls_is_the_best_one():
    rng = np.random.default_rng(3)
    for n in (1, 2, 5, 12):
        weights, shares = rng.uniform(0.5, 3.0, n), rng.uniform(-0.3, 1.3, n)
        rows = [(k, w, w * share, 1) for k, (w, share) in enumerate(zip(weights, shares, strict=True))]
        assert monotone(rows) == pytest.approx(slowest_monotone(rows))


def test_the_curve_drawn_is_the_one_that_answers():
    """An answer that is the curve's crossing is the first value at which the curve reaches the quantile."""
    hits = 0
    for seed in range(4):
        one = pq.median(VALUES, epsilon=2.0, domain=(0, 1023), rng=seed)
        protocol = pq.from_state(one.record.state)
        shares = fitted_shares(protocol, 0.5, range(1024))
        assert (np.diff(shares) >= 0).all()
        hits += shares[one.index - 1] < 0.5 <= shares[one.index] + 1e-9
    assert hits >= 3

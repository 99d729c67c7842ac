"""A run of isotonic search as a picture: what was reported, the curve through it, the answer and its range.

A report is a bit after a coin; what is drawn is what the reports say about the share of users at or below a
threshold, with the coin's part taken out. A threshold alone has few reports, so neighbours are pooled until a point
means something. The second panel is the search as it went: which thresholds were asked, first to last.

matplotlib is loaded only here, and only when a picture is asked for.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from privquant.domain import Domain
from privquant.error_words import Certain, Typical, finite
from privquant.errors import MissingDependency
from privquant.messages import Estimate
from privquant.privacy.coin import Coin
from privquant.protocols.isotonic.curve import curve_crossing, fit_curve, weighed_reports
from privquant.protocols.isotonic.prior import prior_mass
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.rules import answer_window, is_extreme
from privquant.protocols.registry import from_state

_POINTS = 16  # pooled points, at most
_ENOUGH = 25.0  # information of a point, at least: a standard error of at most a tenth
_FINE = 160  # points along the curve
_BEYOND = 0.02  # of the search's reports, those asked furthest out on each side are beyond the edge
_ROOM = 0.1  # of rank, at least shown above and below the quantile
_REPORTS, _CURVE, _ANSWER, _FIT = "#555555", "#7A2A8C", "#D55E00", "#56B4E9"


class Point(NamedTuple):
    """Reports of neighbouring thresholds: at which index, the share of users at or below it, its standard error."""

    place: float
    share: float
    error: float
    reports: int


@dataclass(frozen=True, slots=True)
class Record:
    """What a run of isotonic search heard, kept so that it can be drawn.

    state: the protocol's `state()`, its settings and its counts.
    order: the thresholds of this quantile's search in the order in which each was first heard; None where that is
           not known, because the run was taken up from a state.
    """

    state: Mapping[str, Any]
    order: tuple[int, ...] | None

    def draw(self, estimate: Estimate, ax: Any = None) -> Any:
        """What `Estimate.plot` promises."""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise MissingDependency("plotting an estimate", "matplotlib", "lab") from None
        protocol = from_state(self.state)
        assert isinstance(protocol, Isotonic)
        low, high = _window(protocol, estimate)
        below, ours = None, ax is None
        if ours and self.order is None:
            _, ax = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
        elif ours:
            _, (ax, below) = pyplot.subplots(
                2, 1, figsize=(6.4, 6.4), layout="constrained", gridspec_kw={"height_ratios": (2.4, 1)}
            )
        _across(ax, protocol.domain, low, high)
        _draw_reports(ax, protocol, estimate, low, high)
        _draw_answer(ax, estimate)
        ax.set_ylabel("share of users at or below")
        ax.set_title(
            f"quantile {estimate.quantile:g}: {estimate.cells()[1]}, from {estimate.users:,} users",
            loc="left",
            fontsize=10,
        )
        if ours:
            ax.figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
        else:  # a rising curve leaves these corners free
            ax.legend(
                loc="lower right" if estimate.quantile >= 0.5 else "upper left", fontsize=7.5, framealpha=0.85
            )
        if below is not None and self.order:
            _draw_search(below, protocol.domain, estimate, self.order)
        return ax


# -- what is drawn -------------------------------------------------------------------------------------------


def by_threshold(protocol: Isotonic) -> list[tuple[int, float, float, int]]:
    """(threshold, information, information times share, reports), rising.

    A report through a coin of bias kappa has kappa^2 of the information of one without a coin, and coins of
    several kinds add up by it.
    """
    found: dict[int, tuple[float, float, int]] = {}
    for (_, _, coin, threshold), reports, ones in protocol.counts():
        kappa = Coin(coin).kappa
        weight = reports * kappa**2
        share = kappa * (ones - 0.5 * reports) + 0.5 * weight
        old = found.get(threshold, (0.0, 0.0, 0))
        found[threshold] = (old[0] + weight, old[1] + share, old[2] + reports)
    return [(threshold, *found[threshold]) for threshold in sorted(found)]


def pooled(rows: list[tuple[int, float, float, int]]) -> list[Point]:
    """Neighbouring thresholds together, in a few points of about the same information."""
    left = sum(weight for _, weight, _, _ in rows)
    wanted = left / max(1, min(_POINTS, int(left / _ENOUGH)))
    points: list[Point] = []
    place = weights = shares = 0.0
    count = 0
    for k, (threshold, weight, share, reports) in enumerate(rows):
        place, weights, shares = place + weight * threshold, weights + weight, shares + share
        count += reports
        left -= weight
        # a rest too small for a point of its own goes with the last one
        if k == len(rows) - 1 or (weights >= wanted and left >= 0.5 * wanted):
            points.append(Point(place / weights, shares / weights, 0.5 / math.sqrt(weights), count))
            place = weights = shares = 0.0
            count = 0
    return points


def monotone(rows: list[tuple[int, float, float, int]]) -> list[float]:
    """The share at each threshold by least squares among all that never fall: neighbours that do are pooled."""
    blocks: list[tuple[float, float, int]] = []
    for _, weight, share, _ in rows:
        blocks.append((weight, share, 1))
        while len(blocks) > 1 and blocks[-2][1] * blocks[-1][0] >= blocks[-1][1] * blocks[-2][0]:
            last, before = blocks.pop(), blocks.pop()
            blocks.append((before[0] + last[0], before[1] + last[1], before[2] + last[2]))
    return [min(max(share / weight, 0.0), 1.0) for weight, share, many in blocks for _ in range(many)]


def _draw_reports(ax: Any, protocol: Isotonic, estimate: Estimate, low: int, high: int) -> None:
    rows, domain = by_threshold(protocol), protocol.domain
    inside = [row for row in rows if low <= row[0] <= high]
    points = pooled(inside)
    each = sum(point.reports for point in points) // len(points)
    ax.errorbar(
        [_value(domain, point.place) for point in points],
        [point.share for point in points],
        yerr=[point.error for point in points],
        fmt="o", color=_REPORTS, markersize=4.5, linewidth=1, capsize=0, zorder=3,
        label=f"reports, about {each:,} a point, +- 1 standard error",
    )  # fmt: skip
    room = max(_ROOM, 0.0 if estimate.certain is None else estimate.certain.within)
    least = max(min(min(p.share - p.error for p in points), estimate.quantile - room), 0.0)
    most = min(max(max(p.share + p.error for p in points), estimate.quantile + room), 1.0)
    ax.set_ylim(least - 0.04 * (most - least), most + 0.04 * (most - least))
    fit = [(_value(domain, row[0]), share) for row, share in zip(rows, monotone(rows), strict=True)]
    ax.step(*zip(*fit, strict=True), where="post", color=_FIT, linewidth=1.2, label="best fit that never falls")
    curve = _curve(protocol, estimate, low, high)
    if curve:
        ax.plot(*zip(*curve, strict=True), color=_CURVE, linewidth=2, label="fitted curve")


def _curve(protocol: Isotonic, estimate: Estimate, low: int, high: int) -> list[list[float]]:
    """The fitted curve between two indices, (value, share); empty where there is none."""
    step = max((high - low) / _FINE, 1.0)
    grid = sorted({min(low + round(k * step), high) for k in range(_FINE + 1)})
    shares = fitted_shares(protocol, estimate.quantile, grid)
    return [] if shares is None else [[_value(protocol.domain, k), s] for k, s in zip(grid, shares, strict=True)]


def fitted_shares(protocol: Isotonic, quantile: float, indices: Sequence[int]) -> list[float] | None:
    """The curve's share of users at or below each index; None where the answer follows no curve.

    The same fit as in `curve_crossing`: its window, its weights, and no curve where that one finds none.
    """
    if not protocol.smooth or protocol.domain.size == 1 or protocol.heard == 0:
        return None
    table, search = protocol.table, protocol.search
    boosted = protocol.run_plan.bulk > 0 and bool(is_extreme(quantile))
    origin, low, high = answer_window(table, search, quantile, boosted)
    if curve_crossing(table, search, quantile, origin, low, high) < 0:
        return None
    unit = prior_mass(low, high, search)
    seen, _, _ = weighed_reports(table, search, quantile, origin, low, high)
    place, speed, uneven = fit_curve(seen).tolist()

    def share(index: int) -> float:
        ahead = prior_mass(origin, index, search) if index > origin else 0.0
        behind = prior_mass(index, origin, search) if index < origin else 0.0
        away = (ahead - behind) / unit - place
        score = seen.height + math.exp(speed + (-0.5 if away < 0.0 else 0.5) * uneven) * away
        return 0.5 * math.erfc(-score / math.sqrt(2.0))

    return [share(index) for index in indices]


def _draw_answer(ax: Any, estimate: Estimate) -> None:
    value, quantile = estimate.value, estimate.quantile
    ax.axhline(quantile, color=_ANSWER, linewidth=0.8, linestyle=":")
    if value is not None and math.isfinite(value):
        ax.axvline(value, color=_ANSWER, linewidth=1.6, label=f"answer {value:,.6g}")
    if isinstance(estimate.typical, Typical):
        low, high = estimate.typical.low, estimate.typical.high
        ax.axvspan(*_drawable(low, high, ax), color=_ANSWER, alpha=0.13, linewidth=0, label="typical range")
    certain = estimate.certain
    if certain is not None:
        low, high = _drawable(certain.low, certain.high, ax)
        ax.fill_between(
            [low, high], max(quantile - certain.within, 0.0), min(quantile + certain.within, 1.0),
            facecolor="none", edgecolor=_ANSWER, linestyle="--", linewidth=1.2, zorder=4,
            label=f"certain: some value here, rank within {100 * certain.within:.2g} points",
        )  # fmt: skip


def _draw_search(ax: Any, domain: Domain, estimate: Estimate, order: tuple[int, ...]) -> None:
    values = [_value(domain, threshold) for threshold in order]
    _across(ax, domain, min(order), max(order))
    ax.plot(values, range(1, len(values) + 1), ".-", color=_REPORTS, markersize=3, linewidth=0.5)
    if estimate.value is not None and math.isfinite(estimate.value):
        ax.axvline(estimate.value, color=_ANSWER, linewidth=1.2)
    ax.invert_yaxis()
    ax.set_ylabel("thresholds,\nfirst to last")
    ax.set_title("the search as it went", loc="left", fontsize=10)


# -- where it is drawn ---------------------------------------------------------------------------------------


def _window(protocol: Isotonic, estimate: Estimate) -> tuple[int, int]:
    """The indices between which this quantile's search asked most, with the answer, and its ranges if they fit."""
    which, roles = protocol.quantiles.index(estimate.quantile), protocol.run_plan.roles
    own = sorted(
        (threshold, reports) for (_, arm, _, threshold), reports, _ in protocol.counts() if arm // roles == which
    )
    index = 0 if estimate.index is None else estimate.index
    total, passed = sum(reports for _, reports in own), 0
    low = high = index
    for threshold, reports in own:
        passed += reports
        if passed > _BEYOND * total and passed - reports < (1.0 - _BEYOND) * total:
            low, high = min(low, threshold), max(high, threshold)
    ranges = [said for said in (estimate.typical, estimate.certain) if isinstance(said, Typical | Certain)]
    inside = [protocol.domain.index(end) for said in ranges for end in (said.low, said.high) if end is not None]
    width = high - low  # a range that reaches much further would leave no room for anything else
    inside = [end for end in inside if low - width <= end <= high + width]
    return min([low, *inside]), max([high, *inside])


def _across(ax: Any, domain: Domain, low: int, high: int) -> None:
    """The axis of values from one index to another, and a little room."""
    first, last = _value(domain, low), _value(domain, high)
    room = 0.04 * (last - first) or 0.5
    edges = first - room, last + room
    if first > 0.0 and last / first > 60.0:  # orders of magnitude are drawn by their ratio
        ax.set_xscale("log")
        edges = first / (last / first) ** 0.04, last * (last / first) ** 0.04
    ax.set_xlim(*edges)
    ax.set_xlabel("value")


def _value(domain: Domain, index: float) -> float:
    """The value at a place between indices; an unbounded bin is drawn where it begins."""
    before = math.floor(index)
    first = domain.value(before)
    if math.isinf(first):
        return float(domain.value(max(before - 1, 0)))
    after = domain.value(min(before + 1, domain.size - 1))
    return float(first if math.isinf(after) else first + (index - before) * (after - first))


def _drawable(low: float | None, high: float | None, ax: Any) -> tuple[float, float]:
    """A range whose open ends reach to the edge of the picture."""
    left, right = ax.get_xlim()
    low, high = finite(low), finite(high)
    return left if low is None else float(low), right if high is None else float(high)


def drawing(protocol: Isotonic, estimate: Estimate) -> dict[str, list[list[float]]]:
    """What `Record.draw` draws around the answer, as numbers for a page that draws it itself.

    `points` are pooled reports (value, share of users at or below it, standard error, reports), `curve` is the
    fitted one (value, share); both are empty before there is anything to draw.
    """
    if estimate.index is None or protocol.heard == 0:
        return {"points": [], "curve": []}
    low, high = _window(protocol, estimate)
    inside = [row for row in by_threshold(protocol) if low <= row[0] <= high]
    points = [[_value(protocol.domain, p.place), p.share, p.error, float(p.reports)] for p in pooled(inside)]
    return {"points": points, "curve": _curve(protocol, estimate, low, high)}

"""The curve that gives an answer, as points to draw.

The same fit as in `curve_crossing`: its window, its weights, and no curve where that one finds none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privquant.protocols.isotonic.curve import OUTSIDE, TAIL, _along, curve_crossing, fit_curve, normal_score
from privquant.protocols.isotonic.posterior import least_rate, to_weights
from privquant.protocols.isotonic.prior import prior_mass
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.rules import ANSWER_POWER, fit_for_answer, is_extreme, value_at
from privquant.protocols.isotonic.table import counts_at


def fitted_shares(protocol: Isotonic, quantile: float, indices: Sequence[int]) -> list[float] | None:
    """The curve's share of users at or below each index; None where the answer follows no curve."""
    if not protocol.smooth or protocol.domain.size == 1 or protocol.heard == 0:
        return None
    table, search = protocol.table, protocol.search
    boosted = protocol.course.bulk > 0 and bool(is_extreme(quantile))
    fit_for_answer(table, search, quantile, boosted)
    to_weights(table, 1.0, boosted)
    low = value_at(table, search, TAIL) - 1
    high = value_at(table, search, 1.0 - TAIL)
    to_weights(table, ANSWER_POWER, boosted)
    origin = value_at(table, search, 0.5)
    if curve_crossing(table, search, quantile, origin, low, high) < 0:
        return None
    count = int(table.held[0])
    unit = prior_mass(low, high, search)
    n, s, _ = counts_at(table, search, quantile)
    n, s, thresholds = n[:count], s[:count], table.threshold[:count]
    x = np.array([_along(table, search, k, origin, unit) for k in range(count)])
    window = (low <= thresholds) & (thresholds <= high)
    inside, outside = float(n[window].sum()), float(n[~window].sum())
    weight = np.where(window, 1.0, min(1.0, OUTSIDE * inside / outside) if outside > 0.0 else 1.0)
    height = normal_score(quantile)
    place, speed, uneven = fit_curve(
        x, weight * n, weight * s, float(search.kappas[0]), least_rate(search), height
    ).tolist()

    def share(index: int) -> float:
        ahead = prior_mass(origin, index, search) if index > origin else 0.0
        behind = prior_mass(index, origin, search) if index < origin else 0.0
        away = (ahead - behind) / unit - place
        score = height + math.exp(speed + (-0.5 if away < 0.0 else 0.5) * uneven) * away
        return 0.5 * math.erfc(-score / math.sqrt(2.0))

    return [share(index) for index in indices]

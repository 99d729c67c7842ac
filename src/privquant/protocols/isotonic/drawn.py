"""The curve that gives an answer, as points to draw.

The same fit as in `curve_crossing`: its window, its weights, and no curve where that one finds none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from privquant.protocols.isotonic.curve import curve_crossing, fit_curve, weighed_reports
from privquant.protocols.isotonic.prior import prior_mass
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.rules import answer_window, is_extreme


def fitted_shares(protocol: Isotonic, quantile: float, indices: Sequence[int]) -> list[float] | None:
    """The curve's share of users at or below each index; None where the answer follows no curve."""
    if not protocol.smooth or protocol.domain.size == 1 or protocol.heard == 0:
        return None
    table, search = protocol.table, protocol.search
    boosted = protocol.course.bulk > 0 and bool(is_extreme(quantile))
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

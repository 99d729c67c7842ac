"""What is certain about an answer, for any data and at no cost in users.

"With confidence 1 - alpha some value from low to high has a rank within q +- within." Values v have the ranks
F(v - 1) .. F(v), so it holds if and only if F(low - 1) <= q + within and F(high) >= q - within. `within` follows
from the number of reports alone; low and high from their table. The proof and its conditions: docs/statements.md.

The lower end: a threshold c is rejected when its reports speak against F(c) >= q + within; thresholds are tried
from the lowest up, and the end is 1 + the last one rejected in a row, so that only the first threshold at which
F(c) >= q + within is true could be rejected wrongly. There every report at c or above is a one with probability at
least p, the rate at rank q + within, whatever made the search ask there. Two tests share alpha / 2:

    all      the reports at thresholds >= c together. With one coin: the sum of p - y is below a walk of as many
             independent steps (`interval.walk_bound`). With several: the likelihood ratio of a rank a little below
             q + within, which has expectation at most 1.
    windows  the same ratio for the thresholds of c .. d, averaged over d by the prior and over several ranks:
             this one works where reports far above c would hide a low rate near it.

The upper end is the mirror. The table given holds the reports asked for this quantile only, without the bulk phase
and without the opening of the run: all of them would be valid, but reports asked far away, for another quantile or
when little was known, hide what is to be seen. Which are left out must not depend on what they answered.
"""

import math
from collections.abc import Sequence

import numpy as np

from privquant._numba import njit
from privquant.arrays import Floats
from privquant.error_words import Certain
from privquant.protocols.isotonic.curve import normal_score
from privquant.protocols.isotonic.interval import walk_bound
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.table import Table, add_counts, new_table

# Of the users of a run, those asked first, whose reports are best left out.
OPENING = 1 / 8
# The slack, in standard deviations of the rank times the normal score that the walk's bound has: where slack and
# range together are least on smooth data. It must not depend on the reports, but may on how they were asked for:
# with one threshold at a time, or with thresholds spread out, users in flight or several coins.
SLACK = 1.88
SLACK_SPREAD = 2.2
SLACK_COINS = 2.1
# Of alpha, the part of the windows. More of it narrows ranges on lumpy data and widens them on smooth data.
WINDOWS = 0.06
# The ranks that likelihood ratios compare with, below q + within, in parts of `within`.
_STEPS = (1.0, 2.0, 4.0, 8.0, 16.0)
_WHOLE_STEP = 0.75


def table_of(search: Search, counts: Sequence[tuple[int, int, int, int]]) -> Table:
    """A table of chosen counts: (row of the coin in search.kappas, threshold, reports, ones) each."""
    table = new_table(len(counts), coins=search.kappas.size)
    for coin, threshold, reports, ones in counts:
        add_counts(table, search, coin, -1, False, threshold, reports, ones)
    return table


def rank_unit(reports: Floats, kappas: Floats, quantile: float) -> float:
    """The standard deviation of the rank if all reports (one number a coin) were asked at the quantile itself."""
    rates = 0.5 + kappas * (quantile - 0.5)
    information = float((reports * kappas**2 / (rates * (1.0 - rates))).sum())
    return 1.0 / math.sqrt(information) if information > 0.0 else math.inf


def slack(
    reports: Floats, kappas: Floats, quantile: float, *, spread: bool = False, confidence: float = 0.95
) -> float:
    """`within` for so many reports (one number a coin)."""
    score = normal_score(1.0 - 0.25 * (1.0 - confidence))
    scale = SLACK_COINS if kappas.size > 1 else SLACK_SPREAD if spread else SLACK
    return scale * score * rank_unit(reports, kappas, quantile)


def certain(
    table: Table,
    search: Search,
    quantile: float,
    answer: int,
    *,
    most: Floats | None = None,
    spread: bool = False,
    confidence: float = 0.95,
) -> Certain | None:
    """What is certain about `answer`, from the table of the reports asked for this quantile: a range of indices, in
    which the answer always lies.

    most: how many reports the table could have at most (one number a coin), which must not depend on what was
    answered; None if it is full. spread: whether batches were spread over several thresholds. Nothing is returned
    where the reports bound neither side: any data would keep it.
    """
    count = int(table.held[0])
    heard = table.reports[:, :count].sum(axis=1) if most is None else most
    within = slack(heard, search.kappas, quantile, spread=spread, confidence=confidence)
    sides = [q for q in (quantile + within, quantile - within) if 0.0 < q < 1.0]
    if not sides:
        return None
    # where no rank can be too far on one side, the other side has all of alpha
    alpha = (1.0 - confidence) / len(sides)
    low: int | None = None
    high: int | None = None
    if quantile + within < 1.0 and (passed := _rejected(table, search, quantile, within, heard, alpha, False)):
        low = min(answer, int(table.threshold[passed - 1]) + 1)
    if quantile - within > 0.0 and (passed := _rejected(table, search, quantile, within, heard, alpha, True)):
        high = max(answer, int(table.threshold[count - passed]))
    if low is None and high is None:
        return None
    # nobody is below the first value, and nobody above the last
    low, high = 0 if answer == 0 else low, search.last if answer == search.last else high
    return Certain(quantile, low, high, within, confidence)


def _rejected(
    table: Table, search: Search, quantile: float, within: float, heard: Floats, alpha: float, upper: bool
) -> int:
    """How many thresholds, from the far end, are rejected in a row."""
    edge = quantile - within if upper else quantile + within
    bound = -1.0
    if heard.size == 1:
        rate = 0.5 + float(search.kappas[0]) * (edge - 0.5)
        bound = walk_bound(int(heard[0]), 1.0 - rate if upper else rate, (1.0 - WINDOWS) * alpha)
    return int(_in_a_row(table, search.kappas, edge, -1.0 if upper else 1.0, within, bound, alpha))


@njit(cache=True)
def _gain(table: Table, kappas: Floats, k: int, edge: float, other: float) -> float:
    """Log-likelihood ratio of rank `other` against rank `edge` for the reports at threshold k."""
    found = 0.0
    for coin in range(kappas.size):
        n = table.reports[coin, k]
        if n > 0.0:
            # neither end is reached: a coin flips at least so often that no rate is 0 or 1
            rate = 0.5 + kappas[coin] * (edge - 0.5)
            against = min(max(0.5 + kappas[coin] * (other - 0.5), 1e-12), 1.0 - 1e-12)
            s = table.ones[coin, k]
            found += s * math.log(against / rate) + (n - s) * math.log((1.0 - against) / (1.0 - rate))
    return found


@njit(cache=True)
def _log_sum(a: float, b: float) -> float:
    high = max(a, b)
    return high + math.log1p(math.exp(min(a, b) - high)) if high > -math.inf else high


@njit(cache=True)
def _in_a_row(
    table: Table, kappas: Floats, edge: float, toward: float, within: float, bound: float, alpha: float
) -> int:
    """How many thresholds are rejected in a row, from the lowest up (toward = 1) or the highest down (-1).

    bound: of the walk, for one coin; negative where the likelihood ratio of all reports is to be used.
    """
    count = table.held[0]
    windows = np.full(len(_STEPS), -math.inf)
    rejected = np.zeros(count, np.bool_)
    whole = 0.0
    need_whole, need_windows = -math.log((1.0 - WINDOWS) * alpha), -math.log(WINDOWS * alpha)
    for j in range(count):
        # every sum runs from the end that is scanned last: over thresholds >= c, or <= c for the upper end
        k = count - 1 - j if toward > 0.0 else j
        beyond = table.mass[k + 1] if toward > 0.0 else table.mass[k]
        log_mass = math.log(beyond) if beyond > 0.0 else -math.inf
        together = -math.inf
        for i in range(len(_STEPS)):
            other = min(max(edge - toward * _STEPS[i] * within, 0.0), 1.0)
            windows[i] = _gain(table, kappas, k, edge, other) + _log_sum(log_mass, windows[i])
            together = _log_sum(together, windows[i])
        if bound >= 0.0:
            rate = 0.5 + kappas[0] * (edge - 0.5)
            whole += toward * (rate * table.reports[0, k] - table.ones[0, k])
            passed = whole >= bound
        else:
            whole += _gain(table, kappas, k, edge, edge - toward * _WHOLE_STEP * within)
            passed = whole >= need_whole
        rejected[k] = passed or together - math.log(len(_STEPS)) >= need_windows
    row = 0
    while row < count and rejected[row if toward > 0.0 else count - 1 - row]:
        row += 1
    return row

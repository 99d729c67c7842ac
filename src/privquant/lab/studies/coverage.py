"""Does an interval cover what it claims to? Certified intervals beside a set that is known to fail.

Each trial draws a new distribution and new users from it, runs isotonic search with a certified interval, and
looks whether the POPULATION's quantile is inside. The likelihood-ratio set of a plain search on the same users,
which a textbook would print, is the negative control: the same harness shows that it does not cover.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privquant.domain import Integers
from privquant.lab.engine.isotonic import outcomes
from privquant.lab.sample import Sample
from privquant.lab.shapes import distribution
from privquant.protocols.isotonic.protocol import Isotonic

# The 95 % point of chi-square with one degree of freedom: what a likelihood-ratio set would use.
LIKELIHOOD_RATIO_CUT = 3.8415


@dataclass(frozen=True)
class Coverage:
    """Shares of trials, and widths in units of sd / (kappa sqrt n) of rank.

    certified, likelihood_ratio: share of trials whose interval has the population's quantile.
    below, above: how often the certified interval lies wholly on one side of it.
    width, width_80: median and 80 % point of the certified width in rank, F(high) - F(low - 1).
    no_bound: share of trials without a bound on one side or both.
    error: root mean square rank error of the answer given beside the interval.
    """

    certified: float
    likelihood_ratio: float
    below: float
    above: float
    width: float
    width_80: float
    no_bound: float
    error: float


def coverage(
    name: str,
    *,
    size: int,
    epsilon: float,
    users: int,
    trials: int,
    seed: int,
    quantile: float = 0.5,
    confidence: float = 0.95,
    control: bool = True,
) -> Coverage:
    """Coverage of certified intervals on one shape, and of the negative control if asked for (else 1)."""
    rng = np.random.default_rng(seed)
    template = Isotonic(Integers(0, size - 1), users=users, epsilon=epsilon, quantile=quantile, interval=confidence)
    plain = Isotonic(Integers(0, size - 1), users=users, epsilon=epsilon, quantile=quantile)
    unit = rank_unit(template)
    misses = np.zeros((3, trials), bool)
    widths, errors = np.empty(trials), np.empty(trials)
    unbounded = 0
    for trial in range(trials):
        shape = distribution(name, size, rng)
        sample = Sample(shape.draw(users, rng), size)
        truth = shape.quantile(quantile)
        found = outcomes(template, sample, 1, rng)
        low, high = (int(end) for end in found.ends[0, 0])
        unbounded += low < 0 or high < 0
        if 0 <= high < low:
            low, high = high, low
        low, high = max(low, 0), high if high >= 0 else size - 1
        misses[0, trial], misses[1, trial] = high < truth, low > truth
        if control:
            likely = outcomes(plain, sample, 1, rng, likelihood_ratio=LIKELIHOOD_RATIO_CUT).likely[0, 0]
            misses[2, trial] = not int(likely[0]) <= truth <= int(likely[1])
        widths[trial] = float(sample.at_most(high) - sample.at_most(low - 1)) / users
        errors[trial] = sample.rank_error(found.answers[0], quantile)[0]
    return Coverage(
        certified=1.0 - float((misses[0] | misses[1]).mean()),
        likelihood_ratio=1.0 - float(misses[2].mean()),
        below=float(misses[0].mean()),
        above=float(misses[1].mean()),
        width=float(np.median(widths)) / unit,
        width_80=float(np.quantile(widths, 0.8)) / unit,
        no_bound=unbounded / trials,
        error=math.sqrt(float((errors**2).mean())) / unit,
    )


def rank_unit(template: Isotonic) -> float:
    """sd / (kappa sqrt n): the standard deviation of rank if all users were asked at the quantile."""
    rate = template.coin.report_rate(template.quantile)
    return math.sqrt(rate * (1.0 - rate) / template.users) / template.coin.kappa

"""One cell of a comparison: a protocol on a shape of data, run many times over freshly drawn data sets.

`measure` gives success and rank error; `users_for_90` reads from several cells how many users reach 90 % success.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from privquant.domain import Integers
from privquant.lab.engine import simulator
from privquant.lab.engine.isotonic import outcomes
from privquant.lab.sample import Sample
from privquant.lab.shapes import shape
from privquant.privacy.coin import Coin
from privquant.protocols.base import Protocol
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.shuffled import shuffled_isotonic
from privquant.protocols.naive.shuffled import shuffled_search
from privquant.protocols.registry import protocol as make_protocol

ALPHA = 0.04
USERS = 2500
DELTA = 1e-8


@dataclass(frozen=True)
class Setting:
    """One protocol on one shape.

    shuffled: "" or the accounting method of shuffled rounds. population: users there are, if not all are asked.
    behaviour: "" or the one of DpBayeSS, if not its default.
    """

    shape: str
    size: int
    epsilon: float
    protocol: str = "isotonic"
    users: int = USERS
    quantile: float | tuple[float, ...] = 0.5
    alpha: float = ALPHA
    rounds: int | None = None
    in_flight: int | None = None
    spread: float = 0.0
    shuffled: str = ""
    population: int = 0
    smooth: bool = True
    behaviour: str = ""

    def template(self) -> Protocol:
        domain = Integers(0, self.size - 1)
        if self.shuffled and self.protocol == "isotonic":
            return shuffled_isotonic(
                domain, users=self.users, epsilon=self.epsilon, delta=DELTA, method=self.shuffled
            )
        if self.shuffled:
            return shuffled_search(
                domain, users=self.users, epsilon=self.epsilon, delta=DELTA, method=self.shuffled
            )
        options: dict[str, Any] = {"spread": self.spread} if self.spread else {}
        if not self.smooth:
            options["smooth"] = False
        if self.behaviour:
            options["behaviour"] = self.behaviour
        return make_protocol(
            self.protocol, domain, users=self.users, epsilon=self.epsilon, quantile=self.quantile, **options
        )

    @property
    def limit(self) -> float:
        """Success if all users, drawn from a distribution, were asked at the quantile."""
        assert isinstance(self.quantile, float)
        coin = Coin.of(self.epsilon)
        rate = coin.report_rate(self.quantile)
        reach = self.alpha * coin.kappa * math.sqrt(self.users / (rate * (1.0 - rate)))
        return 2.0 * NormalDist().cdf(reach) - 1.0


@dataclass(frozen=True)
class Measured:
    """success: share of trials within alpha; error: mean rank error (one for each quantile)."""

    success: float
    error: tuple[float, ...]
    trials: int


def measure(setting: Setting, data_sets: int, trials: int, seed: Sequence[int]) -> Measured:
    """`trials` runs over `data_sets` drawn data sets."""
    rng = np.random.default_rng(list(seed))
    template = setting.template()
    quantiles = template.quantiles
    hits = 0
    errors = np.zeros(len(quantiles))
    done = 0
    for part in range(data_sets):
        count = trials * (part + 1) // data_sets - trials * part // data_sets
        crowd = setting.population or setting.users
        sample = Sample(shape(setting.shape, crowd, setting.size, rng), setting.size)
        if isinstance(template, Isotonic) and (setting.rounds or setting.in_flight):
            found = outcomes(
                template, sample, count, rng, rounds=setting.rounds, in_flight=setting.in_flight
            ).answers
        else:
            found = simulator(template)(template, sample, count, rng, draw="empirical")
        hits += int(sample.success(found[:, 0], quantiles[0], setting.alpha).sum())
        for k, q in enumerate(quantiles):
            errors[k] += float(sample.rank_error(found[:, k], q).sum())
        done += count
    return Measured(hits / done, tuple(float(e) / done for e in errors), done)


def users_for(rates: dict[int, float], wanted: float = 0.9) -> float:
    """Users for a success rate: a straight line of the normal score of the rate in sqrt(users)."""
    normal = NormalDist()
    users = np.sqrt(np.array(sorted(rates), float))
    scores = np.array([normal.inv_cdf((1.0 + min(rates[n], 0.9999)) / 2.0) for n in sorted(rates)])
    slope, height = np.polyfit(users, scores, 1)
    return float(((normal.inv_cdf((1.0 + wanted) / 2.0) - height) / slope) ** 2)


def users_for_90(found: dict[int, Measured]) -> tuple[float, float]:
    """Users for 90 % success, and the standard error that the number of trials leaves (a fixed-seed bootstrap)."""
    rng = np.random.default_rng(90)
    needed = users_for({n: m.success for n, m in found.items()})
    again = [
        users_for({n: float(rng.binomial(m.trials, m.success)) / m.trials for n, m in found.items()})
        for _ in range(200)
    ]
    return needed, float(np.std(again))

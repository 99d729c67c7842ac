"""What BayesLearn and DpBayeSS have in common: the channel's numbers, the coin rule, and learning from a report.

coin_rule="text"       the end of the cell that the rule of Algorithm 2 rounds to.
coin_rule="published"  always the left end, as in the authors' program (its cumulative weight is off by one). The
                       lowest value has no left end to ask and is no answer then, as in that program.
"""

import numbers
from abc import abstractmethod
from typing import Any

from privquant.errors import InvalidInput
from privquant.messages import Query
from privquant.protocols.base import ThresholdProtocol
from privquant.protocols.bayes.channel import Channel, learning_alpha
from privquant.protocols.bayes.posterior import Posterior
from privquant.validation import check_choice

COIN_RULES = ("text", "published")
DEFAULT_C = 0.6


def _check_c(c: object) -> float:
    if isinstance(c, bool) or not isinstance(c, numbers.Real) or not 0.0 < float(c) < 1e6:
        raise InvalidInput(f"c, of alpha~ = c sqrt(ln B / n), must be a number above 0, got {c!r}")
    return float(c)


def _check_alpha(alpha: object, tau: float) -> float | None:
    if alpha is None:
        return None
    if isinstance(alpha, bool) or not isinstance(alpha, numbers.Real) or not 0 < float(alpha) < min(tau, 1 - tau):
        raise InvalidInput(
            f"alpha must lie strictly between 0 and {min(tau, 1 - tau):.6g}, the distance of the report rate "
            f"searched for, {tau:.6g}, to 0 or 1; got {alpha!r}"
        )
    return float(alpha)


class Learner(ThresholdProtocol):
    """A search that learns by a posterior over cells.

    alpha: the error the update reckons with, in the rate of reports; c sqrt(ln B / n) unless given.
    """

    first_step: str = "median"
    update: str = "text"
    _posterior: Posterior

    def __init__(self, *args: Any, alpha: float | None, c: float, coin_rule: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.tau = self.coin.report_rate(self.quantile)
        self._alpha = _check_alpha(alpha, self.tau)
        self.c = _check_c(c)
        self.coin_rule = check_choice(coin_rule, "coin_rule", COIN_RULES)
        self.alpha = self._alpha or learning_alpha(self.domain.size, self.users, self.tau, self.c)
        self.channel = Channel.of(self.tau, self.alpha)
        # Index of a cell + bottom = its value: the left end of value 0 is no threshold.
        self.bottom = 1 if self.coin_rule == "published" and self.domain.size > 1 else 0
        self.cells = self.domain.size - self.bottom
        self.steps = 0

    def untouched(self, cells: int) -> Posterior:
        """The posterior over so many cells before any report."""
        return Posterior(cells, self.channel, first=cells // 2 if self.first_step == "middle" else None)

    @abstractmethod
    def threshold(self) -> int:
        """The threshold to ask now: an end of the cell at the posterior's quantile."""

    @abstractmethod
    def _boundary(self, threshold: int) -> int:
        """The last cell of the posterior that lies left of a threshold."""

    def _learn(self, query: Query, bit: int) -> None:
        """The text's update only sums to one for the report the posterior waits for; a late one is split."""
        self._posterior.visit()
        if query.step == self.steps and query.threshold == self.threshold():
            self._posterior.cut(bit)
        else:
            self._posterior.split(self._boundary(query.threshold), bit)
        self.steps += 1

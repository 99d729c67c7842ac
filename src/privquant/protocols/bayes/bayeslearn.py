"""BayesLearn alone: every user asked at the posterior's quantile, the answer is the posterior's median.

The posterior is over the values v of the domain, "v is the quantile", uniform at first. Cell v lies between
the thresholds v-1 and v; the paper's interval [j, j+1] is the cell v = j+1, and its coin 0, whose probability
is 0, makes the lowest value a possible answer too. A quantile is searched directly: a threshold whose report
probability is tau = 1/2 + kappa (q - 1/2).

update="text"    Algorithm 2: the cell at the quantile is cut there. That update only sums to one for the
                 report the posterior waits for; one that was asked at an earlier posterior (`step`) takes the
                 two-region form.
update="counts"  every report in the two-region form: cells up to its threshold by one factor, the rest by the
                 other. The state is then a table of counts, as a deployed campaign needs.

coin_rule="text"       the end of the cell that the rule of Algorithm 2 rounds to.
coin_rule="published"  always the left end, as in the authors' program (its cumulative weight is off by one). The
                       lowest value has no left end to ask and is no answer then, as in that program.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, ClassVar

from privquant.errors import InvalidInput, ProtocolError
from privquant.messages import AnyQuery, Query
from privquant.protocols.base import ThresholdProtocol
from privquant.protocols.bayes.channel import Channel, learning_alpha
from privquant.protocols.bayes.count_posterior import CountPosterior
from privquant.protocols.bayes.posterior import Posterior
from privquant.validation import check_choice

COIN_RULES = ("text", "published")
UPDATES = ("text", "counts")
DEFAULT_C = 0.6


def check_c(c: object) -> float:
    if isinstance(c, bool) or not isinstance(c, numbers.Real) or not 0.0 < float(c) < 1e6:
        raise InvalidInput(f"c, of alpha~ = c sqrt(ln B / n), must be a number above 0, got {c!r}")
    return float(c)


def check_alpha(alpha: object, tau: float) -> float | None:
    if alpha is None:
        return None
    if isinstance(alpha, bool) or not isinstance(alpha, numbers.Real) or not 0 < float(alpha) < min(tau, 1 - tau):
        raise InvalidInput(
            f"alpha must lie strictly between 0 and {min(tau, 1 - tau):.6g}, the distance of the report rate "
            f"searched for, {tau:.6g}, to 0 or 1; got {alpha!r}"
        )
    return float(alpha)


class BayesLearn(ThresholdProtocol):
    """The Bayesian learner with all users.

    alpha: the error the update reckons with, in the rate of reports; c sqrt(ln B / n) unless given.
    """

    name: ClassVar[str] = "bayeslearn"
    title: ClassVar[str] = "BayesLearn: the posterior's median"

    def __init__(
        self,
        *args: Any,
        alpha: float | None = None,
        c: float = DEFAULT_C,
        coin_rule: str = "text",
        update: str = "text",
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.tau = self.coin.report_rate(self.quantile)
        self._alpha = check_alpha(alpha, self.tau)
        self.c = check_c(c)
        self.coin_rule = check_choice(coin_rule, "coin_rule", COIN_RULES)
        self.update = check_choice(update, "update", UPDATES)
        self.alpha = self._alpha or learning_alpha(self.domain.size, self.users, self.tau, self.c)
        self.channel = Channel.of(self.tau, self.alpha)
        # Index of a cell + bottom = its value: the authors' program has no cell for the lowest value.
        self.bottom = 1 if self.coin_rule == "published" and self.domain.size > 1 else 0
        self.cells = self.domain.size - self.bottom
        self.steps = 0
        self._posterior = Posterior(self.cells, self.channel.q)
        self._table = CountPosterior(self.cells, self.channel)
        if self.update == "counts":
            # A property of this run, not of the class: the text's update depends on the order of reports.
            self.count_table = self.takes_counts = True  # type: ignore[misc]

    def options(self) -> dict[str, Any]:
        return {"alpha": self._alpha, "c": self.c, "coin_rule": self.coin_rule, "update": self.update}

    # -- the contract --------------------------------------------------------------------------------------

    def can_ask(self) -> bool:
        return self.asked < self.users and self.domain.size > 1

    def _next(self, k: int) -> list[tuple[AnyQuery, int]]:
        step = self.steps if self.update == "text" else 0
        return [(Query(self.threshold(), self.coin.threshold, step=step), k)]

    def threshold(self) -> int:
        """The threshold to ask now: an end of the cell at the posterior's quantile."""
        if self.update == "text":
            cell, left = self._posterior.cell, self._posterior.left_coin()
        else:
            q = self.channel.q
            point = self._table.at(q)
            cell, left = point.cell, q * point.right <= (1.0 - q) * point.left
        coin = cell - 1 if left or self.coin_rule == "published" else cell
        return min(max(coin + self.bottom, 0), self.domain.size - 2)

    def _check_query(self, query: Query) -> None:
        super()._check_query(query)
        if query.phase or query.arm or not isinstance(query.step, int) or query.step < 0:
            raise ProtocolError(f"a query of bayeslearn has phase 0, arm 0 and a step of at least 0, got {query}")

    def _use_bit(self, query: Query, bit: int) -> bool:
        if self.update == "counts":
            return self._use_counts(query, 1, bit) == 1
        left, right = self.channel.left[bit], self.channel.right[bit]
        self._posterior.visit()
        if query.step == self.steps and query.threshold == self.threshold():
            self._posterior.update_here(left, right)
        else:
            self._posterior.update_split(query.threshold - self.bottom, left, right)
        self.steps += 1
        return True

    def _use_counts(self, query: Query, answered: int, ones: int) -> int:
        if self.update == "text":
            return super()._use_counts(query, answered, ones)
        self._table.add(query.threshold - self.bottom, answered - ones, ones)
        self.steps += answered
        return answered

    def _answer(self, quantile: float) -> int | None:
        cell = self._posterior.median() if self.update == "text" else self._table.at(0.5).cell
        return cell + self.bottom

    # -- state ---------------------------------------------------------------------------------------------

    def _progress(self) -> dict[str, Any]:
        form = self._posterior.to_dict() if self.update == "text" else self._table.to_dict()
        return {"steps": self.steps, "posterior": form}

    def _restore(self, progress: Mapping[str, Any]) -> None:
        self.steps = int(progress["steps"])
        if self.update == "text":
            self._posterior = Posterior.from_dict(progress["posterior"])
        else:
            self._table.restore(progress["posterior"])

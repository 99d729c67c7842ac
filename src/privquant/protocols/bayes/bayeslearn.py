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
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from privquant.errors import ProtocolError
from privquant.messages import AnyQuery, Query
from privquant.protocols.bayes.count_posterior import CountPosterior
from privquant.protocols.bayes.learner import DEFAULT_C, Learner
from privquant.protocols.bayes.posterior import Posterior
from privquant.validation import check_choice

UPDATES = ("text", "counts")


class BayesLearn(Learner):
    """The Bayesian learner with all users."""

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
        super().__init__(*args, alpha=alpha, c=c, coin_rule=coin_rule, **settings)
        self.update = check_choice(update, "update", UPDATES)
        self._posterior = self.untouched(self.cells)
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
        if self.update == "text":
            cell, left = self._posterior.cell, self._posterior.left_coin()
        else:
            q = self.channel.q
            point = self._table.at(q)
            cell, left = point.cell, q * point.right <= (1.0 - q) * point.left
        coin = cell - 1 if left or self.coin_rule == "published" else cell
        return min(max(coin + self.bottom, 0), self.domain.size - 2)

    def _boundary(self, threshold: int) -> int:
        return threshold - self.bottom

    def _check_query(self, query: Query) -> None:
        super()._check_query(query)
        if query.phase or query.arm or not isinstance(query.step, int) or query.step < 0:
            raise ProtocolError(f"a query of bayeslearn has phase 0, arm 0 and a step of at least 0, got {query}")

    def _use_bit(self, query: Query, bit: int) -> bool:
        if self.update == "counts":
            return self._use_counts(query, 1, bit) == 1
        self._learn(query, bit)
        return True

    def _use_counts(self, query: Query, answered: int, ones: int) -> int:
        if self.update == "text":
            return super()._use_counts(query, answered, ones)
        self._table.add(self._boundary(query.threshold), answered - ones, ones)
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
            self._posterior = Posterior.from_dict(progress["posterior"], self.channel)
        else:
            self._table.restore(progress["posterior"])

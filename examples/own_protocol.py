"""A protocol of your own: keep the contract, pass the suite, and everything else works with it.

This one asks everybody at one threshold picked in advance and answers yes or no in the crudest way: the domain's
low end if more than half said "at most", its high end otherwise.

    python examples/own_protocol.py
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

import privquant as pq
from privquant.lab.populations import CountUsers
from privquant.lab.sample import Sample
from privquant.messages import AnyQuery, Query
from privquant.protocols.base import ThresholdProtocol


class OneQuestion(ThresholdProtocol):
    name = "one-question"
    title = "one question"
    count_table = True
    takes_counts = True
    answered = ones = 0

    def can_ask(self) -> bool:
        return self.asked < self.users and self.domain.size > 1

    def batch_size(self) -> int:
        return self.users

    def _next(self, k: int) -> list[tuple[AnyQuery, int]]:
        return [(Query(self.domain.size // 2 - 1, self.coin.threshold), k)]

    def _use_counts(self, query: Query, answered: int, ones: int) -> int:
        self.answered += answered
        self.ones += ones
        return answered

    def _answer(self, quantile: float) -> int | None:
        below = self.coin.debias(self.ones / self.answered)
        return 0 if below > quantile else self.domain.size - 1

    def _progress(self) -> dict[str, Any]:
        return {"answered": self.answered, "ones": self.ones}

    def _restore(self, progress: Mapping[str, Any]) -> None:
        self.answered, self.ones = progress["answered"], progress["ones"]


if __name__ == "__main__":
    sample = Sample(np.random.default_rng(3).integers(0, 300, 5000), 1000)
    protocol = OneQuestion(pq.Integers(0, 999), users=sample.n, epsilon=1.0)
    print(pq.run(protocol, CountUsers(sample, np.random.default_rng(4))))

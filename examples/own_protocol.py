"""A protocol of your own: keep the contract, register it, and everything else works with it.

This one asks everybody at one threshold picked in advance and answers yes or no in the crudest way: the domain's
low end if more than half said "at most", its high end otherwise. It keeps every rule of the contract, and the
suite's one check of accuracy finds out how crude it is.

    python examples/own_protocol.py
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

import privquant as pq
from privquant.testing import CHECKS, Case


@pq.register
class OneQuestion(pq.ThresholdProtocol):
    name = "one-question"
    title = "one question"
    count_table = True
    takes_counts = True
    answered = ones = 0

    def can_ask(self) -> bool:
        return self.asked < self.users and self.domain.size > 1

    def batch_size(self) -> int:
        return self.users

    def _next(self, k: int) -> list[tuple[pq.AnyQuery, int]]:
        return [(pq.Query(self.domain.size // 2 - 1, self.coin.threshold), k)]

    def _use_counts(self, query: pq.Query, answered: int, ones: int) -> int:
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
    for check in CHECKS:
        try:
            check(Case("one-question"))
            print(f"kept    {check.__name__}")
        except AssertionError as error:
            print(f"BROKEN  {check.__name__}: {error}")

    values = np.random.default_rng(3).integers(0, 300, 5000)
    print(pq.median(values, epsilon=1.0, domain=pq.Integers(0, 999), protocol="one-question", rng=4))

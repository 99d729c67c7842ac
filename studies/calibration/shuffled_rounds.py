"""A template of isotonic search in shuffled rounds whose coins are read from the planner's grid.

Exact accounting for every round of every cell would take longer than all runs of a calibration. What is measured is
the same search with coins that differ from the exact ones by less than 7 %; nobody is promised anything by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privquant.domain import Domain
from privquant.lab.experiment.cell import what_is_run
from privquant.messages import Guarantee
from privquant.planning.calibration import coin_of_round, rounds_of
from privquant.privacy.coin import Coin
from privquant.protocols.base import Protocol
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.validation import one_or_several


@dataclass(frozen=True)
class ShuffledRounds:
    """Isotonic search in shuffled rounds, for simulation only."""

    epsilon: float
    delta: float
    quantiles: tuple[float, ...] = (0.5,)

    protocol = "isotonic"

    @property
    def settings(self) -> Mapping[str, Any]:
        return what_is_run(self) | {"delta": self.delta, "method": "planner's grid"}

    def __call__(self, domain: Domain, users: int) -> Protocol:
        sizes = rounds_of(self.protocol, users, self.epsilon, domain.size)
        local = {size: coin_of_round(size, self.epsilon, self.delta) for size in set(sizes)}
        return Isotonic(
            domain,
            users=users,
            epsilon=max(local.values()),
            quantile=one_or_several(self.quantiles),
            guarantee=Guarantee("local", max(local.values())),
            rounds=[(size, Coin.of(local[size]).threshold) for size in sizes],
        )

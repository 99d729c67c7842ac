"""DpBayeSS, Bayesian screening search: BayesLearn narrows the domain to a few cells, and these are searched.

    phase 0    BayesLearn over the whole domain; every ceil(gamma |L|)-th of the visited cells survives,
               gamma = 1/ln^2 B
    phase 1    if more than 13 survive: BayesLearn over the survivors, padded with what lies below and above
               them, and gamma = 1/13
    phase 2..  the survivors: final="search" by batches (one phase a round), or final="test" each on its own
               (one phase)

split="experiments" gives the phases users as n ln B : n ln ln B : n; split="theorem" learns once with a
quarter of the users, gamma = 1/13, spends another quarter on the survivors and asks nobody else, as the proof
of the theorem does.

behaviour="published" is what the recorded runs of the authors' program can only be reproduced with. It is a
preset of these options, each of which may be given on its own:

    coin_rule="published"    the coin is always the LEFT end of the cell, and the lowest value has no cell
    first_step="middle"      the first cell is number k // 2 of k, not the one at mass q
    reduction="interpolated" the survivors are interpolated quantiles of the visited list, rounded
    search="published"       the final search can fall off its left end, and then answers its last coin

A report that comes to a closed phase is counted and not used. One that was asked at an earlier posterior of
the open phase takes the two-region form, as in `bayeslearn`.
"""

from bisect import bisect_right
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from privquant.errors import InvalidInput, ProtocolError
from privquant.messages import AnyQuery, Query
from privquant.protocols.bayes.last_stage import LastStage, PublishedStage, SearchStage, TestStage
from privquant.protocols.bayes.learner import COIN_RULES, DEFAULT_C, Learner
from privquant.protocols.bayes.posterior import Posterior
from privquant.protocols.bayes.reduction import (
    FEW,
    Cell,
    first_gamma,
    padded,
    representative,
    split_users,
    survivors,
    survivors_interpolated,
)
from privquant.validation import check_choice

BEHAVIOURS = ("text", "published")
FINALS = ("search", "test")
SPLITS = ("experiments", "theorem")
_CHOICES = {
    "coin_rule": COIN_RULES,
    "first_step": ("median", "middle"),
    "reduction": ("visited", "interpolated"),
    "search": ("text", "published"),
}
_LAST_PHASE = 2


class BayeSS(Learner):
    """Bayesian screening search for one quantile."""

    name: ClassVar[str] = "bayess"
    title: ClassVar[str] = "DpBayeSS: Bayesian screening search"

    def __init__(
        self,
        *args: Any,
        alpha: float | None = None,
        c: float = DEFAULT_C,
        final: str = "search",
        split: str = "experiments",
        behaviour: str = "text",
        coin_rule: str | None = None,
        first_step: str | None = None,
        reduction: str | None = None,
        search: str | None = None,
        **settings: Any,
    ) -> None:
        published = check_choice(behaviour, "behaviour", BEHAVIOURS) == "published"
        chosen = {"coin_rule": coin_rule, "first_step": first_step, "reduction": reduction, "search": search}
        for option, value in chosen.items():
            preset = _CHOICES[option][int(published)]
            setattr(self, option, preset if value is None else check_choice(value, option, _CHOICES[option]))
        super().__init__(*args, alpha=alpha, c=c, coin_rule=self.coin_rule, **settings)
        self.behaviour = behaviour
        self.final = check_choice(final, "final", FINALS)
        self.split = check_choice(split, "split", SPLITS)
        if self.final == "test" and search is not None:
            raise InvalidInput(f"search={search!r} is an option of final='search', got final='test'")
        self.plan = self._plan()
        self.phase = 0
        self._asked = self._told = self._gone = 0  # of the open learning phase
        self._cells: list[Cell] = []  # of phase 1, then the survivors
        self._stage: LastStage | None = None
        self._posterior = self.untouched(self.cells)
        self._advance()

    coin_rule: str
    reduction: str
    search: str

    def _plan(self) -> tuple[int, int, int]:
        """Users of the first learning, of the second, and of the final stage."""
        if self.split == "theorem":
            learn, half = -(-self.users // 4), -(-self.users // 2)
            return learn, 0, half - learn
        first, second = split_users(self.users, self.domain.size)
        return first, second, self.users - first - second

    def options(self) -> dict[str, Any]:
        named = ("c", "final", "split", "behaviour", *(option for option in _CHOICES if option != "search"))
        form = {"alpha": self._alpha} | {option: getattr(self, option) for option in named}
        return form | {"search": self.search} if self.final == "search" else form

    # -- phases --------------------------------------------------------------------------------------------

    def _cell(self, index: int) -> Cell:
        """The ends of a cell of the open learning phase."""
        return self._cells[index] if self.phase == 1 else (index + self.bottom - 1, index + self.bottom)

    def _boundary(self, threshold: int) -> int:
        if self.phase == 0:
            return threshold - self.bottom
        return bisect_right([high for _, high in self._cells], threshold) - 1

    def _advance(self) -> None:
        """Close every learning phase whose users were all heard or given up."""
        if self.domain.size == 1:
            return
        while self.phase < _LAST_PHASE and self._told + self._gone >= self.plan[self.phase]:
            self._close_learning()

    def _close_learning(self) -> None:
        cells, counts = self._posterior.visited()
        if cells.size == 0:
            cells, counts = np.array([self._posterior.cell]), np.array([1])
        once_only = self.phase == 1 or self.split == "theorem"
        found = self.reduce(cells, counts, 1.0 / FEW if once_only else first_gamma(self.domain.size))
        self.steps = self._asked = self._told = self._gone = 0
        if once_only or found.size <= FEW:
            users = self.plan[2] + (self.plan[1] if self.phase == 0 else 0)
            self._cells = [self._cell(k) for k in found.tolist()]
            self.phase = _LAST_PHASE
            self._stage = self.last_stage(self._cells, users)
        else:
            self._cells = padded(found + self.bottom, self.domain.size, published=self.coin_rule == "published")
            self.phase = 1
            self._posterior = self.untouched(len(self._cells))

    def reduce(self, cells: Any, counts: Any, gamma: float) -> Any:
        """ReductionToGamma on the visited cells and how often each was."""
        chosen = survivors if self.reduction == "visited" else survivors_interpolated
        return chosen(cells, counts, gamma)

    def last_stage(self, cells: list[Cell], users: int) -> LastStage:
        """The last stage over these survivors."""
        if self.final == "test":
            kind: type[LastStage] = TestStage
        else:
            kind = SearchStage if self.search == "text" else PublishedStage
        return kind(cells, self.domain.size, users, self.coin, self.quantile)

    # -- the contract --------------------------------------------------------------------------------------

    def can_ask(self) -> bool:
        if self.domain.size == 1 or self.asked >= self.users:
            return False
        if self._stage is not None:
            return self._stage.left() > 0
        return self._asked < self.plan[self.phase]

    def batch_size(self) -> int:
        return max(1, self._stage.left()) if self._stage is not None else 1

    def _next(self, k: int) -> list[tuple[AnyQuery, int]]:
        coin = self.coin.threshold
        if self._stage is not None:
            return [
                (Query(threshold, coin, phase=_LAST_PHASE + number), count)
                for number, threshold, count in self._stage.ask(k)
            ]
        count = min(k, self.plan[self.phase] - self._asked)
        self._asked += count
        return [(Query(self.threshold(), coin, phase=self.phase, step=self.steps), count)]

    def threshold(self) -> int:
        low, high = self._cell(self._posterior.cell)
        coin = low if self.coin_rule == "published" or self._posterior.left_coin() else high
        return min(max(coin, 0), self.domain.size - 2)

    def _check_query(self, query: Query) -> None:
        super()._check_query(query)
        if not isinstance(query.phase, int) or query.phase < 0 or query.arm or not isinstance(query.step, int):
            raise ProtocolError(f"a query of bayess has a phase of at least 0, arm 0 and a whole step, got {query}")
        if self._stage is not None and query.phase >= _LAST_PHASE:
            if query.step or not self._stage.belongs(query.phase - _LAST_PHASE, query.threshold):
                raise ProtocolError(f"the final stage of this run never asks {query}")
        elif query.phase == self.phase == 1 and query.threshold not in self._possible():
            raise ProtocolError(f"phase 1 of this run never asks threshold {query.threshold}")

    def _possible(self) -> set[int]:
        """The thresholds phase 1 may ask."""
        return {min(max(end, 0), self.domain.size - 2) for cell in self._cells for end in cell}

    def _use_bit(self, query: Query, bit: int) -> bool:
        if self._stage is not None:
            number = query.phase - _LAST_PHASE
            return number >= 0 and self._stage.tell_counts(number, query.threshold, 1, bit)
        if query.phase != self.phase:
            return False
        self._learn(query, bit)
        self._told += 1
        self._asked = max(self._asked, self._told + self._gone)
        self._advance()
        return True

    def _give_up(self, query: AnyQuery) -> None:
        if not isinstance(query, Query):
            return
        if self._stage is not None:
            self._stage.give_up(query.phase - _LAST_PHASE, query.threshold)
        elif query.phase == self.phase:
            self._gone += 1
            self._asked = max(self._asked, self._told + self._gone)
            self._advance()

    def _answer(self, quantile: float) -> int | None:
        if self._stage is not None:
            return self._stage.answer()
        return representative(self._cell(self._posterior.median()), self.domain.size)

    # -- state ---------------------------------------------------------------------------------------------

    def _progress(self) -> dict[str, Any]:
        form: dict[str, Any] = {"phase": self.phase, "cells": [list(cell) for cell in self._cells]}
        if self._stage is not None:
            return form | {"users": self._stage.users, "final": self._stage.to_dict()}
        counters = {"steps": self.steps, "asked": self._asked, "told": self._told, "gone": self._gone}
        return form | counters | {"posterior": self._posterior.to_dict()}

    def _restore(self, progress: Mapping[str, Any]) -> None:
        self.phase = int(progress["phase"])
        self._cells = [(int(low), int(high)) for low, high in progress["cells"]]
        if self.phase == _LAST_PHASE:
            self._stage = self.last_stage(self._cells, int(progress["users"]))
            self._stage.restore(progress["final"])
            return
        self._stage = None
        self.steps, self._asked = int(progress["steps"]), int(progress["asked"])
        self._told, self._gone = int(progress["told"]), int(progress["gone"])
        self._posterior = Posterior.from_dict(progress["posterior"], self.channel)

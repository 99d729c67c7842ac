"""DpNaiveNBS: binary search over the thresholds, one batch of fresh users a round.

ceil(log2 B) rounds of floor(n / rounds) users, the remainder one by one from the first; the rate of ones in
a round, de-biased, says on which side of the threshold the quantile lies. The target is any quantile directly: a
report is one with probability 1/2 + kappa (F - 1/2), so the round compares with 1/2 + kappa (q - 1/2).

The state is a table of counts: (answered, ones) for each round. A report to a round that has not opened yet, as a
rebuilt protocol may be told, waits in the table; one to a closed round is counted and not used.

behaviour="text" never falls off an end and uses every user. behaviour="published" is the search of the authors'
program, which the recorded runs need: it takes the last coin whose rate is at most q, stops asking when its bracket
is empty, and answers the top of the domain when it falls off the bottom.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from privquant.errors import ProtocolError
from privquant.messages import AnyQuery, Query
from privquant.protocols.base import ThresholdProtocol
from privquant.protocols.naive.bracket import Standing, batch_sizes, follow, follow_published, rounds_for
from privquant.validation import check_choice

BEHAVIOURS = ("text", "published")
_COUNTED = ("answered", "ones", "gone", "asked")  # of each round


class NaiveSearch(ThresholdProtocol):
    """Binary search by batches; in the shuffle model `epsilon` is the local one and `guarantee` says the rest."""

    name: ClassVar[str] = "naive"
    title: ClassVar[str] = "naive search, DpNaiveNBS"
    takes_counts: ClassVar[bool] = True
    round_table: ClassVar[bool] = True

    def __init__(self, *args: Any, behaviour: str = "text", **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.behaviour = check_choice(behaviour, "behaviour", BEHAVIOURS)
        self.target = self.coin.report_rate(self.quantile)
        self.rounds = rounds_for(self.domain.size)
        self.sizes = batch_sizes(self.users, self.rounds)
        self._answered = [0] * self.rounds
        self._ones = [0] * self.rounds
        self._gone = [0] * self.rounds
        self._asked = [0] * self.rounds
        self._waiting: dict[tuple[int, int], list[int]] = {}  # (round, threshold) -> [answered, ones]
        self._thresholds: list[int] = []  # of the closed rounds and the open one
        self._open()

    def options(self) -> dict[str, Any]:
        return {"behaviour": self.behaviour}

    # -- rounds --------------------------------------------------------------------------------------------

    def _standing(self, rounds: int) -> Standing:
        """Where the search stands after so many rounds, as indices of the domain."""
        counts = list(zip(self._answered[:rounds], self._ones[:rounds], strict=True))
        if self.behaviour == "text":
            return follow(self.domain.size, counts, self.target)
        found = follow_published(self.domain.size, counts, self.target)
        # The authors' coins include the domain's last value, whose rate is known to be one: whatever is heard
        # there, the answer is the last value, so the threshold below it may stand in. Their coin m is our m + 1.
        top = self.domain.size - 1
        return Standing(
            None if found.ask is None else min(found.ask, top - 1),
            min(found.answer + 1, top),
        )

    def _open(self) -> None:
        """Open the first round that is not full, taking in what waited for it; `rounds` when the search is over."""
        self.round = len(self._thresholds)
        while self.round < self.rounds:
            threshold = self._standing(self.round).ask
            if threshold is None:
                self.round = self.rounds
                return
            self._thresholds.append(threshold)
            for key in [key for key in self._waiting if key[0] == self.round]:
                answered, ones = self._waiting.pop(key)
                if key[1] == threshold:
                    self._answered[self.round] += answered
                    self._ones[self.round] += ones
                else:
                    self.unused += answered
            if not self._full():
                return
            self.round += 1

    def _full(self) -> bool:
        """Whether all users of the open round were heard or given up."""
        k = self.round
        done = self._answered[k] + self._gone[k]
        # Who answered was asked, if not by this object then by the one it was rebuilt from.
        self._asked[k] = max(self._asked[k], done)
        return done >= self.sizes[k]

    def _settle(self) -> None:
        """Close the open round if it is full."""
        if self.round < self.rounds and self._full():
            self._open()

    # -- the contract --------------------------------------------------------------------------------------

    def can_ask(self) -> bool:
        return self._room() > 0

    def _room(self) -> int:
        return self.sizes[self.round] - self._asked[self.round] if self.round < self.rounds else 0

    def batch_size(self) -> int:
        return max(1, self._room())

    def forget_in_flight(self) -> None:
        super().forget_in_flight()
        self._asked = [answered + gone for answered, gone in zip(self._answered, self._gone, strict=True)]

    def _next(self, k: int) -> list[tuple[AnyQuery, int]]:
        number = self.round
        self._asked[number] += k
        return [(self.query_of_round(number, self._thresholds[number]), k)]

    def round_sizes(self) -> tuple[int, ...]:
        return tuple(size for size in self.sizes if size > 0)

    def query_of_round(self, number: int, threshold: int) -> Query:
        return Query(threshold, self.coin.threshold, phase=number)

    def _check_query(self, query: Query) -> None:
        super()._check_query(query)
        if not isinstance(query.phase, int) or not 0 <= query.phase < self.rounds or query.arm or query.step:
            raise ProtocolError(
                f"a query of this search has a phase in 0 .. {self.rounds - 1}, arm 0 and step 0, got {query}"
            )
        if query.phase < len(self._thresholds) and query.threshold != self._thresholds[query.phase]:
            raise ProtocolError(
                f"round {query.phase} asked threshold {self._thresholds[query.phase]}, got {query.threshold}"
            )

    def _use_counts(self, query: Query, answered: int, ones: int) -> int:
        k = query.phase
        if k < self.round:
            return 0
        if k > self.round:
            waiting = self._waiting.setdefault((k, query.threshold), [0, 0])
            waiting[0] += answered
            waiting[1] += ones
            return answered
        used = min(answered, self.sizes[k] - self._answered[k] - self._gone[k])
        self._answered[k] += used
        self._ones[k] += min(ones, used)
        self._settle()
        return used

    def _close_round(self, query: Query, answered: int, ones: int) -> int:
        k = query.phase
        if k != self.round or self._answered[k] or self._gone[k]:
            raise ProtocolError(
                f"round {k} is told whole, once and in its turn; round {self.round} is the open one"
            )
        planned = self.sizes[k]
        self._answered[k], self._ones[k], self._gone[k] = answered, ones, max(0, planned - answered)
        self._settle()
        return planned

    def _give_up(self, query: AnyQuery) -> None:
        if isinstance(query, Query) and self.round <= query.phase < self.rounds:
            self._gone[query.phase] += 1
            self._settle()

    def _answer(self, quantile: float) -> int | None:
        return self._standing(min(self.round + 1, self.rounds)).answer

    # -- state ---------------------------------------------------------------------------------------------

    def _progress(self) -> dict[str, Any]:
        counts = {name: list(getattr(self, f"_{name}")) for name in _COUNTED}
        waiting = [[*key, *told] for key, told in sorted(self._waiting.items())]
        return {"thresholds": list(self._thresholds), "round": self.round, **counts, "waiting": waiting}

    def _restore(self, progress: Mapping[str, Any]) -> None:
        self._thresholds = list(progress["thresholds"])
        self.round = int(progress["round"])
        for name in _COUNTED:
            setattr(self, f"_{name}", list(progress[name]))
        self._waiting = {
            (number, threshold): [answered, ones] for number, threshold, answered, ones in progress["waiting"]
        }

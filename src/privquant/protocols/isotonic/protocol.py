"""Isotonic search: every report ever heard takes part in every decision.

The state is one table, a count of reports and of ones for each (phase, arm, coin, threshold), and the planned
number of users. What is asked next and what is answered are functions of that table (`rules`), so reports
may come late, in any order, in parts and from several collectors: `merge` is addition.

    phase   0: bulk phase (search of the median before an extreme quantile); 1: the search; 2: an anchor; and three
            times the epoch, the part of the run in which it was asked, if the run is guarded (`epochs`).
            In rounds with fixed batches (the shuffle model) the number of the round, from 1.
    arm     which quantile, and with a certified interval which of its three arms (search, lower, upper).
    coin    the coin the answer was thrown with; rounds of different size have different coins.

Options: `lam` (share of the log-uniform prior, 1/2), `spread` (half-width of the posterior quantiles a batch is
spread over, for runs in few rounds or with many users in flight), `interval` (confidence of a certified interval;
it costs most of the users), `bulk` (False leaves the bulk phase out), `smooth` (False answers by the posterior's
median alone, without the curve), `guard` (False believes every part of the run, whatever the others say; runs in
fixed rounds or with a certified interval are never guarded), `rounds` (fixed rounds as pairs of users and coin; see
`shuffled`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from privquant.domain import Domain
from privquant.error_words import Interval, finite
from privquant.errors import InvalidInput, ProtocolError
from privquant.messages import AnyQuery, Estimate, Guarantee, Query
from privquant.privacy.coin import Coin
from privquant.protocols.base import ThresholdProtocol
from privquant.protocols.isotonic import allocation, rules
from privquant.protocols.isotonic.allocation import RunPlan
from privquant.protocols.isotonic.contradiction import FIRST, Judgement, judgement
from privquant.protocols.isotonic.epochs import (
    ANCHOR,
    BULK,
    KINDS,
    SEARCH,
    Arrivals,
    epochs_of,
    in_bulk,
    mark,
    new_arrivals,
    with_rows,
)
from privquant.protocols.isotonic.guard import is_due, judge, rebuild
from privquant.protocols.isotonic.interval import QUOTA, START, walk_bound
from privquant.protocols.isotonic.prior import Search
from privquant.protocols.isotonic.table import Table, add_counts, grown, new_table
from privquant.protocols.rounds import Rounds
from privquant.validation import check_count, check_flag, check_probability

Key = tuple[int, int, int, int]
"""(phase, arm, coin, threshold)"""


class Believed(NamedTuple):
    """The table an answer is read from, and the judgement of the run's epochs that it follows."""

    table: Table
    judgement: Judgement

    @property
    def left_out(self) -> bool:
        """Whether a part of the run is not in the table."""
        return bool(self.judgement.dropped)


class Isotonic(ThresholdProtocol):
    name = "isotonic"
    title = "isotonic search"
    count_table = True
    takes_counts = True
    many_quantiles: ClassVar[bool] = True
    # Many devices are in flight before the first is heard (benchmarks/service/in_flight.py has the figures).
    campaign_options = MappingProxyType({"spread": 0.25, "guard": True})
    before_named = MappingProxyType({"guard": False})

    def __init__(
        self,
        domain: Domain,
        *,
        users: int,
        epsilon: float,
        quantile: float | Sequence[float] = 0.5,
        guarantee: Guarantee | None = None,
        lam: float = 0.5,
        spread: float = 0.0,
        interval: float | None = None,
        bulk: bool = True,
        smooth: bool = True,
        guard: bool = True,
        rounds: Sequence[Sequence[int]] | None = None,
    ) -> None:
        super().__init__(domain, users=users, epsilon=epsilon, quantile=quantile, guarantee=guarantee)
        self.lam = _check_share(lam, "lam", 1.0)
        self.spread = _check_share(spread, "spread", 0.5)
        self.interval = None if interval is None else check_probability(interval, "interval")
        self.bulk = check_flag(bulk, "bulk")
        self.smooth = check_flag(smooth, "smooth")
        self.rounds = None if rounds is None else _check_rounds(rounds, self.users)
        if self.rounds is not None and (self.interval is not None or self.spread > 0.0):
            raise InvalidInput("fixed rounds ask one threshold a round: leave interval and spread out")
        # The arms of an interval and shuffled rounds are promised whole: nothing of them may be left out.
        self.guard = check_flag(guard, "guard") and self.rounds is None and self.interval is None
        coins = {self.coin.threshold} if self.rounds is None else {coin for _, coin in self.rounds}
        # a smaller flip threshold is a larger kappa; the most honest coin comes first
        self._coins = {threshold: row for row, threshold in enumerate(sorted(coins))}
        kappas = np.array([Coin(threshold).kappa for threshold in self._coins])
        self.search = Search(self.domain.size - 1, self.lam, kappas)
        self.run_plan = self._plan()
        self._rounds = None if self.rounds is None else Rounds([size for size, _ in self.rounds])
        self.round_table = self.rounds is not None  # type: ignore[misc]
        self._counts: dict[Key, list[int]] = {}
        self._table = self._empty()
        self._arrivals = new_arrivals(0, self.run_plan.epochs, len(self.quantiles))
        self._believed: Believed | None = None
        self._round_thresholds: dict[int, int] = {}
        self._known: dict[tuple[int, int], int] = {}
        self._order_known = True

    def options(self) -> dict[str, Any]:
        found = {name: getattr(self, name) for name in ("lam", "spread", "interval", "bulk", "smooth")}
        found["rounds"] = None if self.rounds is None else [list(pair) for pair in self.rounds]
        # left out where it is off, as in states from before there was such an option
        return found | {"guard": True} if self.guard else found

    @property
    def fixed_rounds(self) -> bool:
        return self.rounds is not None or super().fixed_rounds

    def _plan(self) -> RunPlan:
        several = len(self.quantiles)
        users = np.array([allocation.of_quantile(self.users, j, several) for j in range(several)], np.int64)
        bulk = 0
        if self.bulk and any(rules.is_extreme(q) for q in self.quantiles):
            bulk = rules.bulk_reports(self.users, float(self.search.kappas[0]), self.domain.size)
        bounds: list[float] = []
        quota = np.zeros(several, np.int64)
        start = np.zeros(several, np.int64)
        if self.interval is not None:
            start = np.maximum((START * users).astype(np.int64), -(-bulk // several))
            # two arms never need more than every user after the start
            quota = np.minimum(QUOTA * users, 0.48 * (users - start)).astype(np.int64)
            for q, steps in zip(self.quantiles, quota.tolist(), strict=True):
                target = self.coin.report_rate(q)
                miss = (1.0 - self.interval) / 2.0
                bounds += [walk_bound(steps, target, miss), walk_bound(steps, 1.0 - target, miss)]
        roles = 1 if self.interval is None else 3
        quantiles = np.array(self.quantiles)
        epochs = int(epochs_of(self.users)) if self.guard else 0
        epochs = epochs if epochs >= FIRST else 0
        return RunPlan(
            quantiles, users, bulk, self.spread, roles, start, quota, np.array(bounds), self.smooth, epochs
        )

    def _empty(self) -> Table:
        sides = 2 * len(self.quantiles) if self.interval is not None else 0
        return new_table(62, coins=len(self._coins), sides=sides)

    # -- asking ------------------------------------------------------------------------------------------------

    def can_ask(self) -> bool:
        return self.domain.size > 1 and self._room() > 0

    def _room(self) -> int:
        return super()._room() if self._rounds is None else self._rounds.left()

    def batch_size(self) -> int:
        return int(rules.batch_size(self.heard)) if self._rounds is None else max(1, self._rounds.left())

    def forget_in_flight(self) -> None:
        super().forget_in_flight()
        if self._rounds is not None:
            self._rounds.forget_in_flight()

    def _next(self, k: int) -> list[tuple[AnyQuery, int]]:
        if self._rounds is not None:
            return self._next_in_round(self._rounds, k)
        arms = np.empty(self.run_plan.roles * len(self.quantiles), np.int64)
        self._judge()
        bulk = self.heard if self.run_plan.epochs == 0 else int(in_bulk(self._arrivals))
        kind = allocation.allocate(self.run_plan, self.asked, bulk, k, arms)
        phase = int(allocation.phase_at(self.run_plan, kind, self.heard))
        lone = allocation.lone_quantile(self.run_plan, self.asked, self.in_flight, k)
        pairs: list[tuple[AnyQuery, int]] = []
        for arm, count in enumerate(arms.tolist()):
            if count > 0:
                for threshold, users, where in self._queries(phase, arm, count, lone):
                    pairs.append((Query(threshold, self.coin.threshold, where, arm), users))
        return pairs

    def _queries(self, phase: int, arm: int, count: int, lone: float) -> list[tuple[int, int, int]]:
        """(threshold, users, phase) for one arm. With one threshold a batch it holds until the next report."""
        anchors = allocation.anchors_in(self.run_plan, phase, arm, self.asked, count)
        if self.spread == 0.0 and anchors == 0 and (phase, arm) in self._known:
            return [(self._known[phase, arm], count, phase)]
        out = np.empty((3, allocation.MOST_ROWS), np.int64)
        rows = allocation.queries_for(
            self._table, self.search, self.run_plan, phase, arm, self.asked, count, lone, out
        )
        if self.spread == 0.0 and anchors == 0:
            self._known[phase, arm] = int(out[0, 0])
        return [(int(out[0, row]), int(out[1, row]), int(out[2, row])) for row in range(rows)]

    # -- epochs ------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Before asking: which closed epochs to believe, where that may have changed."""
        if self.run_plan.epochs == 0 or not is_due(self._arrivals, self.heard, self.users):
            return
        while self._table.threshold.size < len(self._counts) + 3:  # an epoch may come back
            self._table = grown(self._table)
        judge(self._rows(), self._table, self.search, self.heard, self.users)
        self._known.clear()
        self._believed = None

    def _rows(self) -> Arrivals:
        rows = [(threshold, phase, n, s) for (phase, _, _, threshold), (n, s) in self._counts.items()]
        return with_rows(self._arrivals, np.array(rows, np.int64).reshape(-1, 4))

    def believed(self) -> Believed:
        """What the answer follows from: all epochs, but those that contradict the others."""
        if self._believed is None:
            table, said = self._table, Judgement((), 0.0, False)
            if self.run_plan.epochs > 0:
                rows = self._rows()
                said = judgement(rows)
                kept = np.ones(self.run_plan.epochs, np.bool_)
                kept[list(said.dropped)] = False
                if (kept != self._arrivals.kept).any():
                    table = new_table(len(self._counts))
                    rebuild(table, self.search, rows, kept)
            self._believed = Believed(table, said)
        return self._believed

    # -- fixed rounds ------------------------------------------------------------------------------------------

    def _round_is_bulk(self, current: int) -> bool:
        assert self._rounds is not None
        return self._rounds.starts[current] < self.run_plan.bulk

    def _next_in_round(self, rounds: Rounds, k: int) -> list[tuple[AnyQuery, int]]:
        current = rounds.current()
        assert current is not None
        arm = current % len(self.quantiles)
        if current not in self._round_thresholds:
            phase = BULK if self._round_is_bulk(current) else SEARCH
            self._round_thresholds[current] = self._queries(phase, arm, 1, 0.5)[0][0]
        rounds.ask(current, k)
        return [(self.query_of_round(current, self._round_thresholds[current]), k)]

    def round_sizes(self) -> tuple[int, ...]:
        return super().round_sizes() if self._rounds is None else self._rounds.sizes

    def query_of_round(self, number: int, threshold: int) -> Query:
        if self.rounds is None:
            return super().query_of_round(number, threshold)
        return Query(threshold, self.rounds[number][1], number + 1, number % len(self.quantiles))

    def _close_round(self, query: Query, answered: int, ones: int) -> int:
        assert self._rounds is not None
        current = query.phase - 1
        if not self._rounds.is_fresh(current):
            raise ProtocolError(f"round {query.phase} was closed before, or told in parts; it is told whole, once")
        self._round_thresholds.setdefault(current, query.threshold)
        if answered:
            self._use_counts(query, answered, ones)
        self._rounds.close(current)
        return self._rounds.sizes[current]

    def _give_up(self, query: AnyQuery) -> None:
        if self._rounds is not None and isinstance(query, Query) and 1 <= query.phase <= len(self._rounds.sizes):
            self._rounds.account(query.phase - 1, 1)

    # -- hearing -----------------------------------------------------------------------------------------------

    @property
    def table(self) -> Table:
        """The counts that are believed, as the kernels hold them; a later report may put another in its place."""
        return self.believed().table

    def coins(self) -> frozenset[int]:
        return frozenset(self._coins)

    def _check_query(self, query: Query) -> None:
        super()._check_query(query)
        arms = self.run_plan.roles * len(self.quantiles)
        if not 0 <= query.arm < arms:
            raise ProtocolError(f"this run has the arms 0 .. {arms - 1}, got {query.arm!r}")
        if self.rounds is None:
            least = BULK if self.run_plan.bulk > 0 else SEARCH
            most, epochs = (ANCHOR, self.run_plan.epochs) if self.run_plan.epochs > 0 else (SEARCH, 1)
            if not 0 <= query.phase < KINDS * epochs or not least <= query.phase % KINDS <= most:
                times = f" in each of {epochs} epochs" if epochs > 1 else ""
                raise ProtocolError(f"this run has the phases {least} .. {most}{times}, got {query.phase!r}")
        elif not 1 <= query.phase <= len(self.rounds):
            raise ProtocolError(f"this run has the rounds 1 .. {len(self.rounds)}, got {query.phase!r}")
        elif self.rounds[query.phase - 1][1] != query.coin:
            raise ProtocolError(f"round {query.phase} never used the coin {query.coin!r}")

    def _use_counts(self, query: Query, answered: int, ones: int) -> int:
        self._add((query.phase, query.arm, query.coin, query.threshold), answered, ones)
        if self._rounds is not None:
            self._rounds.account(query.phase - 1, answered)
        return answered

    def _add(self, key: Key, answered: int, ones: int) -> None:
        phase, arm, coin, threshold = key
        entry = self._counts.setdefault(key, [0, 0])
        entry[0] += answered
        entry[1] += ones
        if int(self._table.held[0]) + 2 >= self._table.threshold.size:
            self._table = grown(self._table)
        if self.rounds is not None:
            bulk = self._round_is_bulk(phase - 1)
            self._round_thresholds.setdefault(phase - 1, threshold)
        else:
            bulk = phase % KINDS == BULK
        self._believed = None
        if self.run_plan.epochs > 0 and not mark(self._arrivals, phase, answered):
            return
        side = allocation.side_row(self.run_plan.roles, arm)
        add_counts(self._table, self.search, self._coins[coin], side, bulk, threshold, answered, ones)
        self._known.clear()

    def merge(self, other: Isotonic) -> None:
        """Take in all that another run of the same settings has heard."""
        if not isinstance(other, Isotonic) or other.settings() != self.settings():
            raise ProtocolError("only runs of isotonic search with the same settings can be merged")
        for key, (answered, ones) in other._counts.items():
            self._add(key, answered, ones)
        if self._rounds is not None and other._rounds is not None:
            self._rounds.merge(other._rounds)
        self._order_known = False
        self.heard += other.heard
        self.given_up += other.given_up
        self.asked += other.asked

    def counts(self) -> Iterator[tuple[Key, int, int]]:
        """The table: ((phase, arm, coin, threshold), reports, ones), in the order of the keys."""
        for key in sorted(self._counts):
            yield key, self._counts[key][0], self._counts[key][1]

    def as_heard(self) -> list[Key] | None:
        """The keys of the table in the order in which each was first heard.

        Fixed rounds are numbered. Otherwise a state and a merged run have their counts sorted: then None.
        """
        if self.rounds is not None:
            return sorted(self._counts)
        return list(self._counts) if self._order_known else None

    # -- answering ---------------------------------------------------------------------------------------------

    def _answers(self) -> list[int]:
        out = np.empty(len(self.quantiles), np.int64)
        allocation.answers(self.table, self.search, self.run_plan, out)
        return [int(index) for index in out]

    def _answer(self, quantile: float) -> int | None:
        return self._answers()[self.quantiles.index(quantile)]

    def _estimate(self, quantile: float) -> Estimate:
        found = super()._estimate(quantile)
        if self.interval is None:
            return found
        return dataclasses.replace(found, interval=self._certified(self.quantiles.index(quantile)))

    def _certified(self, which: int) -> Interval:
        assert self.interval is not None
        ends = np.full((len(self.quantiles), 2), -1, np.int64)
        if self.domain.size > 1:
            allocation.certified(self._table, self.search, self.run_plan, ends)
        low, high = (int(end) for end in ends[which])
        if 0 <= high < low:  # both sides claim too much, which happens less often than 1 - confidence
            low, high = high, low
        least = None if low < 0 else finite(self.domain.lower_edge(low))
        return Interval(least, None if high < 0 else finite(self.domain.value(high)), self.interval)

    def search_band(self, mass: float = 0.9, quantile: float | None = None) -> tuple[float, float] | None:
        """Where the posterior that asks looks for the quantile: values between which it has `mass`.

        A picture of the search, NOT a confidence interval: sets of this kind miss the quantile far more often
        than their mass says (see the docs). For a statement with a probability use `interval=`.
        """
        share = check_probability(mass, "mass")
        q = self.quantile if quantile is None else quantile
        if q not in self.quantiles:
            raise InvalidInput(f"this run searches the quantiles {list(self.quantiles)}, got {quantile!r}")
        if self.heard == 0 or self.domain.size == 1:
            return None
        boosted = self.run_plan.bulk > 0 and rules.is_extreme(q)
        rules.weigh_for_query(self._table, self.search, q, boosted, 1.0 / len(self.quantiles))
        low = rules.value_at(self._table, self.search, 0.5 - share / 2.0)
        high = rules.value_at(self._table, self.search, 0.5 + share / 2.0)
        return self.domain.value(int(low)), self.domain.value(int(high))

    # -- state -------------------------------------------------------------------------------------------------

    def _progress(self) -> dict[str, Any]:
        thresholds = sorted([current, threshold] for current, threshold in self._round_thresholds.items())
        stands = {} if self._rounds is None else {"stands": self._rounds.rows()}
        return {"counts": [[*key, n, s] for key, n, s in self.counts()], "rounds": thresholds, **stands}

    def _restore(self, progress: Mapping[str, Any]) -> None:
        self._counts = {}
        self._table = self._empty()
        self._arrivals = new_arrivals(0, self.run_plan.epochs, len(self.quantiles))
        self._round_thresholds = {int(current): int(c) for current, c in progress["rounds"]}
        for phase, arm, coin, threshold, answered, ones in progress["counts"]:
            self._check_query(Query(threshold, coin, phase, arm))
            self._add((phase, arm, coin, threshold), answered, ones)
        if self._rounds is not None:
            self._rounds.restore(progress["stands"])
        self._order_known = not self._counts


def _check_share(value: float, name: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= most:
        raise InvalidInput(f"{name} must be a number from 0 to {most:g}, got {value!r}")
    return float(value)


def _check_rounds(rounds: Sequence[Sequence[int]], users: int) -> tuple[tuple[int, int], ...]:
    try:
        pairs = tuple((size, coin) for size, coin in rounds)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"rounds must be a sequence of pairs (users, flip threshold of their coin), got {rounds!r:.80}"
        ) from None
    found = tuple((check_count(size, "users of a round", 1), Coin(coin).threshold) for size, coin in pairs)
    if sum(size for size, _ in found) != users:
        raise InvalidInput(
            f"the rounds have {sum(size for size, _ in found)} users in all, but {users} are planned"
        )
    return found

"""The contract every protocol keeps: ask and tell.

    ask(k)            up to k queries for k users who have not been asked; fewer at the end of a round or of the
                      plan; none when nothing can be asked now.
    ask_counts(k)     the same as pairs (query, how many users it is for), for populations that answer by count.
    tell(reports)     any order, late, partial, several at a time. A report carries its whole query.
    tell_counts(...)  many answers to one query at once, where the order of answers does not matter.
    give_up(queries)  users who were asked and will not answer. A round closes when told + given up = asked.
    close_round(...)  a whole round at once, over for good, however many answered (`round_table`, below).
    estimate()        at any moment. Before any report: value None, users 0. What may be said about it, in words and
                      with a probability, is not the protocol's to say: see `privquant.planning.statement`.
    state()           everything, as JSON; `from_state` in the registry reads it back.

Rules that hold for every protocol, checked by the suite in `privquant.testing`:

- `users` is the plan: no more than that many are ever asked. Users who give up are not replaced. In fixed rounds
  every round has its own part of the plan: one that heard more than it asked takes nothing from the next.
- A protocol built anew with the same settings and told the reports (and give-ups) of the log, in the order in
  which they were told, equals the one that was killed; users in flight at that moment count as not asked.
- A report that cannot belong to this protocol (threshold outside the domain, a coin it never uses) raises
  ProtocolError and changes nothing. A report that belongs to it but comes too late to be used is counted in
  `unused` and shown in the estimate.
- A protocol draws no random numbers: all randomness is the users' coins and who is asked.
- Where the whole state is a count per (phase, arm, coin, threshold), the class says `count_table = True` (the
  instance, where an option decides it). Only then may reports be stored without their order, which is what a
  deployed campaign does.
- Where the whole state is a count per round of fixed size, it says `round_table = True`: rounds are told whole and
  in their order, close by their number, and stay closed with more reports than planned, with fewer or with none.
  A campaign in the shuffle model, which hears each round as one batch, needs no more than that.

How many users are asked before feedback arrives is a matter of the run, not of the protocol.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from privquant.domain import Domain, domain_from_dict, given_domain
from privquant.errors import InvalidInput, ProtocolError
from privquant.messages import AnyQuery, AnyReport, Estimate, Guarantee, Query, Report
from privquant.privacy.coin import Coin
from privquant.validation import check_count, check_epsilon, check_quantiles, one_or_several


class Protocol(ABC):
    """One run of one search over one domain.

    Parameters
    ----------
    domain : Domain
        Which values exist; a pair (low, high) is `Integers(low, high)`.
    users : int
        How many users there are to ask (the plan).
    epsilon : float
        Of the coin thrown by a user (in the shuffle model: the local one).
    quantile : float or sequence of float
        One, or several in rising order for the protocols that can share reports (`many_quantiles`).
    guarantee : Guarantee, optional
        What users are promised; the local guarantee of the coin unless given.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    count_table: ClassVar[bool] = False
    round_table: ClassVar[bool] = False
    takes_counts: ClassVar[bool] = False
    """Whether the order of the answers to one query does not matter, so that they may be told as a count."""
    adaptive: ClassVar[bool] = True
    many_quantiles: ClassVar[bool] = False
    campaign_options: ClassVar[Mapping[str, float | bool]] = MappingProxyType({})
    """What a deployed campaign sets unless told otherwise; a run that waits for each report needs none of it."""
    before_named: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """What a state or a manifest means that was written before there were these options."""

    def __init__(
        self,
        domain: Domain,
        *,
        users: int,
        epsilon: float,
        quantile: float | Sequence[float] = 0.5,
        guarantee: Guarantee | None = None,
    ) -> None:
        self.domain = given_domain(domain)
        self.users = check_count(users, "users")
        self.epsilon = check_epsilon(epsilon)
        self.quantiles = check_quantiles(quantile)
        if len(self.quantiles) > 1 and not self.many_quantiles:
            raise InvalidInput(
                f"protocol {self.name!r} answers one quantile a run, got {list(self.quantiles)}; "
                "run it once for each with the users divided, or choose a protocol that shares reports"
            )
        self.coin = Coin.of(self.epsilon)
        self.guarantee = guarantee or Guarantee("local", self.coin.epsilon)
        self.asked = 0
        self.heard = 0
        self.given_up = 0
        self.unused = 0

    def __repr__(self) -> str:
        wanted = ", ".join(f"{q:g}" for q in self.quantiles)
        return (
            f"<{self.name}: quantile {wanted} of {self.domain!r}, epsilon {self.epsilon:g}, "
            f"{self.heard:,} of {self.users:,} users heard>"
        )

    @property
    def quantile(self) -> float:
        return self.quantiles[0]

    @property
    def fixed_rounds(self) -> bool:
        """Whether the sizes of this run's rounds are part of its promise, so that no schedule may cut them up."""
        return self.guarantee.trust == "shuffle"

    @property
    def in_flight(self) -> int:
        """Users asked who have neither answered nor been given up."""
        return self.asked - self.heard - self.given_up

    @property
    def finished(self) -> bool:
        """Nothing is left to ask and nobody is in flight."""
        return self.in_flight == 0 and not self.can_ask()

    # -- what a protocol implements ------------------------------------------------------------------------

    @abstractmethod
    def can_ask(self) -> bool:
        """Whether `ask(1)` would give a query now."""

    @abstractmethod
    def _next(self, k: int) -> list[tuple[AnyQuery, int]]:
        """Queries with the number of users each is for, k >= 1 in all and within the plan; can_ask() holds."""

    @abstractmethod
    def _check(self, report: AnyReport) -> None:
        """Raise ProtocolError if the report cannot belong to this protocol."""

    @abstractmethod
    def _use(self, report: AnyReport) -> bool:
        """Take a checked report in; False if it came too late to be used."""

    def _give_up(self, query: AnyQuery) -> None:
        """Take notice that the user asked `query` will not answer; most protocols need not."""
        return

    @abstractmethod
    def _answer(self, quantile: float) -> int | None:
        """The index of the answer for one quantile; None when no report was used and none is needed."""

    @abstractmethod
    def _progress(self) -> dict[str, Any]:
        """The state beyond settings and counters, as JSON."""

    @abstractmethod
    def _restore(self, progress: Mapping[str, Any]) -> None:
        """Take `_progress()` back in."""

    def options(self) -> dict[str, Any]:
        """The constructor's further keyword arguments, so that a fresh twin can be built."""
        return {}

    # -- the contract --------------------------------------------------------------------------------------

    def ask(self, k: int = 1) -> list[AnyQuery]:
        """Up to k queries for k users who have not been asked."""
        return [query for query, count in self.ask_counts(k) for _ in range(count)]

    def ask_counts(self, k: int) -> list[tuple[AnyQuery, int]]:
        """Queries for up to k users who have not been asked, each with the number of users it is for."""
        allowed = min(check_count(k, "k"), self._room())
        if allowed <= 0 or not self.can_ask():
            return []
        pairs = self._next(allowed)
        self.asked += sum(count for _, count in pairs)
        return pairs

    def _room(self) -> int:
        """How many users of the plan, or of its open round, have not been asked."""
        return self.users - self.asked

    def batch_size(self) -> int:
        """How many users to ask before the next feedback, in a run that is free to choose."""
        return 1

    def tell(self, reports: Iterable[AnyReport]) -> None:
        """Take reports in; all are checked before any is used."""
        batch = list(reports)
        for report in batch:
            self._check(report)
        for report in batch:
            self.heard += 1
            # A report told to a rebuilt protocol was asked by the one that was killed.
            self.asked = max(self.asked, self.heard + self.given_up)
            if not self._use(report):
                self.unused += 1

    def give_up(self, queries: Iterable[AnyQuery]) -> None:
        """Users who were asked these queries and will not answer."""
        for query in queries:
            self.given_up += 1
            self.asked = max(self.asked, self.heard + self.given_up)
            self._give_up(query)

    def forget_in_flight(self) -> None:
        """Users in flight count as not asked: for who cannot know whether they will ever answer."""
        self.asked = self.heard + self.given_up

    def estimate(self) -> Estimate:
        """The answer for the (first) quantile, as known now."""
        return self._estimate(self.quantile)

    def estimates(self) -> list[Estimate]:
        """The answers for all quantiles, in their order."""
        return [self._estimate(q) for q in self.quantiles]

    def _estimate(self, quantile: float) -> Estimate:
        index: int | None = 0 if self.domain.size == 1 and self.users > 0 else None
        if index is None and self.heard - self.unused > 0:
            index = self._answer(quantile)
        return self.estimate_at(index, quantile, users=self.heard)

    def estimate_at(self, index: int | None, quantile: float, *, users: int) -> Estimate:
        """The Estimate that says: this index is the answer."""
        return Estimate(
            value=None if index is None else self.domain.value(index),
            quantile=quantile,
            users=users,
            guarantee=self.guarantee,
            protocol=self.name,
            bin=None if index is None else self.domain.bin(index),
            index=index,
            unused=self.unused,
        )

    # -- state ---------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Everything the constructor was given, as JSON."""
        return {
            "domain": self.domain.to_dict(),
            "users": self.users,
            "epsilon": self.epsilon,
            "quantile": list(self.quantiles),
            "guarantee": self.guarantee.to_dict(),
            **self.options(),
        }

    def fresh(self) -> Protocol:
        """A protocol with the same settings that has asked nobody."""
        return self._built(self.settings())

    @classmethod
    def _built(cls, settings: Mapping[str, Any]) -> Protocol:
        given = {**cls.before_named, **settings}
        quantiles = given.pop("quantile")
        return cls(
            domain_from_dict(given.pop("domain")),
            quantile=one_or_several(quantiles),
            guarantee=Guarantee.from_dict(given.pop("guarantee")),
            **given,
        )

    def state(self) -> dict[str, Any]:
        return {
            "protocol": self.name,
            "settings": self.settings(),
            "asked": self.asked,
            "heard": self.heard,
            "given_up": self.given_up,
            "unused": self.unused,
            "progress": self._progress(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Protocol:
        try:
            protocol = cls._built(state["settings"])
            for counter in ("asked", "heard", "given_up", "unused"):
                setattr(protocol, counter, int(state[counter]))
            protocol._restore(state["progress"])
        except (KeyError, TypeError, IndexError) as error:
            raise ProtocolError(f"not a state of protocol {cls.name!r}: {error!r}") from error
        return protocol


class ThresholdProtocol(Protocol):
    """A protocol whose queries are thresholds, answered with one bit.

    Parameters
    ----------
    domain, users, epsilon, quantile, guarantee
        As for `Protocol`.
    """

    def tell_counts(self, query: Query, answered: int, ones: int) -> None:
        """`answered` reports to one query, `ones` of them ones; the same as telling them one by one."""
        if not self.takes_counts:
            raise ProtocolError(f"protocol {self.name!r} depends on the order of reports; tell them one by one")
        if not 0 <= ones <= answered:
            raise ProtocolError(f"ones must lie in 0 .. answered, got {ones} of {answered}")
        if answered == 0:
            return
        self._check(Report(query, 0))
        self.heard += answered
        self.asked = max(self.asked, self.heard + self.given_up)
        self.unused += answered - self._use_counts(query, answered, ones)

    def _use_counts(self, query: Query, answered: int, ones: int) -> int:
        """Take checked counts in; how many of the reports were used."""
        used = sum(self._use_bit(query, 1) for _ in range(ones))
        return used + sum(self._use_bit(query, 0) for _ in range(answered - ones))

    def round_sizes(self) -> tuple[int, ...]:
        """The users of each round, of a protocol with `round_table`."""
        raise ProtocolError(f"protocol {self.name!r} has no rounds of fixed size")

    def query_of_round(self, number: int, threshold: int) -> Query:
        """The query of a round, counted from 0, that was announced with this threshold."""
        raise ProtocolError(f"protocol {self.name!r} has no rounds of fixed size")

    def close_round(self, query: Query, answered: int, ones: int) -> None:
        """The whole round of `query`, over for good: so many answered, whatever was planned; none if dropped.

        Users of the round who did not answer are given up.
        """
        if not self.round_table:
            raise ProtocolError(f"protocol {self.name!r} has no rounds of fixed size that could be closed")
        if not 0 <= ones <= answered:
            raise ProtocolError(f"ones must lie in 0 .. answered, got {ones} of {answered}")
        self._check_query(query)
        planned = self._close_round(query, answered, ones)
        self.heard += answered
        self.given_up += max(0, planned - answered)
        self.asked = max(self.asked, self.heard + self.given_up)

    def _close_round(self, query: Query, answered: int, ones: int) -> int:
        """Take a checked round in and close it; how many users were planned for it."""
        raise NotImplementedError

    def _use_bit(self, query: Query, bit: int) -> bool:
        """Take one checked answer in; False if it came too late to be used."""
        return self._use_counts(query, 1, bit) == 1

    def _use(self, report: AnyReport) -> bool:
        assert isinstance(report, Report)
        return self._use_bit(report.query, report.bit)

    def _check(self, report: AnyReport) -> None:
        if not isinstance(report, Report):
            raise ProtocolError(f"protocol {self.name!r} takes threshold reports, got {type(report).__name__}")
        if report.bit not in (0, 1):
            raise ProtocolError(f"a report's bit is 0 or 1, got {report.bit!r}")
        self._check_query(report.query)

    def _check_query(self, query: Query) -> None:
        if not isinstance(query.threshold, int) or not 0 <= query.threshold <= self.domain.size - 2:
            raise ProtocolError(
                f"a threshold lies in 0 .. {self.domain.size - 2} (domain indices), got {query.threshold!r}"
            )
        if query.coin not in self.coins():
            raise ProtocolError(f"this run never used the coin {query.coin!r}")

    def coins(self) -> frozenset[int]:
        """The flip thresholds this run's queries may carry."""
        return frozenset((self.coin.threshold,))

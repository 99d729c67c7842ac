"""What travels between the roles. Frozen, small, JSON in and out; nothing here computes.

A query names a threshold by its domain index: "is your value at most value(threshold)?". It carries the
coin it is to be answered with (`coin`, the flip threshold out of 2^64, see `privquant.privacy.coin`), and a
report carries its whole query, so a report can be used late, in any order, and after a restart.

Standard library only: this runs on the device.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from privquant.cards import aligned, card
from privquant.error_words import Certain, Interval, Lump, Rank, Typical, finite, points, shown
from privquant.errors import InvalidInput, ProtocolError

if TYPE_CHECKING:
    from privquant.planning.picture import Record


@dataclass(frozen=True, slots=True)
class Query:
    """Is your value at most the one at `threshold`? Answer through `coin`.

    Parameters
    ----------
    threshold : int
        Index in the domain.
    coin : int
        Flip threshold out of 2^64 of the coin to answer with (see `Coin`).
    phase : int
        Round of a search in rounds, or stage of a search in stages.
    arm : int
        Which of several concurrent searches asked.
    step : int
        Reports the asking protocol had used when it asked, where its update depends on that; else 0.
    """

    threshold: int
    coin: int
    phase: int = 0
    arm: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """One bit: the answer to `query` after the coin.

    Parameters
    ----------
    query : Query
        The whole question, so that the report can be used late and in any order.
    bit : {0, 1}
        After the coin.
    """

    query: Query
    bit: int


@dataclass(frozen=True, slots=True)
class TreeQuery:
    """Pick one level of the tree at random and say through `encoding` which of its nodes you are in.

    Levels are 1 .. height; the nodes of level l have branching ** (height - l) indices each.

    Parameters
    ----------
    branching, height : int
        The tree's.
    encoding : str
        How a node is said, one of `privquant.protocols.tree.encodings.ENCODINGS`.
    coin : int
        Flip threshold of the encoding's randomized bits, out of 2^64.
    """

    branching: int
    height: int
    encoding: str
    coin: int


@dataclass(frozen=True, slots=True)
class TreeReport:
    """A level, and what the encoding sends: packed bits (unary), or an index and a bit (Hadamard).

    Parameters
    ----------
    query : TreeQuery
        The whole question.
    level : int
        The level that was picked.
    bits : bytes, optional
        Packed bits of a unary encoding.
    index, bit : int, optional
        Row of the Hadamard matrix, and the bit said about it.
    """

    query: TreeQuery
    level: int
    bits: bytes | None = None
    index: int | None = None
    bit: int | None = None


AnyQuery = Query | TreeQuery
AnyReport = Report | TreeReport


def query_to_dict(query: AnyQuery) -> dict[str, Any]:
    return {name: getattr(query, name) for name in query.__slots__}


def report_to_dict(report: AnyReport) -> dict[str, Any]:
    if isinstance(report, Report):
        return {"query": query_to_dict(report.query), "bit": report.bit}
    form: dict[str, Any] = {"tree": query_to_dict(report.query), "level": report.level}
    if report.bits is not None:
        form["bits"] = base64.b64encode(report.bits).decode("ascii")
    else:
        form |= {"index": report.index, "bit": report.bit}
    return form


def report_from_dict(form: Mapping[str, Any]) -> AnyReport:
    try:
        if "query" in form:
            return Report(Query(**form["query"]), form["bit"])
        bits = form.get("bits")
        return TreeReport(
            TreeQuery(**form["tree"]),
            form["level"],
            base64.b64decode(bits) if bits is not None else None,
            form.get("index"),
            form.get("bit"),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(f"not a report: {dict(form)!r}") from error


@dataclass(frozen=True, slots=True)
class ShuffledRound:
    """One round of a guarantee: what its users get if it is released with at least its own number of reports.

    Parameters
    ----------
    round : int
        The round's number, from 1.
    batch : int
        Honest reports it takes; with fewer it must not be released.
    local_epsilon : float
        Epsilon of the round's coin, which is what is left if the shuffler is not honest.
    epsilon : float
        Epsilon, at the guarantee's delta, of `batch` reports through that coin.
    """

    round: int
    batch: int
    local_epsilon: float
    epsilon: float

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a user who answered was promised. `str()` says it in one plain sentence.

    Parameters
    ----------
    trust : {"local", "shuffle"}
        "local": nobody is trusted; epsilon is the coin's. "shuffle": the shuffler is trusted to mix at least
        `batch` honest reports, or for each of `rounds` at least its own number.
    epsilon, delta : float
        What holds under that trust; the worst of the rounds.
    local_epsilon : float, optional
        What is left if the shuffler is not honest: the most honest coin's epsilon.
    batch : int, optional
        Honest reports in the batch; of several rounds the smallest, which says nothing about the others.
    answers : int
        How many answers of one user these numbers cover together (see `privquant.privacy.composition`).
    rounds : tuple of ShuffledRound
        Every round with its own number of reports and its own coin, where there is more than one.
    """

    trust: str
    epsilon: float
    delta: float = 0.0
    local_epsilon: float | None = None
    batch: int | None = None
    answers: int = 1
    rounds: tuple[ShuffledRound, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        subject = "Each answer is" if self.answers == 1 else f"A user's {self.answers} answers together are"
        if self.trust == "local":
            return f"{subject} {self.epsilon:.4g}-differentially private whatever any server does."
        return (
            f"{subject} ({self.epsilon:.4g}, {self.delta:.2g})-differentially private if the shuffler is "
            f"honest and {self._condition()}, and {self.local_epsilon:.4g}-differentially private otherwise."
        )

    def _condition(self) -> str:
        """What the shuffler must do. One number of reports cannot stand for rounds of different coins."""
        if not self.rounds:
            return f"mixes at least {self.batch} honest reports"
        sizes = [each.batch for each in self.rounds]
        return (
            "releases each round only with at least its own number of honest reports "
            f"({min(sizes):,} to {max(sizes):,} in {len(sizes)} rounds)"
        )

    def table(self) -> str:
        """The rounds as a table, neighbours that promise the same in one line; empty without rounds."""
        if not self.rounds:
            return ""
        rows = [("round", "reports", "local epsilon", "epsilon")]
        for (batch, local), alike in groupby(self.rounds, lambda each: (each.batch, each.local_epsilon)):
            first, *others = alike
            number = f"{first.round}-{others[-1].round}" if others else str(first.round)
            rows.append((number, f"{batch:,}", f"{local:.4g}", f"{first.epsilon:.4g}"))
        return aligned(rows)

    def to_dict(self) -> dict[str, Any]:
        """As JSON; `rounds` is there only where there are rounds."""
        form = {name: getattr(self, name) for name in self.__slots__ if name != "rounds"}
        return form | ({"rounds": [each.to_dict() for each in self.rounds]} if self.rounds else {})

    @classmethod
    def from_dict(cls, form: Mapping[str, Any]) -> Guarantee:
        """The guarantee a `to_dict()` wrote down, also one from before there were rounds in it."""
        given = dict(form)
        rounds = tuple(ShuffledRound(**each) for each in given.pop("rounds", None) or ())
        return cls(**given, rounds=rounds)


@dataclass(frozen=True, slots=True)
class Estimate:
    """An answer: the value, what it is a quantile of, and what it cost in users and privacy.

    Parameters
    ----------
    value : int, float or None
        The answer; None before any report.
    quantile : float
        What was asked for.
    users : int
        Reports heard.
    guarantee : Guarantee
        What each of them was promised.
    protocol : str
        Name of the protocol.
    bin : str, optional
        The bin the value closes, where the domain has bins.
    index : int, optional
        The value's place in the domain.
    interval : Interval, optional
        A certified interval, where one was asked for.
    certain : Certain, optional
        What holds for any data; said by `stated`, of isotonic search.
    typical : Typical or Lump, optional
        What most runs do on smooth data, or where the data are lumpy; said by `stated`, of isotonic search.
    rank : Rank, optional
        How far the rank was off in simulations; said by `stated`, of the other protocols.
    unused : int
        Reports heard but not used, late to a closed round.
    too_few : bool
        Whether the reports say next to nothing about the quantile; said by `stated`, of isotonic search. One of the
        notes says it in words, so it is not in `to_dict()`.
    notes : tuple of str
        What else is to be said, by `stated` and by who prepared the data; a protocol leaves it empty.
    record : Record, optional
        The run's own counts, for `plot`; kept by `stated`, of isotonic search. No part of what the estimate says:
        not compared, not shown, not in `to_dict()`.
    """

    value: int | float | None
    quantile: float
    users: int
    guarantee: Guarantee
    protocol: str
    bin: str | None = None
    index: int | None = None
    interval: Interval | None = None
    certain: Certain | None = None
    typical: Typical | Lump | None = None
    rank: Rank | None = None
    unused: int = 0
    notes: tuple[str, ...] = ()
    record: Record | None = field(default=None, repr=False, compare=False)
    too_few: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As JSON, which has no infinity: the value of a grid's last bin is null, beside its bin."""
        form = {name: getattr(self, name) for name in self.__slots__ if name not in ("record", "too_few")}
        form["value"] = finite(self.value)
        form["guarantee"] = self.guarantee.to_dict()
        for name in ("interval", "certain", "typical", "rank"):
            said = getattr(self, name)
            form[name] = None if said is None else said.to_dict()
        form["notes"] = list(self.notes)
        return form

    def _answered(self) -> int | float:
        if self.value is None:
            raise InvalidInput(
                f"there is no number in this estimate ({self._no_answer()}); .value is None until there is one"
            )
        return self.value

    def _no_answer(self) -> str:
        return f"no answer: {self.notes[0]}" if self.notes else "no answer yet"

    def __float__(self) -> float:
        return float(self._answered())

    def __format__(self, spec: str) -> str:
        """The value in a format of numbers, such as ".0f"; without one, the whole estimate as `str` has it."""
        return format(self._answered(), spec) if spec else str(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the run: reports by threshold, the curve fitted to them, the answer and its range.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure unless given, with the search as it went in a second panel where that is
            known.

        Returns
        -------
        matplotlib Axes
            The one with the reports; its `figure` can be saved.

        Raises
        ------
        InvalidInput
            Where there is nothing to draw: other protocols than isotonic search keep no reports by threshold.
        MissingDependency
            Without matplotlib.
        """
        if self.record is None:
            raise InvalidInput(f"there is nothing to plot: {self._why_no_record()}")
        return self.record.draw(self, ax)

    def _why_no_record(self) -> str:
        if self.value is None:
            return "this estimate has no answer"
        if self.protocol != "isotonic":
            return (
                f"only isotonic search keeps its reports by threshold, and this is an estimate of {self.protocol!r}"
            )
        return (
            "this estimate came without the counts of its run, which pq.quantile, pq.run and "
            "pq.stated(estimate, protocol) keep"
        )

    def _repr_html_(self) -> str:
        """A small card, for notebooks."""
        rows = [("typical", _brief(self.typical)), ("certain", _brief(self.certain))]
        if self.rank is not None:
            rows.append(("rank", str(self.rank)))
        if self.interval is not None:
            rows.append(("interval", str(self.interval)))
        rows += [
            ("users", f"{self.users:,} heard" + (f", {self.unused:,} too late to be used" if self.unused else "")),
            ("privacy", str(self.guarantee)),
            *(("note", note) for note in self.notes),
        ]
        value = self._no_answer() if self.value is None else shown(self.value)
        title = f"quantile {self.quantile:g}, {self.protocol}" + (f", in {self.bin}" if self.bin else "")
        return card(value, title, [(name, text) for name, text in rows if text])

    def cells(self) -> tuple[str, str, str, str, str]:
        """A line of a table: quantile, value, what is typical, what is certain, users."""
        value = self._no_answer() if self.value is None else self.bin or shown(self.value)
        typical = _brief(self.typical) or (f"+- {points(self.rank.within)} of rank" if self.rank else "-")
        nothing = "says next to nothing" if self.too_few else "-"
        return f"{self.quantile:g}", value, typical, _brief(self.certain) or nothing, f"{self.users:,}"

    def __repr__(self) -> str:
        shown = f"{self.value}"
        if self.value is None:
            shown = f"{self._no_answer()};" if self.notes else self._no_answer()
        where = f" in {self.bin}" if self.bin is not None else ""
        privacy = f"epsilon={self.guarantee.epsilon:.4g}"
        if self.guarantee.delta:
            privacy += f", delta={self.guarantee.delta:.2g}"
        interval = f", {self.interval}" if self.interval is not None else ""
        if known := self._known():
            interval += f"; {known}"
        heard = "1 user" if self.users == 1 else f"{self.users} users"
        return (
            f"Estimate({shown}{where} at quantile {self.quantile:g}{interval}; {heard} heard, "
            f"{self.guarantee.trust} {privacy}, {self.protocol})"
        )

    def _known(self) -> str:
        """How far off it may be, in a few words; the whole sentences are those of `typical` and `certain`."""
        said = []
        if self.typical is not None:
            said.append(f"{'typically ' if isinstance(self.typical, Typical) else ''}{self.typical.brief()}")
        if self.certain is not None:
            said.append(f"certain {self.certain.brief()}")
        if self.too_few:
            said.append("these reports say next to nothing")
        return ", ".join(said)


def _brief(said: Certain | Typical | Lump | None) -> str:
    return "" if said is None else said.brief()

"""What can be said about how far off an answer is, as small frozen objects: each says itself in one sentence.

They differ in kind: `Interval` and `Certain` hold for any data, by proof; `Typical` and `Rank` are experience;
`Lump` says why there is none. Isotonic search knows indices alone: it makes `Certain`, `Typical` and `Lump` with
domain indices as ends, and `privquant.planning` puts values in their place. Nothing here computes.

Standard library only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar


def finite(value: int | float | None) -> int | float | None:
    return None if value in (math.inf, -math.inf) else value


def shown(value: int | float | None) -> str:
    """A value in a sentence: whole numbers whole, others to six digits."""
    if value is None:
        return "no bound"
    if value in (math.inf, -math.inf):
        return "the end of the data" if value > 0 else "the start of the data"
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def points(share: float) -> str:
    """A share of all ranks in percentile points, to two digits or, at and near 100, whole."""
    number = f"{100 * share:.2g}" if 100 * share < 99.5 else f"{100 * share:.0f}"
    return f"{number} point{'' if number == '1' else 's'}"


def _range(said: Certain | Typical) -> str:
    """From where to where, in a few words."""
    if said.high is None:
        return f"{shown(said.low)} or more"
    return f"{shown(said.high)} or less" if said.low is None else f"{shown(said.low)} .. {shown(said.high)}"


class _Said:
    """What all of them have: a form in JSON, which has no infinity; its `kind` stands first where there is one."""

    __slots__: tuple[str, ...] = ()
    _kind: ClassVar[dict[str, str]] = {}

    def to_dict(self) -> dict[str, Any]:
        form = self._kind | {name: getattr(self, name) for name in self.__slots__}
        return form | {end: finite(form[end]) for end in ("low", "high") if end in form}


@dataclass(frozen=True, slots=True)
class Interval(_Said):
    """A certified interval: bounds on the quantile.

    Parameters
    ----------
    low, high : int, float or None
        Values; None where nothing can be said on that side.
    confidence : float
        Probability with which both bounds hold, for any data.
    """

    low: int | float | None
    high: int | float | None
    confidence: float

    def __str__(self) -> str:
        low = "no lower bound" if self.low is None else f"{self.low}"
        high = "no upper bound" if self.high is None else f"{self.high}"
        return f"{low} .. {high} ({100 * self.confidence:.6g}% certified)"


@dataclass(frozen=True, slots=True)
class Rank(_Said):
    """How far the rank of an answer may be off, by experience (see `privquant.planning.statement`).

    Parameters
    ----------
    quantile : float
        The quantile asked for.
    within : float
        Distance in rank: 0.02 is 2 percentile points.
    confidence : float
        Share of runs like this one that stayed within it.
    """

    quantile: float
    within: float
    confidence: float

    def __str__(self) -> str:
        return (
            f"rank within {100 * self.quantile:g} % +- {100 * self.within:.2g} % in {100 * self.confidence:g} % of "
            "simulated runs on the hardest data known; nothing is proven for this protocol"
        )


@dataclass(frozen=True, slots=True)
class Certain(_Said):
    """What holds for any data, by proof (docs/statements.md): some value from low to high has about the right rank.

    low, high:  None is "no bound" on that side, never on both.
    within:     the slack of rank: 0.05 is 5 percentile points.
    confidence: the probability with which it holds.
    """

    quantile: float
    low: int | float | None
    high: int | float | None
    within: float
    confidence: float

    def no_bound(self) -> str:
        """Said where the slack takes in the last rank on a side: the quantile itself may be anywhere there."""
        if self.quantile + self.within >= 1.0:
            return "no upper bound on the quantile itself"
        return "no lower bound on the quantile itself" if self.quantile <= self.within else ""

    def brief(self) -> str:
        """The range, its slack and what it leaves open, in a few words."""
        end = f", {self.no_bound()}" if self.no_bound() else ""
        return f"{_range(self)} to {points(self.within)} of rank{end}"

    def __str__(self) -> str:
        where = f"some value of {_range(self)}"
        if self.low is not None and self.high is not None:
            where = f"some value from {shown(self.low)} to {shown(self.high)}"
        if self.low == self.high:
            where = f"the value {shown(self.low)}"
        end = f"; {self.no_bound()}" if self.no_bound() else ""
        return (
            f"certain, for any data: with {100 * self.confidence:g} % confidence {where} has a rank within "
            f"{points(self.within)} of {100 * self.quantile:g} % in the population the users were "
            f"drawn from, if each answered once and not answering is unrelated to the answer{end}"
        )


@dataclass(frozen=True, slots=True)
class Typical(_Said):
    """What 95 % of runs like this one do on smooth data; experience, no proof.

    low, high: values between which the quantile lies, by the curves that the reports allow.
    within:    half-width of rank, among the people asked.
    if_lumpy:  the half-width of rank if many share one value near the answer, which the reports do not show: the
               answer may miss that value by a little, and is then off in rank by as many as share it. None is any
               rank.
    """

    quantile: float
    low: int | float
    high: int | float
    within: float
    if_lumpy: float | None = None
    _kind: ClassVar[dict[str, str]] = {"kind": "smooth"}

    def brief(self) -> str:
        """The range in a few words."""
        return _range(self)

    def __str__(self) -> str:
        unnoticed = "at any rank" if self.if_lumpy is None else f"within {points(self.if_lumpy)}"
        if self.if_lumpy == self.within:
            unnoticed = "the same"
        return (
            f"typical, on smooth data: 95 % of such runs land within {points(self.within)} of "
            f"{100 * self.quantile:g} % among the people asked, as a value from about "
            f"{shown(self.low)} to {shown(self.high)}; {unnoticed} if many share one value unnoticed"
        )


@dataclass(frozen=True, slots=True)
class Lump(_Said):
    """Why nothing is called typical: many users seem to share the values from low to high.

    jump: about how much the rank rises there.
    """

    low: int | float
    high: int | float
    jump: float
    _kind: ClassVar[dict[str, str]] = {"kind": "lumpy"}

    def brief(self) -> str:
        return "lumpy data"

    def __str__(self) -> str:
        where = f"from {shown(self.low)} to {shown(self.high)}"
        if self.low == self.high:
            where = f"near {shown(self.high)}"
        return (
            f"typical: nothing, the data look lumpy near the answer (rank seems to rise by about "
            f"{points(self.jump)} {where})"
        )


def error_statement(form: Mapping[str, Any] | None) -> Certain | Typical | Lump | None:
    """The statement a `to_dict()` wrote down."""
    if form is None:
        return None
    given = dict(form)
    kind = given.pop("kind", None)
    if kind is None:
        # one without any bound says nothing, and was written down all the same by earlier code
        return None if given["low"] is None and given["high"] is None else Certain(**given)
    # JSON has no infinity; only what is certain has ends that are no bound
    given |= {end: value for end, value in (("low", -math.inf), ("high", math.inf)) if given[end] is None}
    return Lump(**given) if kind == "lumpy" else Typical(**given)

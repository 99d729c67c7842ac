"""Domains: which values exist, and the exact map value <-> index.

A protocol searches the indices 0 .. size-1; only a domain knows what they mean. Bounds are part of the
question and never taken from the data: a bound found in the data would itself reveal data.

Indices are Python integers here and fit a signed 64-bit integer, since a domain has at most 2^63 values.
Standard library only: this runs on the device. Whole columns are converted in `privquant.columns`.
"""

import math
import numbers
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from privquant.errors import InvalidInput

MAX_SIZE = 2**63
MAX_BINS = 1_000_000

NO_BOUNDS = (
    "a domain is needed: give its bounds, e.g. domain=Integers(0, 500_000). "
    "They are never inferred from the data, because bounds found in the data would reveal data"
)


class Domain(ABC):
    """An ordered, finite set of `size` values (or bins of values), indexed 0 .. size-1."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many values or bins there are: 1 .. 2^63."""

    @abstractmethod
    def index(self, value: float, *, outside: str = "clamp") -> int:
        """The index of one value. `outside`: "clamp" to the nearest end, or "refuse"."""

    @abstractmethod
    def value(self, index: int) -> int | float:
        """The value an index stands for; for a bin, its upper edge."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON form that `domain_from_dict` reads back."""

    def bin(self, index: int) -> str | None:
        """How the bin of an index reads, or None where an index is one single value."""
        return None

    def lower_edge(self, index: int) -> int | float:
        """The least value that an index stands for: a bin's lower edge is the upper edge of the bin before it, and
        the first bin has none.
        """
        if self.bin(index) is None:
            return self.value(index)
        return self.value(index - 1) if index > 0 else -math.inf

    def check_index(self, index: int) -> int:
        if not 0 <= index < self.size:
            raise InvalidInput(f"index {index} is outside the domain's 0 .. {self.size - 1}")
        return index


def _check_outside(outside: str) -> None:
    if outside not in ("clamp", "refuse"):
        raise InvalidInput(f"outside must be 'clamp' or 'refuse', got {outside!r}")


def _is_whole(bound: object) -> bool:
    """A float that names one whole number and no other, as 5e5 does; beyond 2^53 floats name several."""
    return isinstance(bound, float) and bound.is_integer() and abs(bound) <= 2.0**53


@dataclass(frozen=True, slots=True)
class Integers(Domain):
    """The whole numbers low .. high, both included; at most 2^63 of them.

    Parameters
    ----------
    low, high : int
        The bounds; a float that names a whole number will do.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = getattr(self, name)
            if isinstance(bound, bool) or not (isinstance(bound, numbers.Integral) or _is_whole(bound)):
                raise InvalidInput(f"Integers: {name} must be a whole number, got {bound!r}")
            object.__setattr__(self, name, int(bound))
        if self.high < self.low:
            raise InvalidInput(f"Integers: high must be at least low, got low={self.low}, high={self.high}")
        if self.high - self.low >= MAX_SIZE:
            raise InvalidInput(
                f"Integers: at most 2^63 values are allowed, got {self.high - self.low + 1} "
                f"(low={self.low}, high={self.high})"
            )

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    def index(self, value: float, *, outside: str = "clamp") -> int:
        _check_outside(outside)
        real = isinstance(value, numbers.Real) and not isinstance(value, bool) and value == value
        exact = real and (isinstance(value, numbers.Integral) or math.isfinite(value))
        if not real or (exact and value != math.floor(value)):
            raise InvalidInput(f"a value must be a whole number in {self.low} .. {self.high}, got {value!r}")
        whole = int(value) if exact else value
        if not self.low <= whole <= self.high and outside == "refuse":
            raise InvalidInput(f"value {whole!r} is outside {self.low} .. {self.high}")
        return int(min(max(whole, self.low), self.high)) - self.low

    def value(self, index: int) -> int:
        return self.low + int(self.check_index(index))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "integers", "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Grid(Domain):
    """Continuous values by known cut points: K edges give K+1 right-closed bins.

    The bins are (-inf, e1], (e1, e2], .., (eK, inf). The answer of a search is a bin; its value is the bin's
    upper edge (inf for the last).

    Parameters
    ----------
    edges : iterable of float
        Finite and strictly rising.
    """

    edges: tuple[float, ...]

    def __init__(self, edges: Iterable[float]) -> None:
        try:
            found = tuple(float(e) for e in edges)
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"Grid: edges must be numbers, got {edges!r}") from error
        if not found:
            raise InvalidInput("Grid: at least one edge is needed, got none")
        if not all(math.isfinite(e) for e in found):
            wrong = next(e for e in found if not math.isfinite(e))
            raise InvalidInput(
                f"Grid: edges must be finite numbers, got {wrong}; the outer bins are unbounded anyway"
            )
        for a, b in pairwise(found):
            if b <= a:
                raise InvalidInput(f"Grid: edges must rise strictly, got {b!r} after {a!r}")
        object.__setattr__(self, "edges", found)

    @property
    def size(self) -> int:
        return len(self.edges) + 1

    def index(self, value: float, *, outside: str = "clamp") -> int:
        _check_outside(outside)
        if isinstance(value, bool) or not isinstance(value, numbers.Real) or value != value:
            raise InvalidInput(f"a value must be a number, got {value!r}")
        return bisect_left(self.edges, value)

    def value(self, index: int) -> float:
        self.check_index(index)
        return self.edges[index] if index < len(self.edges) else math.inf

    def bin(self, index: int) -> str | None:
        self.check_index(index)
        left = f"({self.edges[index - 1]:g}" if index > 0 else "(-inf"
        right = f"{self.edges[index]:g}]" if index < len(self.edges) else "inf)"
        return f"{left}, {right}"

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "grid", "edges": list(self.edges)}


class LogGrid(Grid):
    """Bins of equal ratio between low and high, and the two unbounded ones outside.

    Parameters
    ----------
    low, high : float
        0 < low < high.
    bins : int
        How many bins there are between them, at most 10^6.
    """

    __slots__ = ()

    def __init__(self, low: float, high: float, bins: int) -> None:
        if isinstance(bins, bool) or not isinstance(bins, numbers.Integral) or bins < 1:
            raise InvalidInput(f"LogGrid: bins must be a whole number of at least 1, got {bins!r}")
        if bins > MAX_BINS:
            raise InvalidInput(f"LogGrid: at most {MAX_BINS} bins are allowed, got {bins}")
        if not (isinstance(low, numbers.Real) and isinstance(high, numbers.Real) and 0 < low < high < math.inf):
            raise InvalidInput(f"LogGrid: 0 < low < high is needed, got low={low!r}, high={high!r}")
        step = math.log(high / low) / bins
        inner = (low * math.exp(step * k) for k in range(1, int(bins)))
        super().__init__([float(low), *inner, float(high)])


def domain_from_dict(form: Mapping[str, Any]) -> Domain:
    """The domain a `to_dict()` wrote down; an unknown kind or field is refused."""
    kind = form.get("kind")
    if kind == "integers" and set(form) == {"kind", "low", "high"}:
        if any(isinstance(form[end], float) for end in ("low", "high")):  # one domain has one form
            raise InvalidInput(f"not a domain: {dict(form)!r}; low and high are whole numbers")
        return Integers(form["low"], form["high"])
    if kind == "grid" and set(form) == {"kind", "edges"}:
        return Grid(form["edges"])
    raise InvalidInput(f"not a domain: {dict(form)!r}; allowed kinds are 'integers' (low, high) and 'grid' (edges)")


def given_domain(domain: object) -> Domain:
    """The domain a caller gave; a pair (low, high) stands for `Integers(low, high)`."""
    if isinstance(domain, tuple | list) and len(domain) == 2:
        return Integers(*domain)
    return check_domain(domain)


def check_domain(domain: object) -> Domain:
    """The domain itself: what is no domain is refused."""
    if domain is None:
        raise InvalidInput(NO_BOUNDS)
    if not isinstance(domain, Domain):
        raise InvalidInput(f"domain must be Integers, Grid, LogGrid or a pair (low, high), got {domain!r:.80}")
    return domain

"""Whole columns of values to domain indices: lists, numpy, pandas, polars and arrow columns.

Nothing is guessed. Missing values and fractions under `Integers` are refused with their count unless the
caller says what to do with them; values outside the domain are clamped and counted, or refused.

A column is asked for what it lacks by its own library, and numpy sees what is left. A layer over all libraries
(narwhals 2.28) takes no list, numpy array, pandas index or plain arrow array, and its `to_numpy` makes floats of
nullable whole numbers (2^53 + 1 is lost): nearly all of this file would stay, beside a dependency.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant.arrays import Flags, Ints
from privquant.domain import Domain, Grid, Integers, check_domain
from privquant.errors import InvalidInput
from privquant.validation import check_choice


@dataclass(frozen=True)
class Column:
    """Indices in the order of the data, and what was done to get them.

    below, above: values outside of the domain, counted as its ends. A Grid has none: its outer bins have no end.
    """

    indices: Ints
    below: int
    above: int
    dropped: int
    rounded: int

    @property
    def clamped(self) -> int:
        return self.below + self.above


def to_indices(
    values: Any,
    domain: Domain,
    *,
    outside: str = "clamp",
    missing: str = "refuse",
    fractions: str = "refuse",
) -> Column:
    """The domain indices of a column.

    outside:   "clamp" to the domain's ends (and count), or "refuse".
    missing:   None, NaN, NaT, NA: "refuse" or "drop".
    fractions: numbers with a fraction under Integers: "refuse" or "round" (half to even).
    """
    check_domain(domain)
    check_choice(outside, "outside", ("clamp", "refuse"))
    check_choice(missing, "missing", ("refuse", "drop"))
    check_choice(fractions, "fractions", ("refuse", "round"))
    array, dropped = _present(values)
    if dropped and missing == "refuse":
        raise InvalidInput(
            f"{dropped} of {array.size + dropped} values are missing (None or NaN); "
            "say missing='drop' to leave those users out"
        )
    if array.size == 0:
        raise InvalidInput(
            "there are no values: at least one is needed"
            + (f" ({dropped} missing were dropped)" if dropped else "")
        )
    if isinstance(domain, Integers):
        return _integer_indices(array, domain, outside, fractions, dropped)
    assert isinstance(domain, Grid)
    return Column(_grid_indices(array, domain.edges), 0, 0, dropped, 0)


def _present(values: Any) -> tuple[NDArray[Any], int]:
    """What is there of a column, as a one-dimensional array of numbers or objects, and how many were missing."""
    if isinstance(values, str | bytes):
        raise InvalidInput(f"values must be a column of numbers, got text {values!r:.60}")
    if hasattr(type(values), "columns") or isinstance(values, Mapping):
        kind = type(values).__name__
        raise InvalidInput(
            f"values must be one column of numbers, got a {kind}; pick a column, as in table['name']"
        )
    if not isinstance(values, Iterable):
        raise InvalidInput(f"values must be a column of numbers, got {values!r:.60}")
    if not isinstance(values, Sequence) and not hasattr(values, "__array__"):
        values = list(values)
    held = _without_nulls(values)
    array = held if isinstance(held, np.ndarray) else _array(held)
    if array.ndim != 1:
        raise InvalidInput(f"values must be one column, got an array of shape {array.shape}")
    gone = _missing(array)
    missing = int(gone.sum()) + (len(values) - len(held))
    present = array[~gone] if gone.any() else array
    _refuse_other_kinds(present, missing)
    return present, missing


def _without_nulls(values: Any) -> Any:
    """The column without its nulls, by its own library: numpy would make floats of whole numbers among nulls."""
    if isinstance(values, np.ma.MaskedArray):
        return values.compressed()
    for drop in ("dropna", "drop_nulls", "drop_null"):  # pandas, polars, arrow
        if hasattr(values, drop):
            return getattr(values, drop)()
    return values


def _array(values: Any) -> NDArray[Any]:
    try:
        if hasattr(values, "to_numpy") and not hasattr(values, "to_pylist"):  # arrow's refuses to copy
            return np.asarray(values.to_numpy())
        # Kept as objects where numpy would make fractions of whole numbers, or numbers of truth values.
        mixed = not hasattr(values, "__array__") and len(set(map(type, values))) > 1
        return np.asarray(values, dtype=object if mixed else None)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"values must be a flat column of numbers: {error}") from error


def _missing(array: NDArray[Any]) -> Flags:
    if array.dtype.kind == "O":
        return np.fromiter(map(_is_missing, array), dtype=bool, count=array.size)
    if array.dtype.kind in "fmM":
        return np.asarray(np.isnan(array))
    return np.zeros(array.size, dtype=bool)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return value.is_nan() if isinstance(value, Decimal) else isinstance(value, Real) and value != value


# What to do with a column of another kind; the expressions take a column of any library.
_ADVICE: tuple[tuple[Any, str], ...] = (
    (bool, "np.asarray(values).astype(int) makes it 1 and 0, for domain=Integers(0, 1)"),
    (datetime | np.datetime64, "np.asarray(values, 'datetime64[s]').astype(int) counts seconds since 1970"),
    (date, "np.asarray(values, 'datetime64[D]').astype(int) counts days since 1970"),
    (timedelta | np.timedelta64, "np.asarray(values, 'timedelta64[s]').astype(int) counts seconds"),
)


def _refuse_other_kinds(array: NDArray[Any], missing: int) -> None:
    if array.dtype.kind in "iuf" or array.size == 0:
        return
    listed = [array[0]] if array.dtype.kind in "mM" else array.tolist()
    other = {
        kind
        for kind in set(map(type, listed))
        if not issubclass(kind, Real | Decimal) or issubclass(kind, bool | np.timedelta64)
    }
    for wrong in listed:
        if type(wrong) in other:
            advice = next((f": {said}" for kinds, said in _ADVICE if isinstance(wrong, kinds)), "")
            if advice and missing:
                advice += f"; leave the {missing} missing ones out before"
            raise InvalidInput(f"values must be numbers, got {wrong!r:.60}{advice}")


def _grid_indices(array: NDArray[Any], edges: tuple[float, ...]) -> Ints:
    if array.dtype.kind != "O":
        as_floats = array.astype(np.float64)
        if array.dtype.kind == "f" or np.abs(as_floats).max() <= 2.0**53:
            return np.searchsorted(np.asarray(edges), as_floats, side="left").astype(np.int64)
    return np.array([bisect_left(edges, value) for value in array.tolist()], dtype=np.int64)


def _integer_indices(array: NDArray[Any], domain: Integers, outside: str, fractions: str, dropped: int) -> Column:
    whole, rounded = _whole(array, domain)
    if rounded and fractions == "refuse":
        raise InvalidInput(
            f"{rounded} of {array.size} values have a fraction, but the domain is Integers; "
            "say fractions='round', or use Grid or LogGrid for continuous values"
        )
    below, above = whole < domain.low, whole > domain.high
    moved = int(below.sum()), int(above.sum())
    if any(moved) and outside == "refuse":
        raise InvalidInput(
            f"{sum(moved)} of {array.size} values are outside {domain.low} .. {domain.high}; "
            "say outside='clamp' to count them as the nearest end"
        )
    indices = np.where(above, domain.size - 1, 0)
    inside = whole[~(below | above)]
    if whole.dtype.kind == "O":
        offset = inside - domain.low
    else:  # unsigned arithmetic wraps: value - low is right even where the signed difference would overflow
        offset = inside.astype(np.uint64) - np.uint64(domain.low % 2**64)
    indices[~(below | above)] = offset.astype(np.int64)
    return Column(indices, *moved, dropped, rounded)


def _whole(array: NDArray[Any], domain: Integers) -> tuple[NDArray[Any], int]:
    """The nearest whole numbers, the infinite just outside the domain, and how many had a fraction."""
    if array.dtype.kind in "iu":
        return array, 0
    if array.dtype.kind == "f":
        nearest = np.rint(array).astype(np.float64)
        if np.abs(nearest).max() < 2.0**62:  # beyond exact int64 arithmetic: the slow, exact way
            return nearest.astype(np.int64), int((nearest != array).sum())
    ends = {math.inf: domain.high + 1, -math.inf: domain.low - 1}
    listed = array.tolist()
    exact = [ends[value] if value in ends else round(value) for value in listed]
    rounded = sum(a != b and abs(b) != math.inf for a, b in zip(exact, listed, strict=True))
    return np.array(exact, dtype=object), rounded

"""Whole columns of values to domain indices: lists, numpy, pandas, polars and arrow columns.

Nothing is guessed. Missing values and fractions under `Integers` are refused with their count unless the
caller says what to do with them; values outside the domain are clamped and counted, or refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant.domain import Domain, Grid, Integers, check_domain
from privquant.errors import InvalidInput
from privquant.validation import check_choice


@dataclass(frozen=True)
class Column:
    """Indices in the order of the data, and what was done to get them."""

    indices: NDArray[np.int64]
    clamped: int
    dropped: int
    rounded: int


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
    array = _as_array(values)
    present, dropped = _without_missing(array, missing)
    if present.size == 0:
        raise InvalidInput(
            "there are no values: at least one is needed"
            + (f" ({dropped} missing were dropped)" if dropped else "")
        )
    if isinstance(domain, Integers):
        return _integer_indices(present, domain, outside, fractions, dropped)
    assert isinstance(domain, Grid)
    numbers = present.astype(np.float64)
    indices = np.searchsorted(np.asarray(domain.edges), numbers, side="left").astype(np.int64)
    return Column(indices, 0, dropped, 0)


def _as_array(values: Any) -> NDArray[Any]:
    """One-dimensional array of numbers or objects; text, dates and tables are refused."""
    if isinstance(values, str | bytes):
        raise InvalidInput(f"values must be a column of numbers, got text {values!r:.60}")
    if hasattr(type(values), "columns") or isinstance(values, Mapping):
        kind = type(values).__name__
        raise InvalidInput(
            f"values must be one column of numbers, got a {kind}; pick a column, as in table['name']"
        )
    if isinstance(values, np.ma.MaskedArray):
        values = values.tolist()  # None where it is masked
    for method in ("to_numpy", "__array__"):  # pandas, polars, arrow; anything that knows how
        if hasattr(values, method) and not isinstance(values, np.ndarray):
            values = _foreign(values)
            break
    if not isinstance(values, np.ndarray):
        if not isinstance(values, Iterable):
            raise InvalidInput(f"values must be a column of numbers, got {values!r:.60}")
        values = list(values) if not isinstance(values, Sequence) else values
        try:
            array = np.asarray(values)
        except (ValueError, OverflowError) as error:
            raise InvalidInput(f"values must be a flat column of numbers: {error}") from error
        # numpy turns whole numbers mixed with None or beyond 64 bits into objects or floats; keep them exact
        if array.dtype.kind == "f" and any(isinstance(v, int) and abs(v) > 2**53 for v in values):
            array = np.array(values, dtype=object)
    else:
        array = values
    if array.ndim != 1:
        raise InvalidInput(f"values must be one column, got an array of shape {array.shape}")
    if array.dtype.kind not in "iufO" or (array.dtype.kind == "O" and array.size and not _numbers_only(array)):
        wrong = next((v for v in array.tolist() if not _is_number_or_missing(v)), array.dtype.name)
        raise InvalidInput(f"values must be numbers, got {wrong!r}")
    return array


def _foreign(values: Any) -> NDArray[Any]:
    """pandas, polars and arrow columns, without turning nullable whole numbers into floats."""
    dtype = str(getattr(values, "dtype", getattr(values, "type", "")))
    nullable = any(word in dtype for word in ("Int", "UInt", "int", "uint"))
    has_null = bool(getattr(values, "null_count", 0)) or (
        hasattr(values, "isna") and bool(values.isna().any())  # pandas
    )
    if callable(getattr(values, "null_count", None)):  # polars: a method
        has_null = bool(values.null_count())
    if nullable and has_null:
        listed = (
            values.to_pylist()
            if hasattr(values, "to_pylist")
            else (values.to_list() if hasattr(values, "to_list") else list(values))
        )
        return np.array([None if _is_missing(v) else v for v in listed], dtype=object)
    if hasattr(values, "to_pylist") and has_null:
        return np.array(values.to_pylist(), dtype=object)
    if hasattr(values, "combine_chunks"):  # arrow ChunkedArray
        return np.asarray(values.to_numpy())
    if hasattr(values, "to_numpy"):
        try:
            return np.asarray(values.to_numpy(zero_copy_only=False))  # arrow Array
        except TypeError:
            return np.asarray(values.to_numpy())
    return np.asarray(values)


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and value != value


def _is_number_or_missing(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return False
    return isinstance(value, int | float | np.integer | np.floating) or _is_missing(value)


def _numbers_only(array: NDArray[Any]) -> bool:
    return all(_is_number_or_missing(v) for v in array.tolist())


def _without_missing(array: NDArray[Any], missing: str) -> tuple[NDArray[Any], int]:
    if array.dtype.kind == "O":
        gone = np.fromiter((_is_missing(v) for v in array.tolist()), dtype=bool, count=array.size)
    elif array.dtype.kind == "f":
        gone = np.isnan(array)
    else:
        return array, 0
    count = int(gone.sum())
    if count and missing == "refuse":
        raise InvalidInput(
            f"{count} of {array.size} values are missing (None or NaN); say missing='drop' to leave those users out"
        )
    return (array[~gone], count) if count else (array, 0)


def _integer_indices(array: NDArray[Any], domain: Integers, outside: str, fractions: str, dropped: int) -> Column:
    rounded = 0
    if array.dtype.kind == "O":
        whole: list[int] = []
        for value in array.tolist():
            if isinstance(value, float) and not np.isfinite(value):
                whole.append(domain.high + 1 if value > 0 else domain.low - 1)
                continue
            nearest = round(value)
            rounded += nearest != value
            whole.append(nearest)
        _refuse_fractions(rounded, array.size, fractions)
        clamped = sum(not domain.low <= v <= domain.high for v in whole)
        _refuse_outside(clamped, array.size, domain, outside)
        clipped = (min(max(v, domain.low), domain.high) - domain.low for v in whole)
        return Column(np.fromiter(clipped, dtype=np.int64, count=len(whole)), clamped, dropped, rounded)
    if array.dtype.kind == "f":
        nearest_array = np.rint(array)
        rounded = int((nearest_array != array).sum())
        _refuse_fractions(rounded, array.size, fractions)
        nearest_array = nearest_array.astype(np.float64)
        if np.abs(nearest_array).max() >= 2.0**62:  # beyond exact int64 arithmetic: the slow, exact way
            return _integer_indices(array.astype(object), domain, outside, fractions, dropped)
        array = nearest_array.astype(np.int64)
    below, above = array < domain.low, array > domain.high
    clamped = int(below.sum() + above.sum())
    _refuse_outside(clamped, array.size, domain, outside)
    # Unsigned arithmetic wraps, so value - low is right even where the signed difference would overflow.
    offset = array.astype(np.uint64) - np.uint64(domain.low % 2**64)
    indices = np.where(below, np.uint64(0), np.where(above, np.uint64(domain.size - 1), offset))
    return Column(indices.astype(np.int64), clamped, dropped, rounded)


def _refuse_fractions(count: int, total: int, fractions: str) -> None:
    if count and fractions == "refuse":
        raise InvalidInput(
            f"{count} of {total} values have a fraction, but the domain is Integers; "
            "say fractions='round', or use Grid or LogGrid for continuous values"
        )


def _refuse_outside(count: int, total: int, domain: Integers, outside: str) -> None:
    if count and outside == "refuse":
        raise InvalidInput(
            f"{count} of {total} values are outside {domain.low} .. {domain.high}; "
            "say outside='clamp' to count them as the nearest end"
        )

"""Columns of every kind become the same exact indices, and nothing is guessed."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from privquant.columns import to_indices
from privquant.domain import Grid, Integers
from privquant.errors import InvalidInput

DOMAIN = Integers(-5, 100)
VALUES = [3, -5, 100, 7, 7]
EXPECTED = [8, 0, 105, 12, 12]


@pytest.mark.parametrize(
    "column",
    [
        VALUES,
        tuple(VALUES),
        np.array(VALUES),
        np.array(VALUES, np.int8),
        np.array(VALUES, np.float32),
        np.array(VALUES, object),
        pd.Series(VALUES),
        pd.Series(VALUES, dtype="Int64"),
        pd.Series(VALUES, dtype="float64"),
        pd.Series(VALUES, dtype="int64[pyarrow]"),
        pd.Series([Decimal(v) for v in VALUES], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        pd.Series(VALUES, dtype="category"),
        pd.Series(VALUES, index=[9, 9, 1, 0, 4]),
        pd.Index(VALUES),
        pd.array(VALUES, dtype="Int16"),
        [Decimal(v) for v in VALUES],
        [Fraction(v) for v in VALUES],
        [Decimal(3), -5.0, 100, np.int8(7), np.float32(7)],
        pl.Series([Decimal(v) for v in VALUES]),
        pa.array([Decimal(v) for v in VALUES]),
        pl.Series(VALUES, dtype=pl.Object),
        pl.Series(VALUES),
        pl.Series([float(v) for v in VALUES]),
        pa.array(VALUES),
        pa.chunked_array([VALUES[:2], VALUES[2:]]),
        (v for v in VALUES),
        range(3, 8),
    ],
    ids=lambda c: f"{type(c).__module__}.{type(c).__name__}",
)
def test_every_kind_of_column(column):
    expected = [8, 9, 10, 11, 12] if isinstance(column, range) else EXPECTED
    assert to_indices(column, DOMAIN).indices.tolist() == expected


@pytest.mark.parametrize(
    "column",
    [
        [3, None, 7],
        [3.0, float("nan"), 7.0],
        np.array([3, np.nan, 7]),
        pd.Series([3, None, 7], dtype="Int64"),
        pd.Series([3, None, 7]),
        pd.Series([3, None, 7], dtype="int64[pyarrow]"),
        pd.Series([Decimal(3), None, Decimal(7)]),
        pd.array([3, None, 7], dtype="Int64"),
        [Decimal(3), Decimal("nan"), Decimal(7)],
        [Decimal(3), Decimal("snan"), Decimal(7)],
        [3, pd.NA, 7],
        [3, pd.NaT, 7],
        pl.Series([3.0, float("nan"), 7.0]),
        pl.Series([Decimal(3), None, Decimal(7)]),
        pa.array([3, None, 7], pa.uint8()),
        pa.array([Decimal(3), None, Decimal(7)]),
        pl.Series([3, None, 7]),
        pa.array([3, None, 7]),
        pa.chunked_array([[3, None], [7]]),
    ],
    ids=lambda c: f"{type(c).__module__}.{type(c).__name__}",
)
def test_missing_values_are_refused_with_their_count_or_dropped(column):
    with pytest.raises(InvalidInput, match=r"1 of 3 values are missing.*missing='drop'"):
        to_indices(column, DOMAIN)
    found = to_indices(column, DOMAIN, missing="drop")
    assert found.indices.tolist() == [8, 12]
    assert found.dropped == 1


def test_whole_numbers_beyond_float_precision_stay_exact():
    domain = Integers(0, 2**63 - 1)
    exact = [2**53 + 1, 2**62 + 1, 2**63 - 1, 2**63 - 2]
    with_null = [*exact, None]
    for column in (
        exact,
        np.array(exact),
        pl.Series(exact),
        pa.array(exact),
        pd.Series(exact),
        with_null,
        [*exact, float("nan")],
        [Decimal(v) for v in exact],
        pl.Series(with_null),
        pa.array(with_null),
        pa.chunked_array([with_null]),
        pd.Series(with_null, dtype="Int64"),
        pd.Series(with_null, dtype="int64[pyarrow]"),
        pd.Series(with_null, dtype="object"),
    ):
        assert to_indices(column, domain, missing="drop").indices.tolist() == exact
    assert to_indices([2**60 + 1, 0.5], domain, fractions="round").indices.tolist() == [2**60 + 1, 0]


def test_negative_lows_do_not_overflow():
    domain = Integers(-(2**63), -1)
    column = np.array([-(2**63), -1, -(2**62)], np.int64)
    assert to_indices(column, domain).indices.tolist() == [0, 2**63 - 1, 2**62]
    wide = Integers(-(2**62), 2**62 - 1)
    assert to_indices(np.array([2**63 - 1, -(2**63)]), wide).indices.tolist() == [2**63 - 1, 0]


def test_unsigned_columns_above_the_signed_range():
    domain = Integers(2**63, 2**64 - 1)
    column = np.array([2**63, 2**64 - 1], np.uint64)
    assert to_indices(column, domain).indices.tolist() == [0, 2**63 - 1]


def test_fractions_under_integers():
    with pytest.raises(InvalidInput, match=r"2 of 3 values have a fraction.*fractions='round'"):
        to_indices([1.5, 2.0, 2.6], DOMAIN)
    found = to_indices([1.5, 2.0, 2.6], DOMAIN, fractions="round")
    assert found.indices.tolist() == [7, 7, 8]
    assert found.rounded == 2


def test_outside_values_are_clamped_and_counted_or_refused():
    found = to_indices([-99, 5, 1e300, float("inf")], DOMAIN)
    assert found.indices.tolist() == [0, 10, 105, 105]
    assert found.clamped == 3
    with pytest.raises(InvalidInput, match="1 of 2 values are outside -5 .. 100"):
        to_indices([5, 101], DOMAIN, outside="refuse")


def test_infinite_values_are_outside_and_not_rounded():
    domain = Integers(-7, -1)
    for column in ([float("-inf"), -1, float("inf")], [Decimal("-Infinity"), Decimal(-1), Decimal("Infinity")]):
        found = to_indices(column, domain)
        assert found.indices.tolist() == [0, 6, 6]
        assert (found.clamped, found.rounded) == (2, 0)


def test_decimal_fractions():
    with pytest.raises(InvalidInput, match="1 of 2 values have a fraction"):
        to_indices([Decimal("1.5"), Decimal("2.00")], DOMAIN)
    found = to_indices([Decimal("1.5"), Decimal("2.00")], DOMAIN, fractions="round")
    assert (found.indices.tolist(), found.rounded) == ([7, 7], 1)


def test_grid_columns():
    assert to_indices([0.5, 1.0, 7.7], Grid([1, 2])).indices.tolist() == [0, 0, 2]
    assert to_indices([Decimal("1.0"), Decimal("1.1"), 10**400], Grid([1, 2])).indices.tolist() == [0, 1, 2]


@pytest.mark.parametrize("make", [list, np.array, pl.Series, lambda v: np.array(v, object)])
def test_a_grid_bins_a_column_as_it_bins_each_value(make):
    """Whole numbers that a float cannot tell from an edge included."""
    grid = Grid([-(2.0**60), 3, 2.0**53, 2.0**60])
    values = [-(2**60), -(2**60) + 1, 3, 4, 2**53, 2**53 + 1, 2**60, 2**60 + 1]
    assert to_indices(make(values), grid).indices.tolist() == [grid.index(v) for v in values]


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ([], "no values"),
        (["a", "b"], "got 'a'"),
        ([1, "b"], "got"),
        ("12", "got text '12'"),
        ([[1, 2], [3, 4]], "shape"),
        ([True, False], "got True"),
        (np.array(["2020-01-01"], "datetime64[D]"), "must be numbers"),
        ([None, None], "2 of 2 values are missing"),
        ([1 + 2j], "must be numbers"),
    ],
)
def test_what_is_no_column_of_numbers(column, said):
    with pytest.raises(InvalidInput, match=said):
        to_indices(column, DOMAIN)


@pytest.mark.parametrize("make", [list, np.array, pd.Series, pl.Series, pa.array], ids=lambda m: m.__module__)
@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        ([True, False], [1, 0]),
        ([date(1970, 1, 3), date(1970, 1, 1)], [172_800, 0]),
        ([datetime(1970, 1, 1, 0, 1), datetime(1970, 1, 1)], [60, 0]),
        ([timedelta(minutes=2), timedelta(0)], [120, 0]),
    ],
    ids=["bool", "date", "datetime", "timedelta"],
)
def test_other_kinds_are_told_how_to_become_numbers(make, values, numbers):
    """The expression in the message, run as it stands, gives ones and zeros, or times in the unit it names."""
    values = make(values)
    with pytest.raises(InvalidInput, match="values must be numbers, got .*: np.asarray") as told:
        to_indices(values, DOMAIN)
    expression = str(told.value).split(": ", 1)[1]
    found = eval(expression[: expression.index("astype(int)") + len("astype(int)")])
    unit = 86_400 if "counts days" in expression else 1
    assert (found * unit).tolist() == numbers


def test_other_kinds_with_missing_ones():
    for column in ([date(1970, 1, 1), None], np.array(["1970-01-01", "NaT"], "M8[D]"), pl.Series([True, None])):
        with pytest.raises(InvalidInput, match="np.asarray.*; leave the 1 missing ones out before"):
            to_indices(column, DOMAIN)


def test_a_truth_value_among_numbers_is_refused():
    with pytest.raises(InvalidInput, match="got True"):
        to_indices([3, True, 7], DOMAIN)


def test_all_dropped_is_empty():
    with pytest.raises(InvalidInput, match=r"no values.*2 missing were dropped"):
        to_indices([None, float("nan")], DOMAIN, missing="drop")


@pytest.mark.parametrize(
    "table",
    [pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pl.LazyFrame({"a": [1]}), pa.table({"a": [1]}), {1: 2}],
    ids=lambda t: f"{type(t).__module__}.{type(t).__name__}",
)
def test_a_table_is_not_a_column(table):
    with pytest.raises(InvalidInput, match="got a .*; pick a column"):
        to_indices(table, DOMAIN)


def test_masked_values_are_missing():
    masked = np.ma.array([1, 2, 3], mask=[False, True, False])
    with pytest.raises(InvalidInput, match="1 of 3 values are missing"):
        to_indices(masked, DOMAIN)
    assert to_indices(masked, DOMAIN, missing="drop").indices.tolist() == [6, 8]


@pytest.mark.filterwarnings("error")
def test_half_precision_is_exact():
    assert to_indices(np.arange(3, dtype=np.float16), DOMAIN).indices.tolist() == [5, 6, 7]

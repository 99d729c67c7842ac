"""Columns of every kind become the same exact indices, and nothing is guessed."""

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
    for column in (exact, np.array(exact), pl.Series(exact), pa.array(exact), pd.Series(exact), [*exact, None]):
        assert to_indices(column, domain, missing="drop").indices.tolist() == exact


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


def test_grid_columns():
    assert to_indices([0.5, 1.0, 7.7], Grid([1, 2])).indices.tolist() == [0, 0, 2]


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

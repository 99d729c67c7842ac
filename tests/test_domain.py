"""Domains: exact maps both ways, at the edges of 64 bits too, and plain errors."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privquant.domain import MAX_SIZE, Grid, Integers, LogGrid, check_domain, domain_from_dict
from privquant.errors import InvalidInput

BIG = 2**63


@given(st.integers(-BIG, BIG), st.integers(0, BIG - 1), st.integers(0, BIG - 1))
def test_integers_round_trip_exactly(low, span, offset):
    domain = Integers(low, low + span)
    index = min(offset, span)
    assert domain.index(domain.value(index)) == index
    assert domain.size == span + 1


def test_the_largest_domain_keeps_its_ends_apart():
    domain = Integers(-(2**62), 2**62 - 1)
    assert domain.size == MAX_SIZE
    assert domain.index(domain.high) == MAX_SIZE - 1
    assert domain.index(domain.high - 1) == MAX_SIZE - 2
    assert domain.value(MAX_SIZE - 1) == domain.high


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (5, 4, "low=5, high=4"),
        (0, 2**63, "at most 2^63"),
        (0.5, 3, "whole number, got 0.5"),
        (True, 3, "whole number, got True"),
        ("0", 3, "whole number, got '0'"),
    ],
)
def test_bounds_that_cannot_be(low, high, said):
    with pytest.raises(InvalidInput, match=said.replace("^", r"\^")):
        Integers(low, high)


def test_outside_values_are_clamped_or_refused():
    domain = Integers(10, 20)
    assert domain.index(5) == 0
    assert domain.index(math.inf) == 10
    assert domain.index(-math.inf) == 0
    with pytest.raises(InvalidInput, match="21 is outside 10 .. 20"):
        domain.index(21, outside="refuse")
    with pytest.raises(InvalidInput, match="'clamp' or 'refuse', got 'drop'"):
        domain.index(21, outside="drop")


@pytest.mark.parametrize("value", [1.5, math.nan, "7", None, True])
def test_a_value_that_is_no_whole_number_is_refused(value):
    with pytest.raises(InvalidInput, match="whole number"):
        Integers(0, 9).index(value)


def test_grid_bins_are_right_closed_and_unbounded_outside():
    grid = Grid([1.0, 2.0, 5.0])
    assert grid.size == 4
    assert [grid.index(v) for v in (-1e300, 1.0, 1.0000001, 2.0, 5.0, 5.1, math.inf)] == [0, 0, 1, 1, 2, 3, 3]
    assert [grid.value(i) for i in range(4)] == [1.0, 2.0, 5.0, math.inf]
    assert grid.bin(0) == "(-inf, 1]"
    assert grid.bin(1) == "(1, 2]"
    assert grid.bin(3) == "(5, inf)"


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, unique=True), st.floats(allow_nan=False))
def test_a_value_lies_in_its_bin(edges, value):
    grid = Grid(sorted(edges))
    index = grid.index(value)
    assert value <= grid.value(index)
    assert index == 0 or value > grid.value(index - 1)


def test_log_grid_has_equal_ratios_and_exact_ends():
    grid = LogGrid(1.0, 1000.0, 3)
    assert grid.edges[0] == 1.0
    assert grid.edges[-1] == 1000.0
    assert grid.edges[1:3] == pytest.approx((10.0, 100.0))
    assert grid.size == 5


@pytest.mark.parametrize("edges", [[], [2, 1], [1, 1], [math.nan], [0, math.inf], ["a"], None])
def test_edges_that_cannot_be(edges):
    with pytest.raises(InvalidInput):
        Grid(edges)


@pytest.mark.parametrize("args", [(0, 1, 3), (2, 1, 3), (1, 2, 0), (1, math.inf, 3), (1, 2, 1.5), (1, 2, 10**9)])
def test_log_grids_that_cannot_be(args):
    with pytest.raises(InvalidInput, match="LogGrid"):
        LogGrid(*args)


@pytest.mark.parametrize("domain", [Integers(-3, 9), Grid([0.1, 0.2]), LogGrid(0.001, 10, 40)])
def test_json_round_trip(domain):
    back = domain_from_dict(domain.to_dict())
    assert back.to_dict() == domain.to_dict()
    assert back.size == domain.size


@pytest.mark.parametrize("form", [{}, {"kind": "integers", "low": 0}, {"kind": "grid", "edges": [1], "x": 1}])
def test_unknown_forms_are_refused(form):
    with pytest.raises(InvalidInput, match="not a domain"):
        domain_from_dict(form)


def test_leaving_the_domain_out_says_why():
    with pytest.raises(InvalidInput, match="never inferred from the data"):
        check_domain(None)
    with pytest.raises(InvalidInput, match="got 100"):
        check_domain(100)


def test_an_index_outside_is_an_error():
    for domain in (Integers(0, 4), Grid([1, 2, 3, 4])):
        with pytest.raises(InvalidInput, match="outside the domain's 0 .. 4"):
            domain.value(5)
        with pytest.raises(InvalidInput, match="outside"):
            domain.value(-1)

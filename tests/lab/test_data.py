"""The paper's recipes are pinned by checksum: a changed value anywhere is a changed experiment."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.lab.data import dataset, dataset_names, from_values, pareto, parse, uniform_interval, whole_number


def digest(values: np.ndarray) -> str:
    return hashlib.sha256(values.astype("<i8").tobytes()).hexdigest()


PARETO = {
    (2500, 4**8): "131d016ec110e264dee50eda8567c1c09c2bed7e96e4f8626dcd7b199518cf00",
    (2500, 4**9): "c54c8b6d35b248441e4e213b94f4de442616edd8a12d74ad2b34b05c540db990",
    (5000, 4**8): "219391dbfadd614b49fefa1be4d34b07c5e71326fc85dc1b1f811e3073e7df09",
    (7500, 4**9): "4253c9814e8148e45035dc920d21389f6b4a8f0a9ca344996c392c496cecd2a3",
    (10**6, 4**8): "a4b818bf83494a7e32bab580c46a457bbf277ed0d355943b70318f0726a68c17",
}
UNIFORM = {
    100: "2f07d609bddfb9a6f6369f92c8de1d5b6547065b2bea77f8d46444696e30c014",
    10**3: "c53cfdd7fe91338c6c77564f8b5abcd0c76c8b9fa0774ae885fcb4f7016f9328",
    10**4: "95aa260bd860711f6b3e4514abd3f5551795a7558b02a97e8c8a087a295a2f97",
    10**5: "05ccf49b858a84620ee78d42f4ce7ce888320722d4a14ab68a2a11d5fb475d2b",
    10**6: "ffaff8e2e7480fe28c8d0141dd04d2063fe4d158c91aa2eca5f41b646a5a8e2c",
}


@pytest.mark.parametrize(("n", "size"), PARETO)
def test_pareto_values_are_the_authors(n: int, size: int) -> None:
    assert digest(pareto(n, size)) == PARETO[n, size]


@pytest.mark.parametrize("size", UNIFORM)
def test_uniform_values_are_the_authors(size: int) -> None:
    assert digest(uniform_interval(2500, size)) == UNIFORM[size]


@pytest.mark.parametrize(("n", "size"), [(2500, 4**8), (7500, 4**8)])
def test_pareto_is_the_recipe_as_written_down(n: int, size: int) -> None:
    """Word for word with the global generator, whose state is put back."""
    state = np.random.get_state()
    try:
        np.random.seed(42)
        x = np.random.pareto(1.5, n) * 2000
        written = np.clip(np.round(x).astype(int), 0, size - 1)
    finally:
        np.random.set_state(state)
    assert np.array_equal(pareto(n, size), written)


@pytest.mark.parametrize("size", [100, 1000, 10_000])
def test_uniform_is_the_recipe_as_written_down(size: int) -> None:
    state = np.random.get_state()
    try:
        np.random.seed(42)
        left = np.random.choice(range(size // 2))
        right = np.random.choice(range(size // 2, size))
        written = np.random.choice(range(left, right + 1), 2500)
    finally:
        np.random.set_state(state)
    assert np.array_equal(uniform_interval(2500, size), written)


def test_recipes_leave_the_global_generator_alone() -> None:
    before = np.random.get_state()[1].copy()  # type: ignore[index]
    pareto(100, 1000)
    uniform_interval(100, 1000)
    assert np.array_equal(before, np.random.get_state()[1])  # type: ignore[index]


def test_statistics_of_the_recipes() -> None:
    """Median of 2000 Pareto(1.5) is 2000 (2^(2/3) - 1) = 1174.8; the 10^6 users' own is within 5 sd of it."""
    values = pareto(10**6, 4**9)
    density = 1.5 / 2000 * 2 ** (-5 / 3)
    assert abs(np.median(values) - 2000 * (2 ** (2 / 3) - 1)) < 5 * 0.5 / density / 1000 + 0.5
    assert np.median(pareto(2500, 4**9)) == 1200
    assert (uniform_interval(2500, 10**5).min(), uniform_interval(2500, 10**5).max()) == (15804, 50852)


@pytest.mark.parametrize("size", [1, 2, 3, 2**62 + 1, 2**63])
@pytest.mark.parametrize("name", ["pareto", "uniform-interval"])
def test_recipes_hold_on_the_smallest_and_largest_domains(name: str, size: int) -> None:
    values = dataset(name, n=500, size=size).indices()
    assert values.dtype == np.int64
    assert values.min() >= 0
    assert int(values.max()) <= size - 1


def test_every_named_data_set_can_be_made() -> None:
    for name in dataset_names():
        found = dataset(name, n=1000, size=2**32, seed=3)
        values = found.indices()
        assert values.shape == (1000,)
        assert values.min() >= 0
        assert values.max() < 2**32
        assert np.array_equal(values, dataset(name, n=1000, size=2**32, seed=3).indices())


def test_a_data_set_from_text() -> None:
    found = parse("pareto:n=2500:B=4^9")
    assert (found.name, found.n, found.size, found.key) == (
        "pareto",
        2500,
        262144,
        "pareto:n=2500:B=262144:seed=42",
    )
    assert digest(found.indices()) == PARETO[2500, 4**9]
    assert parse("uniform-interval:n=1e4:B=10^6:seed=7").n == 10_000


@pytest.mark.parametrize(
    ("text", "number"), [("4^9", 262144), ("2**63", 2**63), ("1e6", 10**6), ("10_000", 10**4), ("-5", -5)]
)
def test_whole_numbers_as_people_write_them(text: str, number: int) -> None:
    assert whole_number(text, "B") == number


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("parreto:n=10:B=10", "unknown data set 'parreto'; there are pareto, uniform-interval"),
        ("pareto:n=10", "needs n and B, e.g. pareto:n=2500:B=4^9"),
        ("pareto:n=ten:B=10", "n must be a whole number such as 2500, 4^9 or 1e6, got 'ten'"),
        ("pareto:n=10:B=2^64", "size must be at most 2^63"),
        ("pareto:n=0:B=10", "n must be at least 1, got 0"),
        ("pareto:n=10:B=10:low=3", "takes n, B, seed, got low"),
        ("pay.csv:column=salary", "needs the bounds of its domain"),
        ("pay.csv:column=salary:low=0:high=9", "there is no file pay.csv"),
    ],
)
def test_a_wrong_data_set_says_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_own_values_are_known_by_their_digest() -> None:
    domain = Integers(-5, 5)
    first = from_values([-5, 0, 5], domain)
    assert first.indices().tolist() == [0, 5, 10]
    assert first.key == from_values(np.array([-5, 0, 5]), domain).key
    assert first.key != from_values([-5, 0, 4], domain).key
    assert first.key != from_values([-4, 1, 6], Integers(-4, 6)).key


@pytest.mark.parametrize("recipe", [pareto, uniform_interval])
@pytest.mark.parametrize(
    ("n", "size", "says"), [("a", 10, "n must be a whole"), (10, 0, "size must be at least 1")]
)
def test_a_recipe_refuses_what_cannot_be(recipe, n, size, says) -> None:
    with pytest.raises(InvalidInput, match=says):
        recipe(n, size)

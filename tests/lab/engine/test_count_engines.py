"""Count-level trials of the naive search and the tree have the law of the protocols themselves.

Two samples of answers, one by counts and one by asking simulated users, are compared by chi-square on their
histograms. Each comparison has a fixed seed and a false-alarm rate of 1e-4; the same test rejects a twin whose
coin, crowd or quantile is off.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.lab.engine import Setting, naive, simulate_by_asking, simulator, tree
from privquant.lab.engine.tree import binomial_table, lazy_trees, whole_trees
from privquant.lab.populations import Users
from privquant.lab.sample import Sample
from privquant.lab.schedule import Schedule
from privquant.protocols.naive.search import NaiveSearch
from privquant.protocols.naive.shuffled import shuffled_settings
from privquant.protocols.tree.hierarchical import Hierarchical
from privquant.protocols.tree.nodes import Tree, closest_coin, prefixes

FALSE_ALARM = 1e-4
BY_COUNT, BY_WHOLE_TREE, BY_ASKING = 6000, 1500, 600


@dataclass(frozen=True)
class Case:
    size: int
    n: int
    users: int
    draw: str = "empirical"
    epsilon: float = 1.5
    quantile: Any = 0.4
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.size}-{self.users}of{self.n}-{self.draw}-" + "-".join(map(str, self.options.values()))

    def sample(self) -> Sample:
        values = np.random.default_rng(self.size).integers(0, self.size, self.n)
        values[: self.n // 3] = self.size // 3
        return Sample(values, self.size)

    def template(self, made: Any, **other: Any) -> Any:
        settings = {"users": self.users, "epsilon": self.epsilon, "quantile": self.quantile} | other
        return made(Integers(0, self.size - 1), **settings, **self.options)


NAIVE = [
    Case(11, 40, 40),
    Case(16, 60, 45, options={"behaviour": "published"}),
    Case(13, 60, 60, options={"behaviour": "published"}),
    Case(6, 30, 70, "statistical"),
    Case(23, 3, 3),
    Case(64, 90, 60),
]
TREES = [
    Case(11, 40, 40),
    Case(16, 50, 35, options={"encoding": "sue", "branching": 2}),
    Case(13, 60, 60, options={"encoding": "hadamard"}),
    Case(13, 30, 60, "statistical", options={"encoding": "hadamard", "branching": 2}),
    Case(7, 30, 50, "statistical", options={"branching": 3}),
    Case(23, 3, 3),
    Case(16, 40, 40, options={"answer": "argmin"}),
    Case(14, 60, 40, options={"answer": "argmin", "branching": 3}),
    Case(14, 40, 60, "statistical", options={"answer": "argmin", "branching": 3, "encoding": "hadamard"}),
    Case(14, 50, 50, options={"consistency": True, "branching": 3}),
    Case(300, 60, 60, options={"answer": "argmin"}),
    Case(40, 50, 50, quantile=(0.3, 0.6), options={"branching": 3}),
]


def p_value(first: np.ndarray, second: np.ndarray, size: int) -> float:
    """Chi-square on two samples of answers, or of pairs of answers; rare ones are put together."""
    bins = min(size, 40) if first.shape[1] == 1 else 6
    cells = [(a * bins // size) @ bins ** np.arange(a.shape[1]) for a in (first, second)]
    counts = np.stack([np.bincount(c, minlength=bins ** first.shape[1]) for c in cells])
    common = counts.sum(axis=0) >= 30
    table = np.column_stack((counts[:, common], counts[:, ~common].sum(axis=1)))
    return float(stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


def both(setting, made, engine, **other):
    template, sample, rng = setting.template(made), setting.sample(), np.random.default_rng(7)
    assert engine.supports(template)
    light = made is NaiveSearch or not (template.whole or len(template.quantiles) > 1)
    trials = BY_COUNT if light else BY_WHOLE_TREE
    fast = engine.simulate(setting.template(made, **other), sample, trials, rng, Setting(setting.draw))
    slow = simulate_by_asking(template, sample, BY_ASKING, rng, Setting(setting.draw))
    return fast, slow, setting.size


@pytest.mark.parametrize("setting", NAIVE, ids=str)
def test_the_naive_search_by_counts_has_the_law_of_the_protocol(setting):
    assert p_value(*both(setting, NaiveSearch, naive)) > FALSE_ALARM


@pytest.mark.parametrize("setting", TREES, ids=str)
def test_the_tree_by_counts_has_the_law_of_the_protocol(setting):
    assert p_value(*both(setting, Hierarchical, tree)) > FALSE_ALARM


@pytest.mark.parametrize("schedule", [Schedule.rounds(7), Schedule.batches(3), Schedule.in_flight(5)], ids=str)
@pytest.mark.parametrize(
    ("setting", "made", "engine"), [(NAIVE[0], NaiveSearch, naive), (TREES[0], Hierarchical, tree)]
)
def test_these_protocols_answer_alike_on_any_schedule(setting, made, engine, schedule):
    """Their engines take no notice of the schedule, because the law of the answers does not depend on it."""
    template, sample, rng = setting.template(made), setting.sample(), np.random.default_rng(8)
    fast = engine.simulate(template, sample, BY_COUNT, rng, Setting(schedule=schedule))
    slow = simulate_by_asking(template, sample, BY_ASKING, rng, Setting(schedule=schedule))
    assert p_value(fast, slow, setting.size) > FALSE_ALARM


@pytest.mark.parametrize(
    ("setting", "made", "engine"),
    [(NAIVE[0], NaiveSearch, naive), (TREES[0], Hierarchical, tree), (TREES[6], Hierarchical, tree)],
)
@pytest.mark.parametrize("other", [{"epsilon": 0.4}, {"quantile": 0.7}])
def test_the_comparison_rejects_a_twin_that_is_off(setting, made, engine, other):
    assert p_value(*both(setting, made, engine, **other)) < FALSE_ALARM


def test_the_comparison_rejects_drawing_with_replacement():
    """Honest coins and a batch that is half of the crowd: only the way of drawing differs."""
    setting = Case(8, 30, 30, epsilon=20.0, quantile=0.5)
    template, sample, rng = setting.template(NaiveSearch), setting.sample(), np.random.default_rng(7)
    fast = naive.simulate(template, sample, BY_COUNT, rng, Setting("statistical"))
    slow = simulate_by_asking(template, sample, BY_ASKING, rng)
    assert p_value(fast, slow, 8) < FALSE_ALARM


def test_engines_are_found_by_name_and_refuse_what_they_cannot_do():
    assert simulator(NAIVE[0].template(NaiveSearch)) is naive.simulate
    assert simulator(TREES[0].template(Hierarchical)) is tree.simulate
    cosets = Hierarchical(Integers(0, 2**40), users=10, epsilon=1.0, branching=3)
    assert cosets.encoding == "hadamard"
    assert simulator(cosets) is simulate_by_asking


@pytest.mark.parametrize("encoding", ["oue", "sue", "hadamard"])
@pytest.mark.parametrize("size", [4**31, 2**63])
def test_huge_domains_by_descent(encoding, size):
    values = np.random.default_rng(1).integers(0, size, 100_000, dtype=np.int64)
    template = Hierarchical(Integers(0, size - 1), users=100_000, epsilon=5.0, encoding=encoding)
    answers = tree.simulate(template, Sample(values, size), 40, np.random.default_rng(2))[:, 0]
    assert (answers >= 0).all()
    assert np.abs(answers.astype(float) / size - 0.5).max() < 0.2


def test_huge_domains_by_naive_search():
    size = 2**63
    values = np.random.default_rng(1).integers(0, size, 100_000, dtype=np.int64)
    for behaviour in ("text", "published"):
        template = NaiveSearch(Integers(0, size - 1), users=100_000, epsilon=5.0, behaviour=behaviour)
        answers = naive.simulate(template, Sample(values, size), 40, np.random.default_rng(2))[:, 0]
        assert np.abs(answers.astype(float) / size - 0.5).max() < 0.12


def test_a_hundred_million_users_cost_a_histogram():
    """No array of users exists: the sample is made of counts."""
    counts = np.full(1000, 10**5)
    sample = Sample.of_counts(np.arange(1000), counts, 1000)
    assert sample.n == 10**8
    assert "indices" not in sample.__dict__
    for made in (NaiveSearch, Hierarchical):
        template = made(Integers(0, 999), users=10**8, epsilon=1.0)
        answers = simulator(template)(template, sample, 100, np.random.default_rng(1))[:, 0]
        assert np.abs(answers - 499.5).max() < 5
    settings = shuffled_settings(Integers(0, 999), users=10**8, epsilon=0.1, delta=1e-8)
    shuffled = NaiveSearch(Integers(0, 999), users=10**8, **settings)
    answers = simulator(shuffled)(shuffled, sample, 100, np.random.default_rng(1))[:, 0]
    assert np.abs(answers - 499.5).max() <= 1


def test_a_sample_of_counts_is_the_sample_it_counts():
    listed = Sample(np.array([3, 1, 3, 7, 3]), 9)
    counted = Sample.of_counts(np.array([1, 3, 7]), np.array([1, 3, 1]), 9)
    assert (counted.n, counted.size) == (listed.n, listed.size)
    for t in range(-1, 9):
        assert counted.at_most(t) == listed.at_most(t)
    Users(counted, np.random.default_rng(0))
    assert sorted(counted.indices) == sorted(listed.indices)
    assert counted.n == 5
    for values, held in (([1, 1], [2, 2]), ([1, 2], [0, 2]), ([2, 1], [1, 1])):
        with pytest.raises(InvalidInput, match="distinct rising"):
            Sample.of_counts(np.array(values), np.array(held), 9)


def test_several_quantiles_of_a_tree_too_large_to_build():
    """Lazily drawn nodes have the law of the whole tree, and the descents of one trial share theirs."""
    setting = Case(40, 50, 50, quantile=(0.3, 0.6), options={"branching": 3})
    template, sample, rng = setting.template(Hierarchical), setting.sample(), np.random.default_rng(7)
    lazy, whole = (f(template, sample, 1500, rng, draw="empirical") for f in (lazy_trees, whole_trees))
    assert p_value(lazy, whole, 40) > FALSE_ALARM
    # Columns of different trials have the right margins and the wrong pairs.
    mixed = np.column_stack((np.roll(lazy[:, 0], 1), lazy[:, 1]))
    assert p_value(mixed, whole, 40) < FALSE_ALARM
    size = 4**31
    huge = Hierarchical(Integers(0, size - 1), users=10**5, epsilon=5.0, quantile=(0.1, 0.5, 0.9), encoding="oue")
    values = np.random.default_rng(1).integers(0, size, 10**5)
    answers = simulator(huge)(huge, Sample(values, size), 5, rng) / size
    assert np.abs(answers - [0.1, 0.5, 0.9]).max() < 0.1


@pytest.mark.parametrize(("size", "branching"), [(256, 4), (300, 4), (50, 3), (2, 2), (5, 9)])
def test_the_kernels_do_what_their_plain_twins_do(size, branching):
    shape, rng = Tree(size, branching), np.random.default_rng(8)
    offsets = np.cumsum([0, *(shape.nodes(level) for level in range(1, shape.height + 1))])
    for q in (0.2, 0.5, 0.9):
        values = rng.normal(0, 0.3, offsets[-1])
        levels = [values[a:b] for a, b in zip(offsets, offsets[1:], strict=False)]
        wanted = closest_coin(prefixes(shape, levels), float(levels[0].sum()), q)
        assert tree._closest(values, offsets, branching, q, np.empty(size)) == wanted
    _, cdf = binomial_table(900, 0.26)
    uniforms, found = rng.random(5000), np.empty(5000)
    guide = np.searchsorted(cdf, np.arange(1024) / 1024, side="right")
    tree._invert(uniforms, cdf, guide, np.arange(cdf.size, dtype=float), found)
    assert (found == np.searchsorted(cdf, uniforms, side="right")).all()


def test_without_numba_the_law_is_the_same(monkeypatch):
    """Chi-square as above, with the kernels and without; false-alarm rate 1e-4, fixed seed."""
    setting = Case(300, 60, 60, options={"answer": "argmin"})
    template, sample, rng = setting.template(Hierarchical), setting.sample(), np.random.default_rng(9)
    compiled = whole_trees(template, sample, 1000, rng, draw="empirical")
    monkeypatch.setattr(tree, "HAVE_NUMBA", False)
    plain = whole_trees(template, sample, 1000, rng, draw="empirical")
    assert p_value(compiled, plain, 300) > FALSE_ALARM


@pytest.mark.parametrize(("n", "p"), [(1, 0.5), (7, 0.2), (900, 0.26), (900, 0.003), (10**7, 0.49), (40, 1e-9)])
def test_the_binomial_table_is_the_binomial(n, p):
    first, cdf = binomial_table(n, p)
    wanted = stats.binom.cdf(np.arange(first, first + cdf.size), n, p)
    assert np.abs(cdf - wanted).max() < 1e-11

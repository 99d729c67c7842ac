"""The tree's arithmetic against slow, obviously right twins."""

import numpy as np
import pytest

from privquant.protocols.tree.nodes import Tree, closest_coin, consistent, descend, hadamard_transform, prefixes

SHAPES = [(16, 4), (64, 2), (27, 3), (10, 4), (23, 3), (5, 7), (2, 2), (50, 2), (17, 16)]


def noisy_levels(tree, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(1 / tree.nodes(level), 0.1, tree.nodes(level)) for level in range(1, tree.height + 1)]


@pytest.mark.parametrize(("size", "branching"), SHAPES)
def test_a_tree_covers_its_domain_and_no_more(size, branching):
    tree = Tree(size, branching)
    assert branching**tree.height >= size > branching ** (tree.height - 1)
    for level in range(1, tree.height + 1):
        assert (tree.nodes(level) - 1) * tree.width(level) < size <= tree.nodes(level) * tree.width(level)
    assert tree.nodes(tree.height) == size


def test_the_largest_domain_needs_no_more_than_64_bits_a_node():
    tree = Tree(2**63, 4)
    assert tree.height == 32
    assert tree.nodes(32) == 2**63
    assert tree.nodes(1) == 2


@pytest.mark.parametrize(("size", "branching"), SHAPES)
def test_prefixes_add_up_the_nodes_left_of_the_path(size, branching):
    tree = Tree(size, branching)
    levels = noisy_levels(tree)
    found = prefixes(tree, levels)
    for index in range(size):
        total = 0.0
        for level in range(1, tree.height + 1):
            node = index // tree.width(level)
            total += sum(levels[level - 1][node - node % branching : node])
        assert found[index] == pytest.approx(total)


@pytest.mark.parametrize(("size", "branching"), SHAPES)
def test_consistency_is_weighted_least_squares(size, branching):
    """The two passes against numpy's lstsq over all leaves, with every level's own number of users."""
    tree = Tree(size, branching)
    levels = noisy_levels(tree, seed=1)
    users = [3 + 17 * (level % 3) for level in range(tree.height)]
    leaves = np.arange(size)
    design, seen, weights = [], [], []
    for level in range(1, tree.height + 1):
        for node in range(tree.nodes(level)):
            design.append((leaves // tree.width(level) == node).astype(float))
            seen.append(levels[level - 1][node])
            weights.append(users[level - 1] ** 0.5)
    # The root is exactly 1: substitute the last leaf away.
    design, seen, weights = np.array(design), np.array(seen), np.array(weights)
    free = design[:, :-1] - design[:, -1:]
    solved = np.linalg.lstsq(free * weights[:, None], (seen - design[:, -1]) * weights, rcond=None)[0]
    wanted = np.append(solved, 1 - solved.sum())
    found = consistent(tree, levels, users)
    assert found[-1] == pytest.approx(wanted, abs=1e-9)
    for level in range(1, tree.height + 1):
        sums = np.add.reduceat(found[-1], np.arange(0, size, tree.width(level)))
        assert found[level - 1] == pytest.approx(sums, abs=1e-9)


def test_a_level_without_users_has_no_say():
    tree = Tree(8, 2)
    levels = noisy_levels(tree)
    levels[1][:] = 99.0
    without = consistent(tree, levels, [10, 0, 10])
    levels[1][:] = -99.0
    assert consistent(tree, levels, [10, 0, 10])[-1] == pytest.approx(without[-1], abs=1e-6)


def test_exact_estimates_descend_to_the_quantile():
    rng = np.random.default_rng(2)
    for size, branching in SHAPES:
        tree = Tree(size, branching)
        mass = rng.random(size) + 0.01
        cdf = np.cumsum(mass / mass.sum())

        def children(level, first, count, tree=tree, cdf=cdf):
            edges = [min((first + k) * tree.width(level), tree.size) for k in range(count + 1)]
            below = [cdf[e - 1] if e else 0.0 for e in edges]
            return np.diff(below).tolist()

        for q in (0.01, 0.3, 0.5, 0.77, 0.99):
            assert descend(tree, q, children) == np.searchsorted(cdf, q - 1e-12)


def test_a_level_nobody_reported_at_is_taken_as_even():
    tree = Tree(16, 4)
    assert descend(tree, 0.5, lambda level, first, count: None) == 7
    assert descend(tree, 0.01, lambda level, first, count: None) == 0
    assert descend(tree, 0.99, lambda level, first, count: None) == 15


def test_the_closest_coin_is_the_first_of_equals():
    assert closest_coin(np.array([0.0, 0.4, 0.6, 0.9]), 1.0, 0.5) == 0
    assert closest_coin(np.array([0.0, 0.1, 0.2, 0.3]), 0.52, 0.5) == 3


def test_the_transform_is_the_matrix():
    rng = np.random.default_rng(3)
    values = rng.normal(size=32)
    matrix = np.array([[(-1) ** (i & j).bit_count() for j in range(32)] for i in range(32)])
    assert hadamard_transform(values) == pytest.approx(matrix @ values)

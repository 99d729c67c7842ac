"""The b-ary tree over a domain, and what is made of noisy estimates at its nodes.

Level l = 1 .. height has nodes of branching ** (height - l) indices each. The domain need not fill the tree: nodes
that start beyond its end do not exist, and the last existing node of a level may be a short one.

A level's estimates are fractions of all users. Everything here is arithmetic on them: descent to a quantile, prefix
sums, and the least-squares tree in which children sum to their parent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from privquant.arrays import Floats

Children = Callable[[int, int, int], Sequence[float] | None]
"""(level, first node, how many) -> their estimates; None where nobody reported at that level."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree of this branching over the indices 0 .. size-1."""

    size: int
    branching: int
    height: int = field(init=False)  # the smallest h with branching ** h >= size

    def __post_init__(self) -> None:
        height, reach = 0, 1
        while reach < self.size:
            height, reach = height + 1, reach * self.branching
        object.__setattr__(self, "height", height)

    def width(self, level: int) -> int:
        """Indices under a node of a level."""
        return int(self.branching ** (self.height - level))

    def nodes(self, level: int) -> int:
        """Nodes of a level that exist."""
        return -(-self.size // self.width(level))


def descend(tree: Tree, quantile: float, children: Children) -> int:
    """The leaf reached by walking down: at each level to the first child whose estimates sum past the quantile.

    Where nobody reported at a level, the node's own estimate is spread evenly over its children.
    """
    node, before, mass = 0, 0.0, 1.0
    for level in range(1, tree.height + 1):
        first = node * tree.branching
        count = min(tree.branching, tree.nodes(level) - first)
        node = first
        if count == 1:
            continue
        found = children(level, first, count)
        estimates = [max(mass, 0.0) / count] * count if found is None else found
        while node < first + count - 1 and before + estimates[node - first] < quantile:
            before += estimates[node - first]
            node += 1
        mass = estimates[node - first]
    return node


def by_parent(tree: Tree, level: int, values: Floats) -> Floats:
    """A level's values, one row a parent; zeros stand for nodes that do not exist."""
    parents = tree.nodes(level - 1)
    padded = np.zeros(parents * tree.branching)
    padded[: values.size] = values
    return padded.reshape(parents, tree.branching)


def prefixes(tree: Tree, levels: Sequence[Floats]) -> Floats:
    """For each leaf i the estimate of the fraction of users below i, by the nodes left of the path to i."""
    found = np.zeros(1)
    for level, values in enumerate(levels, start=1):
        rows = by_parent(tree, level, values)
        left = np.zeros_like(rows)
        np.cumsum(rows[:, :-1], axis=1, out=left[:, 1:])
        found = (found[:, None] + left).ravel()[: values.size]
    return found


def consistent(tree: Tree, levels: Sequence[Floats], users: Sequence[int]) -> list[Floats]:
    """The least-squares tree: children sum to their parent, the root is 1, each level weighted by its users.

    Hay et al.'s two passes, with variances in place of their constants so that levels may have different numbers of
    users and nodes different numbers of children: upwards each node is merged with the sum of its children by
    inverse variance, downwards what is missing to the parent is shared in proportion to variance.
    """
    # A level nobody reported at knows nothing: a variance so large that it never outweighs another.
    noise = [1.0 / count if count else 1e12 for count in users]
    best, spread = [np.asarray(v, np.float64) for v in levels], [np.full(v.size, s) for v, s in zip(levels, noise)]
    for level in range(tree.height - 1, 0, -1):
        below = by_parent(tree, level + 1, best[level]).sum(axis=1)
        below_spread = by_parent(tree, level + 1, spread[level]).sum(axis=1)
        own, own_spread = best[level - 1], spread[level - 1]
        best[level - 1] = (own * below_spread + below * own_spread) / (own_spread + below_spread)
        spread[level - 1] = own_spread * below_spread / (own_spread + below_spread)
    parent = np.ones(1)
    for level in range(1, tree.height + 1):
        rows, shares = by_parent(tree, level, best[level - 1]), by_parent(tree, level, spread[level - 1])
        missing = parent - rows.sum(axis=1)
        rows += missing[:, None] * (shares / shares.sum(axis=1)[:, None])
        parent = rows.ravel()[: tree.nodes(level)]
        best[level - 1] = parent
    return best


def closest_coin(below: Floats, top: float, quantile: float) -> int:
    """The paper's answer: the coin whose estimated rate is closest to the quantile, the first of equals.

    below[i] is the fraction below index i, so coin i has the rate below[i + 1]; the last coin's is `top`.
    """
    rates = np.append(below[1:], top)
    return int(np.argmin(np.abs(rates - quantile)))


def hadamard_transform(values: Floats) -> Floats:
    """Sum over rows of value times the Hadamard matrix, for a power of two many values."""
    found, step = np.array(values, np.float64), 1
    while step < found.size:
        pairs = found.reshape(-1, 2, step)
        found = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1).ravel()
        step *= 2
    return found

"""Several quantiles of one unary tree too large to build: a node is drawn when a descent first visits it.

Which level each user takes is drawn for all of them, so every level's counts are known at the few nodes that hold
anybody. Given those, the ones of all nodes are independent binomials, and a node nobody looks at need not be
drawn; a node that two descents visit must show both the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from privquant.arrays import Ints
from privquant.lab.engine.tree.whole import level_counts
from privquant.lab.sample import Sample
from privquant.protocols.tree.encodings import bit_law
from privquant.protocols.tree.hierarchical import Hierarchical
from privquant.protocols.tree.nodes import descend


def lazy_trees(template: Hierarchical, sample: Sample, trials: int, rng: np.random.Generator, *, draw: str) -> Ints:
    """The answers' indices, a column a quantile."""
    answers = np.empty((trials, len(template.quantiles)), np.int64)
    for trial in range(trials):
        visited = _Visited(template, level_counts(template, sample, rng, draw), rng)
        for k, quantile in enumerate(template.quantiles):
            answers[trial, k] = descend(template.tree, quantile, visited.children)
    return answers


class _Visited:
    """The nodes of one tree that were looked at."""

    def __init__(
        self, template: Hierarchical, levels: Sequence[tuple[Ints, Ints]], rng: np.random.Generator
    ) -> None:
        self._template, self._levels, self._rng = template, levels, rng
        self._own, self._other = (float(p) for p in bit_law(template.encoding, template.coin.threshold))
        self._users = [int(held.sum()) for _, held in levels]
        self._known: dict[tuple[int, int], list[float]] = {}

    def children(self, level: int, first: int, count: int) -> Sequence[float] | None:
        """Estimates of a node's children: drawn on the first visit, remembered from then on."""
        users = self._users[level - 1]
        if users == 0:
            return None
        if (level, first) not in self._known:
            nodes, held = self._levels[level - 1]
            start, stop = np.searchsorted(nodes, (first, first + count))
            inside = np.zeros(count, np.int64)
            inside[nodes[start:stop] - first] = held[start:stop]
            ones = self._rng.binomial(inside, self._own) + self._rng.binomial(users - inside, self._other)
            self._known[level, first] = self._template.unary_estimates(ones, users).tolist()
        return self._known[level, first]

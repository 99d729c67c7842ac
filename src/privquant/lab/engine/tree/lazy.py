"""Several quantiles of one unary tree too large to build: a node is drawn when a descent first visits it.

Which level each user takes is drawn for all of them, so every level's counts are known at the few nodes that hold
anybody. Given those, the ones of all nodes are independent binomials, and a node nobody looks at need not be
drawn; a node that two descents visit must show both the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from privquant.arrays import Ints
from privquant.lab.engine.tree.whole import level_counts
from privquant.lab.sample import Sample
from privquant.protocols.tree.encodings import bit_law
from privquant.protocols.tree.hierarchical import Hierarchical
from privquant.protocols.tree.nodes import Children, descend


def lazy_trees(template: Hierarchical, sample: Sample, trials: int, rng: np.random.Generator, *, draw: str) -> Ints:
    """The answers' indices, a column a quantile."""
    answers = np.empty((trials, len(template.quantiles)), np.int64)
    for trial in range(trials):
        children = _drawn_when_visited(template, level_counts(template, sample, rng, draw), rng)
        for k, quantile in enumerate(template.quantiles):
            answers[trial, k] = descend(template.tree, quantile, children)
    return answers


def _drawn_when_visited(
    template: Hierarchical, levels: Sequence[tuple[Ints, Ints]], rng: np.random.Generator
) -> Children:
    """The estimates of a node's children in one tree: drawn on the first visit, remembered from then on."""
    own, other = (float(p) for p in bit_law(template.encoding, template.coin.threshold))

    @cache
    def children(level: int, first: int, count: int) -> list[float] | None:
        nodes, held = levels[level - 1]
        users = int(held.sum())
        if users == 0:
            return None
        start, stop = np.searchsorted(nodes, (first, first + count))
        inside = np.zeros(count, np.int64)
        inside[nodes[start:stop] - first] = held[start:stop]
        ones = rng.binomial(inside, own) + rng.binomial(users - inside, other)
        found: list[float] = template.unary_estimates(ones, users).tolist()
        return found

    return children

"""Whole noisy trees, one trial after another: for the paper's argmin, for consistency and for several quantiles.

Given how many of a level's users are in each node, a unary level's counts are independent binomials. Nearly all
nodes are empty and share one law, Bin(users, other), which is drawn by inversion from a table; the few others one
by one. A Hadamard level is drawn user by user and transformed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privquant._numba import HAVE_NUMBA, njit
from privquant.lab.sample import Sample
from privquant.protocols.hierarchical import Hierarchical, answer_from_levels
from privquant.protocols.tree import Tree, consistent, hadamard_transform
from privquant.protocols.tree_encodings import bit_law, rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Outside 12 standard deviations and 30 counts lie less than 1e-30 of a binomial.
_DEVIATIONS, _MARGIN = 12.0, 30
_GUIDE = 1024


def whole_trees(
    template: Hierarchical, sample: Sample, trials: int, rng: np.random.Generator, *, draw: str
) -> Ints:
    """The answers' indices, a column a quantile."""
    tree = template.tree
    answers = np.zeros((trials, len(template.quantiles)), np.int64)
    if tree.height == 0:
        return answers
    law = bit_law(template.encoding, template.coin.threshold)
    own, other = float(law[0]), float(law[1])
    fast = HAVE_NUMBA and template.answer == "argmin" and not template.consistency
    room = np.empty(tree.nodes(tree.height))
    for trial in range(trials):
        levels, users = [], []
        for level, (nodes, held) in enumerate(_levels(template, sample, rng, draw), start=1):
            count = int(held.sum())
            users.append(count)
            if template.encoding == "hadamard":
                levels.append(_hadamard_level(template, level, nodes, held, rng))
                continue
            values = _empty_level(template, tree.nodes(level), count, other, rng, room)
            ones = rng.binomial(held, own) + rng.binomial(count - held, other)
            values[nodes] = template.unary_estimates(ones, max(count, 1))
            levels.append(values)
        if template.consistency:
            levels = consistent(tree, levels, users)
        for k, quantile in enumerate(template.quantiles):
            if fast:
                coin = _closest(np.concatenate(levels), _offsets(tree), tree.branching, quantile)
                answers[trial, k] = min(coin + 1, template.domain.size - 1)
            else:
                answers[trial, k] = answer_from_levels(template, levels, users, quantile)
    return answers


def _levels(template: Hierarchical, sample: Sample, rng: np.random.Generator, draw: str) -> list[tuple[Ints, Ints]]:
    """For each level, the nodes its users are in and how many are in each."""
    tree, held = template.tree, np.diff(sample.cumulative, prepend=0)
    if draw == "statistical":
        held = rng.multinomial(template.users, held / sample.n)
    elif template.users < sample.n:
        held = rng.multivariate_hypergeometric(held, template.users, method="marginals")
    found = []
    for level in range(1, tree.height + 1):
        # A user no earlier level took is on this one with equal chances among those left.
        left = tree.height - level + 1
        here = rng.binomial(held, 1.0 / left) if left > 1 else held
        held = held - here
        some = here > 0
        nodes, counts = sample.values[some] // tree.width(level), here[some]
        if nodes.size:
            starts = np.flatnonzero(np.diff(nodes, prepend=-1))
            nodes, counts = nodes[starts], np.add.reduceat(counts, starts)
        found.append((nodes, counts))
    return found


def _empty_level(
    template: Hierarchical, nodes: int, users: int, other: float, rng: np.random.Generator, room: Floats
) -> Floats:
    """Estimates of a level's nodes as if no user were in any of them."""
    if users == 0:
        return np.zeros(nodes)
    if not HAVE_NUMBA or nodes < 256:
        return template.unary_estimates(rng.binomial(users, other, size=nodes), users)
    first, cdf = binomial_table(users, other)
    estimates = template.unary_estimates(np.arange(first, first + cdf.size), users)
    guide = np.searchsorted(cdf, np.arange(_GUIDE) / _GUIDE, side="right")
    rng.random(out=room[:nodes])
    found = np.empty(nodes)
    _invert(room[:nodes], cdf, guide, estimates, found)
    return found


def binomial_table(n: int, p: float) -> tuple[int, Floats]:
    """(k, cdf): the distribution function of Bin(n, p) from k on, by ratios of neighbours from the mode."""
    deviation = _DEVIATIONS * (n * p * (1.0 - p)) ** 0.5 + _MARGIN
    first, last = max(0, int(n * p - deviation)), min(n, int(n * p + deviation) + 1)
    mode = min(max(int((n + 1) * p), first), last)
    odds = p / (1.0 - p)
    up, down = np.arange(mode, last), np.arange(mode, first, -1)
    above = np.cumprod((n - up) / (up + 1.0) * odds)
    below = np.cumprod(down / (n - down + 1.0) / odds)
    cdf = np.cumsum(np.concatenate((below[::-1], [1.0], above)))
    cdf /= cdf[-1]
    cdf[-1] = 1.0
    return first, cdf


def _hadamard_level(
    template: Hierarchical, level: int, nodes: Ints, held: Ints, rng: np.random.Generator
) -> Floats:
    size, users = rows(template.query, level), int(held.sum())
    if users == 0:
        return np.zeros(template.tree.nodes(level))
    row = rng.integers(0, size, size=users)
    odd = row & np.repeat(nodes, held)
    for shift in (32, 16, 8, 4, 2, 1):
        odd = odd ^ (odd >> shift)
    flipped = rng.random(users) < template.coin.flip
    signs = 1.0 - 2.0 * ((odd & 1) ^ flipped)
    sums = np.bincount(row, weights=signs, minlength=size).astype(np.float64)
    return hadamard_transform(sums)[: template.tree.nodes(level)] / (template.coin.kappa * users)


def _offsets(tree: Tree) -> Ints:
    return np.cumsum([0, *(tree.nodes(level) for level in range(1, tree.height + 1))])


@njit(cache=True)
def _invert(uniforms: Floats, cdf: Floats, guide: Ints, estimates: Floats, found: Floats) -> None:
    for i in range(uniforms.size):
        u = uniforms[i]
        k = guide[int(u * guide.size)]
        while u >= cdf[k]:
            k += 1
        found[i] = estimates[k]


@njit(cache=True)
def _closest(values: Floats, offsets: Ints, branching: int, quantile: float) -> int:
    """`closest_coin` of `prefixes`, without keeping the last level's sums."""
    below = np.zeros(1)
    for level in range(offsets.size - 2):
        nodes = offsets[level + 1] - offsets[level]
        deeper = np.empty(nodes)
        for parent in range(below.size):
            total = below[parent]
            for node in range(parent * branching, min((parent + 1) * branching, nodes)):
                deeper[node] = total
                total += values[offsets[level] + node]
        below = deeper
    start = offsets[offsets.size - 2]
    leaves = offsets[offsets.size - 1] - start
    best, coin = np.inf, leaves - 1
    for parent in range(below.size):
        total = below[parent]
        for leaf in range(parent * branching, min((parent + 1) * branching, leaves)):
            distance = abs(total - quantile)
            if leaf > 0 and distance < best:
                best, coin = distance, leaf - 1
            total += values[start + leaf]
    top = 0.0
    for node in range(offsets[1]):
        top += values[node]
    return int(coin if abs(top - quantile) >= best else leaves - 1)

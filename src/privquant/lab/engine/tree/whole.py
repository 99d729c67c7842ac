"""Whole noisy trees, one trial after another: for the paper's argmin, for consistency and for several quantiles.

Given how many of a level's users are in each node, a unary level's counts are independent binomials. Nearly all
nodes are empty and share one law, Bin(users, other), which is drawn by inversion from a table; the few others one
by one. A Hadamard level is drawn user by user and transformed.
"""

from __future__ import annotations

import numpy as np

from privquant._numba import HAVE_NUMBA, compiled, njit
from privquant.arrays import Floats, Ints
from privquant.lab.sample import Sample
from privquant.protocols.tree.encodings import bit_law, rows
from privquant.protocols.tree.hierarchical import Hierarchical, answer_from_levels, odd_bits
from privquant.protocols.tree.nodes import consistent, hadamard_transform

# Outside 12 standard deviations and 30 counts lie less than 1e-30 of a binomial.
_DEVIATIONS, _MARGIN = 12.0, 30
_GUIDE = 1024


@compiled()
def whole_trees(
    template: Hierarchical, sample: Sample, trials: int, rng: np.random.Generator, *, draw: str
) -> Ints:
    """The answers' indices, a column a quantile."""
    tree = template.tree
    answers = np.zeros((trials, len(template.quantiles)), np.int64)
    if tree.height == 0:
        return answers
    fast = HAVE_NUMBA and template.answer == "argmin" and not template.consistency
    offsets = np.cumsum([0, *(tree.nodes(level) for level in range(1, tree.height + 1))])
    # One piece of memory for all trials: fresh pages would cost as much as the draws.
    values, scratch = np.empty(offsets[-1]), np.empty(tree.nodes(tree.height))
    levels = [values[start:stop] for start, stop in zip(offsets, offsets[1:])]
    for trial in range(trials):
        users = []
        for level, (nodes, held) in enumerate(level_counts(template, sample, rng, draw)):
            users.append(int(held.sum()))
            if users[level] == 0:
                levels[level][:] = 0.0
            elif template.encoding == "hadamard":
                levels[level][:] = _hadamard_level(template, level + 1, nodes, held, rng)
            else:
                _unary_level(template, nodes, held, rng, levels[level], scratch)
        made = consistent(tree, levels, users) if template.consistency else levels
        for k, quantile in enumerate(template.quantiles):
            if fast:
                coin = _closest(values, offsets, tree.branching, quantile, scratch)
                answers[trial, k] = min(coin + 1, template.domain.size - 1)
            else:
                answers[trial, k] = answer_from_levels(template, made, users, quantile)
    return answers


def level_counts(
    template: Hierarchical, sample: Sample, rng: np.random.Generator, draw: str
) -> list[tuple[Ints, Ints]]:
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


def _unary_level(
    template: Hierarchical, nodes: Ints, held: Ints, rng: np.random.Generator, found: Floats, scratch: Floats
) -> None:
    """Fill in a level's estimates: first as if no user were in any node, then the nodes some are in."""
    users = int(held.sum())
    own, other = (float(p) for p in bit_law(template.encoding, template.coin.threshold))
    if found.size >= 256:
        first, cdf = binomial_table(users, other)
        estimates = template.unary_estimates(np.arange(first, first + cdf.size), users)
        uniforms = scratch[: found.size]
        rng.random(out=uniforms)
        if HAVE_NUMBA:
            guide = np.searchsorted(cdf, np.arange(_GUIDE) / _GUIDE, side="right")
            _invert(uniforms, cdf, guide, estimates, found)
        else:  # the same places, found more slowly
            found[:] = estimates[np.searchsorted(cdf, uniforms, side="right")]
    else:
        found[:] = template.unary_estimates(rng.binomial(users, other, size=found.size), users)
    ones = rng.binomial(held, own) + rng.binomial(users - held, other)
    found[nodes] = template.unary_estimates(ones, users)


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
    row = rng.integers(0, size, size=users)
    odd = odd_bits(row & np.repeat(nodes, held))
    flipped = rng.random(users) < template.coin.flip
    signs = 1.0 - 2.0 * (odd ^ flipped)
    sums = np.bincount(row, weights=signs, minlength=size).astype(np.float64)
    return hadamard_transform(sums)[: template.tree.nodes(level)] / (template.coin.kappa * users)


@njit(cache=True)
def _invert(uniforms: Floats, cdf: Floats, guide: Ints, estimates: Floats, found: Floats) -> None:
    for i in range(uniforms.size):
        u = uniforms[i]
        k = guide[int(u * guide.size)]
        while u >= cdf[k]:
            k += 1
        found[i] = estimates[k]


@njit(cache=True)
def _closest(values: Floats, offsets: Ints, branching: int, quantile: float, below: Floats) -> int:
    """`closest_coin` of `prefixes`, without keeping the last level's sums; `below` is scratch."""
    parents = 1
    below[0] = 0.0
    for level in range(offsets.size - 2):
        nodes = offsets[level + 1] - offsets[level]
        # From the right, so that a parent's sum is read before its children's are written over it.
        for parent in range(parents - 1, -1, -1):
            total = below[parent]
            for node in range(parent * branching, min((parent + 1) * branching, nodes)):
                below[node] = total
                total += values[offsets[level] + node]
        parents = nodes
    start = offsets[offsets.size - 2]
    leaves = offsets[offsets.size - 1] - start
    best, coin = np.inf, leaves - 1
    for parent in range(parents):
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

"""Descents of the noisy tree without building it, all trials at once: O(branching * height) draws a trial.

A level's users are a uniform subset of those no earlier level took, so how many of them fall into each child of the
node a trial stands at is hypergeometric, given how many of the node's users are taken. Which of those taken lie in
which child is hypergeometric too. Given these counts:

    unary      a child's ones are Bin(inside, own) + Bin(others, other), independently for each child
    hadamard   for children whose numbers differ in their last bits only, a user's row acts through those bits:
               it is a uniform one of `branching` small rows. Users outside the children send a fair sign there,
               users inside child k the small matrix's sign at k through the coin; the estimates are that matrix
               times the sums.
"""

from __future__ import annotations

import numpy as np

from privquant.arrays import Floats, Ints
from privquant.lab.sample import Sample
from privquant.protocols.tree.encodings import bit_law
from privquant.protocols.tree.hierarchical import Hierarchical
from privquant.protocols.tree.nodes import hadamard_transform


def descents(template: Hierarchical, sample: Sample, trials: int, rng: np.random.Generator, *, draw: str) -> Ints:
    """The answers' indices for the template's one quantile."""
    tree, last = template.tree, template.domain.size - 1
    low = np.zeros(trials, np.int64)
    before, mass = np.zeros(trials), np.ones(trials)
    if tree.height == 0:
        return low
    share = np.full(tree.height, 1.0 / tree.height)
    level_users = rng.multinomial(template.users, share, size=trials).astype(np.int64)
    population = _Taken(sample, trials, rng) if draw == "empirical" else _Redrawn(sample, rng)
    estimate = _hadamard if template.encoding == "hadamard" else _unary
    for level in range(1, tree.height + 1):
        width, users = tree.width(level), level_users[:, level - 1]
        room = last - low
        exist = np.minimum(tree.branching, room // width + 1)
        edges = np.stack([_below(sample, low, room, k * width) for k in range(tree.branching + 1)])
        inside = population.fall(edges, users)
        found = estimate(template, inside, users, rng)
        found = np.where(users > 0, found, np.maximum(mass, 0.0) / exist)
        child, going = np.zeros(trials, np.int64), np.ones(trials, np.bool_)
        for k in range(tree.branching - 1):
            going &= (k < exist - 1) & (before + found[k] < template.quantile)
            before = np.where(going, before + found[k], before)
            child += going
        mass = np.where(exist == 1, mass, found[child, np.arange(trials)])
        low = low + child * width
        population.enter(child)
    return low


def _below(sample: Sample, low: Ints, room: Ints, step: int) -> Ints:
    """Users below low + step, where the sum may pass the domain's end (and 64 bits)."""
    if step == 0:
        return sample.at_most(low - 1)
    inside = room >= step if step < 2**63 else np.zeros(low.size, np.bool_)
    shift = np.where(inside, min(step, 2**63 - 1) - 1, room)
    return sample.at_most(low + shift)


class _Taken:
    """Users without replacement, as counts: those of the current node and of everybody."""

    def __init__(self, sample: Sample, trials: int, rng: np.random.Generator) -> None:
        self._draw = rng.hypergeometric
        self._free = np.full(trials, sample.n, np.int64)
        self._taken = np.zeros(trials, np.int64)  # of the current node's users
        self._children = np.zeros((0, trials), np.int64)

    def enter(self, child: Ints) -> None:
        """Step from each trial's node into the chosen child."""
        self._taken = self._children[child, np.arange(child.size)]

    def fall(self, edges: Ints, users: Ints) -> Ints:
        """How many of a level's users fall into each child of the node; they are taken from now on."""
        held = np.diff(edges, axis=0)
        taken = self._dealt(held, edges[-1] - edges[0], self._taken)
        found = self._dealt(held - taken, self._free, users)
        self._children = taken + found
        self._free = self._free - users
        return found

    def _dealt(self, cells: Ints, pool: Ints, wanted: Ints) -> Ints:
        """How many of those wanted from a pool are of each of these cells of it."""
        found = np.empty_like(cells)
        for k in range(cells.shape[0]):
            pool = pool - cells[k]
            found[k] = self._draw(cells[k], pool, wanted)
            wanted = wanted - found[k]
        return found


class _Redrawn:
    """Users drawn from the sample taken as a distribution."""

    def __init__(self, sample: Sample, rng: np.random.Generator) -> None:
        self._n, self._rng = sample.n, rng

    def enter(self, child: Ints) -> None:
        pass

    def fall(self, edges: Ints, users: Ints) -> Ints:
        held = np.diff(edges, axis=0)
        found, wanted, pool = np.empty_like(held), users, np.full(users.size, self._n, np.int64)
        for k in range(held.shape[0]):
            found[k] = self._rng.binomial(wanted, held[k] / np.maximum(pool, 1))
            wanted, pool = wanted - found[k], pool - held[k]
        return found


def _unary(template: Hierarchical, inside: Ints, users: Ints, rng: np.random.Generator) -> Floats:
    own, other = (float(p) for p in bit_law(template.encoding, template.coin.threshold))
    ones = rng.binomial(inside, own) + rng.binomial(users - inside, other)
    return np.asarray((ones - users * other) / ((own - other) * np.maximum(users, 1)))


def _hadamard(template: Hierarchical, inside: Ints, users: Ints, rng: np.random.Generator) -> Floats:
    branching = inside.shape[0]
    uniform = np.full(branching, 1.0 / branching)
    outside = rng.multinomial(users - inside.sum(axis=0), uniform)  # [trials, rows]
    sums = 2 * rng.binomial(outside, 0.5) - outside
    matrix = np.stack([hadamard_transform(row) for row in np.eye(branching)])
    for k in range(branching):
        rows = rng.multinomial(inside[k], uniform)
        sums += matrix[k].astype(np.int64) * (rows - 2 * rng.binomial(rows, template.coin.flip))
    return np.asarray((matrix @ sums.T) / (template.coin.kappa * np.maximum(users, 1)))

"""The hierarchical mechanism by counts; exact in distribution.

A descent for one quantile needs only the children of visited nodes (any domain, cost independent of n). The argmin,
consistency and several quantiles from the same reports need the whole tree, or, where that is too large, the nodes
their descents meet.

A level's users are a uniform subset of those no earlier level took, so how many of them fall into each child of the
node a trial stands at is hypergeometric, given how many of the node's users are taken. Which of those taken lie in
which child is hypergeometric too. Given these counts:

    unary      a child's ones are Bin(inside, own) + Bin(others, other), independently for each child
    hadamard   for children whose numbers differ in their last bits only, a user's row acts through those bits:
               it is a uniform one of `branching` small rows. Users outside the children send a fair sign there,
               users inside child k the small matrix's sign at k through the coin; the estimates are that matrix
               times the sums.

In a whole tree nearly all nodes of a unary level are empty and share one law, Bin(users, other), which is drawn by
inversion from a table; the few others one by one. A Hadamard level is drawn user by user and transformed.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from privquant._numba import HAVE_NUMBA, compiled, njit
from privquant.arrays import Floats, Ints
from privquant.lab.engine import USUAL, Setting, simulate_by_asking
from privquant.lab.engine.naive import MOST_USERS
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.protocols.base import Protocol
from privquant.protocols.tree.encodings import bit_law, rows
from privquant.protocols.tree.hierarchical import MOST_LEAVES, Hierarchical, answer_from_levels, odd_bits
from privquant.protocols.tree.nodes import Children, consistent, descend, hadamard_transform

# Outside 12 standard deviations and 30 counts lie less than 1e-30 of a binomial.
_DEVIATIONS, _MARGIN = 12.0, 30
_GUIDE = 1024


def _by_descent(template: Hierarchical) -> bool:
    coset = template.tree.branching & (template.tree.branching - 1) == 0
    return (
        not template.whole
        and len(template.quantiles) == 1
        # The children's Hadamard columns have one joint law for all users outside them only where their numbers
        # differ in their last bits alone.
        and (template.encoding != "hadamard" or coset)
    )


def supports(template: Protocol, schedule: Schedule = SUGGESTED) -> bool:
    # Nobody's question depends on another's answer: any schedule will do.
    if not isinstance(template, Hierarchical) or template.users > MOST_USERS:
        return False
    # Hadamard reports of a huge tree are drawn user by user, which is what asking does.
    return _by_descent(template) or template.domain.size <= MOST_LEAVES or template.encoding != "hadamard"


def simulate(
    template: Protocol, sample: Sample, trials: int, rng: np.random.Generator, setting: Setting = USUAL
) -> Ints:
    """The answers' indices of `trials` runs, one row a trial and a column a quantile."""
    assert isinstance(template, Hierarchical)
    draw = setting.draw
    if draw == "empirical" and sample.n > MOST_USERS:
        return simulate_by_asking(template, sample, trials, rng, Setting(draw))
    if _by_descent(template):
        return descents(template, sample, trials, rng, draw=draw).reshape(trials, 1)
    several = whole_trees if template.domain.size <= MOST_LEAVES else lazy_trees
    return several(template, sample, trials, rng, draw=draw)


def descents(template: Hierarchical, sample: Sample, trials: int, rng: np.random.Generator, *, draw: str) -> Ints:
    """The answers' indices for the template's one quantile."""
    tree, last = template.tree, template.domain.size - 1
    low = np.zeros(trials, np.int64)
    before, mass = np.zeros(trials), np.ones(trials)
    if tree.height == 0:
        return low
    share = np.full(tree.height, 1.0 / tree.height)
    level_users = rng.multinomial(template.users, share, size=trials).astype(np.int64)
    population = _Counted(sample, trials, rng, draw)
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


class _Counted:
    """Users as counts: those of each trial's node and of everybody. Nobody is taken twice, unless the sample is
    a distribution that they are drawn from."""

    def __init__(self, sample: Sample, trials: int, rng: np.random.Generator, draw: str) -> None:
        self._rng, self._statistical = rng, draw == "statistical"
        self._free = np.full(trials, sample.n, np.int64)
        self._taken = np.zeros(trials, np.int64)  # of the current node's users
        self._children = np.zeros((0, trials), np.int64)

    def enter(self, child: Ints) -> None:
        """Step from each trial's node into the chosen child."""
        self._taken = self._children[child, np.arange(child.size)]

    def fall(self, edges: Ints, users: Ints) -> Ints:
        """How many of a level's users fall into each child of the node; they are taken from now on."""
        held = np.diff(edges, axis=0)
        if self._statistical:
            self._children = self._dealt(held, self._free, users)
            return self._children
        taken = self._dealt(held, edges[-1] - edges[0], self._taken)
        found = self._dealt(held - taken, self._free, users)
        self._children = taken + found
        self._free = self._free - users
        return found

    def _dealt(self, cells: Ints, pool: Ints, wanted: Ints) -> Ints:
        """How many of those wanted from a pool are of each of these cells of it."""
        found = np.empty_like(cells)
        for k in range(cells.shape[0]):
            rest = pool - cells[k]
            if self._statistical:
                found[k] = self._rng.binomial(wanted, cells[k] / np.maximum(pool, 1))
            else:
                found[k] = self._rng.hypergeometric(cells[k], rest, wanted)
            wanted, pool = wanted - found[k], rest
        return found


def _ones(template: Hierarchical, inside: Ints, users: Ints | int, rng: np.random.Generator) -> Ints:
    """How many of a level's users report a one for each node, so many of them inside it."""
    own, other = (float(p) for p in bit_law(template.encoding, template.coin.threshold))
    return np.asarray(rng.binomial(inside, own) + rng.binomial(users - inside, other))


def _unary(template: Hierarchical, inside: Ints, users: Ints, rng: np.random.Generator) -> Floats:
    own, other = (float(p) for p in bit_law(template.encoding, template.coin.threshold))
    ones = _ones(template, inside, users, rng)
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
    other = float(bit_law(template.encoding, template.coin.threshold)[1])
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
    found[nodes] = template.unary_estimates(_ones(template, held, users, rng), users)


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


def lazy_trees(template: Hierarchical, sample: Sample, trials: int, rng: np.random.Generator, *, draw: str) -> Ints:
    """The answers' indices, a column a quantile, of unary trees too large to build.

    Which level each user takes is drawn for all of them, so every level's counts are known at the few nodes that
    hold anybody. Given those, the ones of all nodes are independent binomials, and a node nobody looks at need not
    be drawn; a node that two descents visit must show both the same.
    """
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

    @cache
    def children(level: int, first: int, count: int) -> list[float] | None:
        nodes, held = levels[level - 1]
        users = int(held.sum())
        if users == 0:
            return None
        start, stop = np.searchsorted(nodes, (first, first + count))
        inside = np.zeros(count, np.int64)
        inside[nodes[start:stop] - first] = held[start:stop]
        found: list[float] = template.unary_estimates(_ones(template, inside, users, rng), users).tolist()
        return found

    return children

"""The naive search by counts, all trials at once; exact in distribution and O(log B) a trial, whatever n.

The number of ones in a batch drawn without replacement is hypergeometric, given how many users left of, inside and
right of the bracket have been asked; who of the bracket's asked users lie left of a new threshold is hypergeometric
too, because which of them were asked is uniform. After the coin, h true ones of m give Bin(h, 1-f) + Bin(m-h, f).
"""

import numpy as np

from privquant.arrays import Flags, Ints
from privquant.lab.engine import USUAL, Setting, simulate_by_asking
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.protocols.base import Protocol
from privquant.protocols.naive.search import NaiveSearch

# numpy's hypergeometric refuses arguments of 10^9 and more.
MOST_USERS = 10**9 - 1


def supports(template: Protocol, schedule: Schedule = SUGGESTED) -> bool:
    # A search in rounds of its own answers the same however its rounds are cut up: any schedule will do.
    # The three cells a batch is drawn from sum to the sample; the engine checks its size, known only there.
    return isinstance(template, NaiveSearch) and template.users <= MOST_USERS


class _Counted:
    """Users as counts: left of, inside and right of each trial's bracket. Nobody is asked twice, unless the sample
    is a distribution that they are drawn from."""

    def __init__(self, flip: float, sample: Sample, trials: int, rng: np.random.Generator, draw: str) -> None:
        self._sample, self._rng, self._statistical = sample, rng, draw == "statistical"
        self._flip = flip
        self._below = np.zeros(trials, np.int64)  # users at or below the bracket's left edge
        self._upto = np.full(trials, sample.n, np.int64)  # users at or below its right edge
        self._left, self._inside, self._right = (np.zeros(trials, np.int64) for _ in range(3))  # asked

    def reported(self, threshold: Ints, batch: int) -> Ints:
        """The ones among the reports of a fresh batch."""
        true = self._ones(threshold, batch)
        flipped = self._rng.binomial(true, 1.0 - self._flip) + self._rng.binomial(batch - true, self._flip)
        return np.asarray(flipped, np.int64)

    def _ones(self, threshold: Ints, batch: int) -> Ints:
        """How many of a fresh batch lie at or below the threshold, which is in the bracket or at its edge."""
        draw, n = self._rng.hypergeometric, self._sample.n
        if self._statistical:
            return np.asarray(self._rng.binomial(batch, self._sample.at_most(threshold) / n), np.int64)
        self._cut = np.clip(self._sample.at_most(threshold), self._below, self._upto)
        near, far = self._cut - self._below, self._upto - self._cut
        self._near_asked = draw(near, far, self._inside)
        self._far_asked = self._inside - self._near_asked
        left_free, near_free = self._below - self._left, near - self._near_asked
        far_free, right_free = far - self._far_asked, n - self._upto - self._right
        ones: Ints = draw(left_free + near_free, far_free + right_free, batch)
        to_left, to_right = draw(left_free, near_free, ones), draw(right_free, far_free, batch - ones)
        self._left += to_left
        self._near_asked += ones - to_left
        self._right += to_right
        self._far_asked += batch - ones - to_right
        return ones

    def keep(self, leftwards: Flags) -> None:
        """Narrow each bracket to one side of the threshold asked last."""
        if self._statistical:
            return
        self._left += np.where(leftwards, 0, self._near_asked)
        self._right += np.where(leftwards, self._far_asked, 0)
        self._inside = np.where(leftwards, self._near_asked, self._far_asked)
        self._below = np.where(leftwards, self._below, self._cut)
        self._upto = np.where(leftwards, self._cut, self._upto)


def simulate(
    template: Protocol, sample: Sample, trials: int, rng: np.random.Generator, setting: Setting = USUAL
) -> Ints:
    """The answers' indices of `trials` runs, one row a trial."""
    assert isinstance(template, NaiveSearch)
    draw = setting.draw
    if draw == "empirical" and sample.n > MOST_USERS:
        return simulate_by_asking(template, sample, trials, rng, Setting(draw))
    search = _text if template.behaviour == "text" else _published
    return search(template, trials, _Counted(template.coin.flip, sample, trials, rng, draw)).reshape(trials, 1)


def _text(template: NaiveSearch, trials: int, users: _Counted) -> Ints:
    low, high = np.zeros(trials, np.int64), np.full(trials, template.domain.size - 1, np.int64)
    asked, answered, ones = low.copy(), low.copy(), low.copy()
    for batch in filter(None, template.sizes):
        closed = low == high
        asked = np.where(closed, asked, low + (high - low) // 2)
        heads = users.reported(asked, batch)
        # A bracket that closed a round early asks its last question again, and both batches decide together.
        answered = np.where(closed, answered, 0) + batch
        ones = np.where(closed, ones, 0) + heads
        left = ones >= answered * template.target
        users.keep(left)
        low = np.where(left, np.where(closed, asked, low), asked + 1)
        high = np.where(left, asked, np.where(closed, asked + 1, high))
    return np.asarray(low + (high - low) // 2)


def _published(template: NaiveSearch, trials: int, users: _Counted) -> Ints:
    top = template.domain.size - 1
    low, high = np.zeros(trials, np.int64), np.full(trials, top, np.int64)
    for batch in filter(None, template.sizes):
        middle = low + (high - low) // 2
        going = low <= high
        # The authors' program throws on at a trial whose bracket is empty, and ignores what it hears.
        left = users.reported(np.clip(middle, 0, max(top - 1, 0)), batch) > batch * template.target
        users.keep(left)
        high = np.where(going & left, middle - 1, high)
        low = np.where(going & ~left, middle + 1, low)
    coin = low + (high - low) // 2
    return np.where(coin < 0, top, np.minimum(coin, top - 1) + 1)

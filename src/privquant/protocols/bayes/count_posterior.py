"""BayesLearn's posterior in the two-region form, from a table of counts alone.

A report to threshold t multiplies every cell up to t by d_{y,0} and every cell beyond it by d_{y,1}. The
posterior is then a function of (zeros, ones) for each threshold: reports may come in any order, or as counts,
and the numbers read from the table are the same to the last bit. Reading costs O(thresholds met); between two
reads any number of reports may be told.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privquant.arrays import Floats, Ints
from privquant.protocols.bayes.channel import Channel


class Point(NamedTuple):
    """A cell and the masses on either side of it, in a common unit."""

    cell: int
    left: float
    right: float


class CountPosterior:
    """Counts per threshold over the cells 0 .. cells-1; uniform before any."""

    def __init__(self, cells: int, channel: Channel) -> None:
        self.cells = cells
        self._channel = channel
        self._thresholds: Ints = np.empty(0, np.int64)
        self._counts: Ints = np.empty((0, 2), np.int64)  # zeros, ones
        self._pieces: tuple[NDArray[np.uint64], Floats, Floats, Floats] | None = None

    def add(self, threshold: int, zeros: int, ones: int) -> None:
        """Reports to one threshold; -1 stands for one below every cell."""
        at = int(np.searchsorted(self._thresholds, threshold))
        if at == self._thresholds.size or int(self._thresholds[at]) != threshold:
            self._thresholds = np.insert(self._thresholds, at, threshold)
            self._counts = np.insert(self._counts, at, 0, axis=0)
        self._counts[at] += (zeros, ones)
        self._pieces = None

    def at(self, share: float) -> Point:
        """The first cell at which `share` of the mass is reached."""
        edges, masses, before, beyond = self._read()
        target = share * float(before[-1] + masses[-1])
        k = min(int(np.searchsorted(before + masses, target)), masses.size - 1)
        while masses[k] == 0.0 and k > 0:
            k -= 1  # a piece whose mass is below the smallest float holds no point
        start = int(edges[k])
        units = int(edges[k + 1]) - start
        unit = float(masses[k]) / units
        offset = min(max(math.ceil((target - float(before[k])) / unit) - 1, 0), units - 1)
        return Point(
            start + offset,
            float(before[k]) + unit * offset,
            float(beyond[k]) + unit * (units - 1 - offset),
        )

    def _read(self) -> tuple[NDArray[np.uint64], Floats, Floats, Floats]:
        """Edges (first cells, and the end of the last), masses, and the mass before and beyond each piece."""
        if self._pieces is None:
            inner = (self._thresholds >= 0) & (self._thresholds < self.cells - 1)
            thresholds, counts = self._thresholds[inner], self._counts[inner]
            left = counts @ np.log(self._channel.left)
            right = counts @ np.log(self._channel.right)
            # Left of a threshold: its `left`; right of it: its `right`. Logarithms, so that nothing underflows.
            density = np.zeros(thresholds.size + 1)
            density[:-1] = np.cumsum(left[::-1])[::-1]
            density[1:] += np.cumsum(right)
            # Unsigned, because the end of 2^63 cells does not fit a signed integer.
            edges = np.zeros(thresholds.size + 2, np.uint64)
            edges[1:-1] = thresholds.astype(np.uint64) + np.uint64(1)
            edges[-1] = self.cells
            logs = density + np.log(np.diff(edges).astype(np.float64))
            masses = np.exp(logs - logs.max())
            before, beyond = np.zeros_like(masses), np.zeros_like(masses)
            np.cumsum(masses[:-1], out=before[1:])
            beyond[:-1] = np.cumsum(masses[:0:-1])[::-1]
            self._pieces = edges, masses, before, beyond
        return self._pieces

    def to_dict(self) -> dict[str, Any]:
        return {"thresholds": self._thresholds.tolist(), "counts": self._counts.tolist()}

    def restore(self, form: Mapping[str, Any]) -> None:
        self._thresholds = np.array(form["thresholds"], np.int64)
        self._counts = np.array(form["counts"], np.int64).reshape(-1, 2)
        self._pieces = None

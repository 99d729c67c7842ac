"""What our protocols need, as measured: reads the calibration table and interpolates in it.

The table (`calibration.json`, made by `privquant calibrate`) holds, for every protocol and trust model, the rank
error that a share `confidence` of simulated runs stayed within, on a grid of domain sizes, quantiles, epsilons
and users: on the middle one of five shapes of data ("typical") and on the worst of them ("hardest").

Between grid points the logarithm of the error is linear in log2 B, logit q, log epsilon, log users and in the
normal deviate of the confidence. Beyond the largest crowd the error falls as 1/sqrt(users), below the smallest
epsilon it grows as 1/epsilon, and below the smallest confidence it falls with the deviate; everywhere else
outside, the nearest grid point stands. No error exceeds max(q, 1-q), which is what an answer at an end of the
data costs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import NormalDist
from typing import Any

from privquant.errors import InvalidInput

_TINY = 1e-9  # an error that no simulated run exceeded


@dataclass(frozen=True)
class Calibration:
    """The table of one protocol in one trust model: error[kind][size][quantile][epsilon][users][confidence]."""

    sizes: tuple[float, ...]  # log2 of the domain's size
    quantiles: tuple[float, ...]
    epsilons: tuple[float, ...]
    users: tuple[float, ...]
    confidences: tuple[float, ...]
    errors: dict[str, Any]

    def error(
        self, *, users: float, epsilon: float, confidence: float, size: int, quantile: float, kind: str = "typical"
    ) -> float:
        """The rank error that a share `confidence` of runs stays within."""
        worst = max(quantile, 1 - quantile)
        deviates = [_deviate(c) for c in self.confidences]
        axes = (
            _place([float(s) for s in self.sizes], math.log2(size)),
            _place([_logit(q) for q in self.quantiles], _logit(worst)),
            _place([math.log(e) for e in self.epsilons], math.log(epsilon)),
            _place([math.log(n) for n in self.users], math.log(users)),
            _place(deviates, _deviate(confidence), beyond=True),
        )
        log_error = _blend(self.errors[kind], axes)
        log_error -= 0.5 * max(0.0, math.log(users / self.users[-1]))
        log_error += max(0.0, math.log(self.epsilons[0] / epsilon))
        log_error += min(0.0, math.log(_deviate(confidence) / deviates[0]))
        return min(math.exp(log_error), worst)


def _deviate(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _logit(probability: float) -> float:
    probability = min(probability, 1 - 1e-12)  # 1 - q is 1 for the tiniest quantiles
    return math.log(probability / (1 - probability))


def _place(grid: Sequence[float], at: float, *, beyond: bool = False) -> tuple[int, float]:
    """The grid cell `at` falls in, and how far into it (outside: the end, unless `beyond` is allowed)."""
    if len(grid) == 1:
        return 0, 0.0
    cell = 0
    while cell < len(grid) - 2 and at > grid[cell + 1]:
        cell += 1
    share = (at - grid[cell]) / (grid[cell + 1] - grid[cell])
    return cell, max(share, 0.0) if beyond else min(max(share, 0.0), 1.0)


def _blend(table: Any, axes: Sequence[tuple[int, float]]) -> float:
    """Multilinear interpolation of log errors."""
    if not axes:
        return math.log(max(float(table), _TINY))
    (cell, share), rest = axes[0], axes[1:]
    low = _blend(table[cell], rest)
    return low if share == 0.0 else low + share * (_blend(table[cell + 1], rest) - low)


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        resources.files("privquant.planning").joinpath("calibration.json").read_text()
    )
    return found


def calibrated() -> tuple[str, ...]:
    """The names in the table: "protocol/local" or "protocol/shuffle[-method]"."""
    return tuple(_document()["errors"])


@cache
def calibration(name: str) -> Calibration:
    """One protocol's table, made monotone: more users, a larger epsilon, less confidence never hurt."""
    document = _document()
    if name not in document["errors"]:
        raise InvalidInput(f"nothing was measured for {name!r}; there is {', '.join(document['errors'])}")
    entry = document["errors"][name]
    errors = {
        kind: [[_monotone(block) for block in by_q] for by_q in entry["table"][kind]] for kind in entry["table"]
    }
    return Calibration(
        sizes=tuple(document["log2_sizes"]),
        quantiles=tuple(document["quantiles"]),
        epsilons=tuple(document["epsilons"]),
        users=tuple(entry["users"]),
        confidences=tuple(document["confidences"]),
        errors=errors,
    )


def _monotone(block: list[list[list[float]]]) -> list[list[list[float]]]:
    """Simulation noise may order two neighbours wrongly; take the better of all that are easier to reach."""
    fixed = [[[float(v) for v in cell] for cell in row] for row in block]
    for e, row in enumerate(fixed):
        for n, cell in enumerate(row):
            for c in range(len(cell)):
                if n:
                    cell[c] = min(cell[c], row[n - 1][c])
                if e:
                    cell[c] = min(cell[c], fixed[e - 1][n][c])
    for row in fixed:
        for cell in row:
            for c in range(1, len(cell)):
                cell[c] = max(cell[c], cell[c - 1])
    return fixed

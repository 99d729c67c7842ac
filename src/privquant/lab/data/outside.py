"""Values outside the domain: on which side they are, what the data really say, and when to warn.

A value outside is counted as the nearest end, as a device would count it. That is harmless while the quantile lies
inside; an answer AT an end to which values were moved says only "this far out, or further". The truth that stands
beside an estimate is the data's own, before anything was moved.
"""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant.columns import Column, to_indices
from privquant.domain import Domain
from privquant.lab.sample import Sample, rank_distance
from privquant.messages import Estimate


def warning(estimate: Estimate, column: Column, domain: Domain) -> str | None:
    """What to say of an answer at an end to which values were moved; None where there is nothing to say."""
    if estimate.index == domain.size - 1 and column.above:
        end, count, where = "highest", column.above, "above"
    elif estimate.index == 0 and column.below:
        end, count, where = "lowest", column.below, "below"
    else:
        return None
    return (
        f"the answer {estimate.value} at quantile {estimate.quantile:g} is the {end} value of the domain, and "
        f"{count:,} of {column.indices.size:,} values lie {where} it and were clamped: the true quantile may be "
        "anything further out; give a wider domain"
    )


@dataclass(frozen=True)
class Truth:
    """The quantiles of the data as they are, and how far an answer is from them in rank."""

    sample: Sample
    column: Column
    sorted: NDArray[Any]

    @classmethod
    def of(cls, values: Any, domain: Domain, *, missing: str = "refuse", fractions: str = "refuse") -> Truth:
        """Of a column of numbers; the values themselves are looked at only where some are outside."""
        column = to_indices(values, domain, missing=missing, fractions=fractions)
        return cls(Sample(column.indices, domain.size), column, _sorted(values) if column.clamped else np.empty(0))

    def quantile(self, q: float, domain: Domain) -> int | float:
        """The smallest value v with F(v) >= q; for a bin its upper edge."""
        place = max(0, math.ceil(q * self.sample.n - 1e-9) - 1)
        if self.column.below <= place < self.sample.n - self.column.above:
            return domain.value(self.sample.quantile(q))
        value = float(self.sorted[place])
        return round(self.sorted[place]) if math.isfinite(value) else value

    def rank_error(self, index: int, q: float) -> float:
        """Distance of q to [F(v-1), F(v)] for the answer at this index."""
        below, upto = int(self.sample.at_most(index - 1)), int(self.sample.at_most(index))
        if index == 0:
            below = self.column.below
        if index == self.sample.size - 1:
            upto = self.sample.n - self.column.above
        return float(rank_distance(np.int64(below), np.int64(upto), self.sample.n, q))  # type: ignore[arg-type]


def warned(estimate: Estimate, column: Column, domain: Domain) -> Estimate:
    """The estimate, with a warning where it is an end of the domain to which values were moved."""
    said = warning(estimate, column, domain)
    if said is None:
        return estimate
    warnings.warn(said, UserWarning, stacklevel=_outside_of_the_package())
    return replace(estimate, notes=(said, *estimate.notes))


def _outside_of_the_package() -> int:
    """The stack level of who called into the package, so that a warning shows the caller's own line."""
    ours = str(Path(__file__).parents[2])
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
        level, frame = level + 1, frame.f_back
    return level


def _sorted(values: Any) -> NDArray[Any]:
    listing = next((name for name in ("to_pylist", "tolist", "to_list") if hasattr(values, name)), None)
    listed = list(values) if listing is None else getattr(values, listing)()
    return np.array(sorted(v for v in listed if v is not None and v == v), dtype=object)

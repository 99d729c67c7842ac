"""Pilots by name, for the planner: a file of values, or a shape of the lab."""

from __future__ import annotations

from os import PathLike, fspath

import numpy as np

from privquant.arrays import Ints
from privquant.columns import to_indices
from privquant.domain import Domain
from privquant.errors import InvalidInput
from privquant.lab.data.files import read_column
from privquant.lab.shapes import SHAPES, shape

_DRAWN = 100_000
_FILES = (".csv", ".tsv", ".parquet", ".pq")


def indices_of(given: str | PathLike[str], domain: Domain) -> Ints:
    """The indices of a pilot: "times.csv", "times.csv:ms" for a column of it, or a shape such as "lognormal".

    A shape is drawn over the whole domain, always the same.
    """
    text = fspath(given)
    if text in SHAPES:
        return shape(text, _DRAWN, domain.size, np.random.default_rng(1))
    path, _, column = text.rpartition(":") if not text.lower().endswith(_FILES) else (text, "", "")
    if not path.lower().endswith(_FILES):
        raise InvalidInput(
            f"a pilot is a column of values, a file ({', '.join(_FILES)}; FILE:COLUMN for one of several) or a "
            f"shape ({', '.join(SHAPES)}), got {text!r}"
        )
    values = read_column(path, column or None)
    return to_indices(values, domain, outside="clamp", missing="drop", fractions="round").indices

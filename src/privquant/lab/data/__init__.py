"""Data sets for simulations: the paper's recipes bit for bit, the hard shapes, and a column of one's own.

    dataset("pareto", n=2500, size=4**9)           a recipe or a shape by name, as a DataSet
    from_values(values, domain)                    the caller's own column as a DataSet
    parse("pareto:n=2500:B=4^9")                   the same from one line of text (the command line)
    parse("pay.csv:column=salary:low=0:high=500000")

The recipes draw from numpy's legacy generator seeded with 42, as the authors' program did with the global one:
the same values on every platform and every numpy, and no global state is touched.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from privquant.arrays import Ints
from privquant.columns import to_indices
from privquant.domain import MAX_SIZE, Domain, Integers, given_domain
from privquant.errors import InvalidInput
from privquant.lab.data.files import ENDINGS, read_column
from privquant.lab.sample import Draw, Sample
from privquant.lab.shapes import SHAPES, shape
from privquant.validation import check_count

__all__ = ["DataSet", "dataset", "dataset_names", "from_values", "pareto", "parse", "uniform_interval"]

PAPER_SEED = 42


def pareto(n: int, size: int, *, seed: int = PAPER_SEED) -> Ints:
    """The paper's Pareto data: `np.clip(np.round(pareto(1.5, n) * 2000).astype(int), 0, B - 1)`.

    The authors' files are n = 2500, 5000, 7500, 10^7 with B = 4^8, 4^9 and seed 42.
    """
    n, size = check_count(n, "n"), check_count(size, "size", 1)
    drawn = np.random.RandomState(seed).pareto(1.5, n) * 2000
    # Clipped before the cast, unlike the recipe, so that a far tail in a huge domain cannot overflow; below
    # 2^53 (all of the paper) the order makes no difference.
    below = np.minimum(np.round(drawn), float(min(size - 1, 2**62)))
    return np.asarray(np.clip(below.astype(np.int64), 0, size - 1))


def uniform_interval(n: int, size: int, *, seed: int = PAPER_SEED) -> Ints:
    """The paper's uniform data: n draws from left .. right, left in the lower half of the domain and right
    in the upper half. The authors' files are n = 2500 with B = 100, 10^3 .. 10^6 and seed 42.
    """
    n, size = check_count(n, "n"), check_count(size, "size", 1)
    if size < 2:
        return np.zeros(n, np.int64)
    legacy = np.random.RandomState(seed)
    # `choice(range(a, b))` of the recipe draws one `randint(0, b - a)`; written out, no range is ever built.
    left = int(legacy.randint(0, size // 2, dtype=np.int64))
    right = size // 2 + int(legacy.randint(0, size - size // 2, dtype=np.int64))
    return np.asarray(left + legacy.randint(0, right - left + 1, size=n, dtype=np.int64))


@dataclass(frozen=True)
class DataSet:
    """Values to simulate on. `key` says in one line which values these are: equal keys, equal values."""

    name: str
    n: int
    domain: Domain
    key: str
    make: Callable[[], Ints] = field(repr=False, compare=False)

    @property
    def size(self) -> int:
        return self.domain.size

    def indices(self) -> Ints:
        return self.make()

    def sample(self) -> Sample:
        return Sample(self.indices(), self.size)

    def draw(self, rng: np.random.Generator) -> Draw:
        """The same users for every trial; what was made for one is kept for the next."""
        return Draw(_sample_of(self))


_sample_of = lru_cache(maxsize=4)(DataSet.sample)


def _made(name: str, n: int, size: int, seed: int) -> Ints:
    if name in _RECIPES:
        return _RECIPES[name](n, size, seed=seed)
    return np.asarray(shape(name, n, size, np.random.default_rng(seed)), np.int64)


_RECIPES: dict[str, Callable[..., Ints]] = {"pareto": pareto, "uniform-interval": uniform_interval}


def dataset_names() -> tuple[str, ...]:
    """The names `dataset` knows: the paper's recipes, then the hard shapes."""
    return (*_RECIPES, *(name for name in SHAPES if name not in _RECIPES))


def dataset(name: str, *, n: int, size: int, seed: int = PAPER_SEED) -> DataSet:
    """A named data set of n users with values in 0 .. size-1."""
    if name not in dataset_names():
        raise InvalidInput(f"unknown data set {name!r}; there are {', '.join(dataset_names())}")
    users = check_count(n, "n", 1)
    domain_size = check_count(size, "size", 1)
    if domain_size > MAX_SIZE:
        raise InvalidInput(f"size must be at most 2^63, got {domain_size}")
    root = check_count(seed, "seed")
    if root >= 2**32:
        raise InvalidInput(f"a data set's seed must be below 2^32, got {root}")
    # Made where it is needed: it travels to worker processes as a few bytes.
    make = partial(_made, name, users, domain_size, root)
    return DataSet(name, users, Integers(0, domain_size - 1), f"{name}:n={users}:B={domain_size}:seed={root}", make)


def from_values(
    values: Any,
    domain: Domain,
    *,
    name: str = "values",
    outside: str = "clamp",
    missing: str = "refuse",
    fractions: str = "refuse",
) -> DataSet:
    """The caller's own column. Its key is a digest of the values, so a changed column is another data set."""
    domain = given_domain(domain)
    column = to_indices(values, domain, outside=outside, missing=missing, fractions=fractions)
    digest = hashlib.sha256(column.indices.tobytes() + repr(domain.to_dict()).encode()).hexdigest()[:16]
    key = f"{name}:n={column.indices.size}:B={domain.size}:sha256={digest}"
    return DataSet(name, int(column.indices.size), domain, key, partial(np.asarray, column.indices))


_FILE_KEYS = ("column", "low", "high", "missing", "fractions", "outside")
_RECIPE_KEYS = ("n", "B", "seed")
_SEPARATOR = re.compile(rf":(?=(?:{'|'.join((*_RECIPE_KEYS, *_FILE_KEYS))})=)")


def parse(text: str) -> DataSet:
    """A data set from one line: NAME:n=..:B=..[:seed=..] or FILE:column=..:low=..:high=.."""
    head, *parts = _SEPARATOR.split(text)
    for part in parts:
        if ":" in part and not Path(head).suffix:
            raise InvalidInput(f"data set {text!r} takes {', '.join(_RECIPE_KEYS)}, got {part.split(':', 1)[1]!r}")
    given = dict(part.split("=", 1) for part in parts)
    if Path(head).suffix:
        return _parse_file(head, given)
    _refuse_unknown(text, given, _RECIPE_KEYS)
    if "n" not in given or "B" not in given:
        raise InvalidInput(f"data set {text!r} needs n and B, e.g. {head}:n=2500:B=4^9")
    return dataset(
        head,
        n=whole_number(given["n"], "n"),
        size=whole_number(given["B"], "B"),
        seed=whole_number(given.get("seed", str(PAPER_SEED)), "seed"),
    )


def _parse_file(path: str, given: dict[str, str]) -> DataSet:
    _refuse_unknown(path, given, _FILE_KEYS)
    if "low" not in given or "high" not in given:
        raise InvalidInput(
            f"data set {path!r} needs the bounds of its domain, e.g. {path}:column=salary:low=0:high=500000; "
            "they are never inferred from the data"
        )
    domain = Integers(whole_number(given.pop("low"), "low"), whole_number(given.pop("high"), "high"))
    column = given.pop("column", None)
    values = read_column(path, column)
    return from_values(values, domain, name=Path(path).name + (f"[{column}]" if column else ""), **given)


def _refuse_unknown(text: str, given: dict[str, str], allowed: tuple[str, ...]) -> None:
    wrong = [key for key in given if key not in allowed]
    if wrong:
        raise InvalidInput(f"data set {text!r} takes {', '.join(allowed)}, got {', '.join(wrong)}")


def whole_number(text: str, name: str) -> int:
    """A whole number as people write it: 262144, 262_144, 4^9, 1e6, -5."""
    cleaned = text.strip().replace("_", "")
    power = re.fullmatch(r"(\d+)(\^|\*\*|e\+?)(\d+)", cleaned)
    if power:
        number, exponent = int(power[1]), int(power[3])
        if exponent > 64:
            raise InvalidInput(f"{name} must have an exponent of at most 64, got {text!r}")
        return int(number * 10**exponent if power[2][0] == "e" else number**exponent)
    try:
        return int(cleaned)
    except ValueError:
        raise InvalidInput(f"{name} must be a whole number such as 2500, 4^9 or 1e6, got {text!r}") from None


def pilot_indices(given: str | PathLike[str], domain: Domain) -> Ints:
    """The indices of a pilot: "times.csv", "times.csv:ms" for a column of it, or a shape such as "lognormal".

    A shape is drawn over the whole domain, always the same.
    """
    text = fspath(given)
    if text in SHAPES:
        return shape(text, 100_000, domain.size, np.random.default_rng(1))
    path, _, column = text.rpartition(":") if not text.lower().endswith(ENDINGS) else (text, "", "")
    if not path.lower().endswith(ENDINGS):
        raise InvalidInput(
            f"a pilot is a column of values, a file ({', '.join(ENDINGS)}; FILE:COLUMN for one of several) or a "
            f"shape ({', '.join(SHAPES)}), got {text!r}"
        )
    values = read_column(path, column or None)
    return to_indices(values, domain, outside="clamp", missing="drop", fractions="round").indices

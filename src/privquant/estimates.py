"""Several estimates of one collection: a list that prints as a table and becomes a data frame.

pandas and polars are loaded only when they are asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, SupportsIndex, overload

from privquant.cards import aligned, grid
from privquant.error_words import Typical
from privquant.errors import PrivquantError
from privquant.messages import Estimate

_HEAD = ("quantile", "value", "typical", "certain", "users")


class Estimates(list[Estimate]):
    """The estimates of several quantiles, in the order they were asked for.

    A list in every way, equal to a plain list of the same estimates; it prints as a table.

    Parameters
    ----------
    iterable : iterable of Estimate
        What it holds.

    Examples
    --------
    >>> import privquant as pq
    >>> found = pq.quantile(range(5000), [0.5, 0.9], epsilon=2.0, domain=(0, 9_999), rng=1)
    >>> [row["quantile"] for row in found.to_dicts()]
    [0.5, 0.9]
    """

    @overload
    def __getitem__(self, place: SupportsIndex, /) -> Estimate: ...

    @overload
    def __getitem__(self, place: slice, /) -> Estimates: ...

    def __getitem__(self, place: SupportsIndex | slice, /) -> Estimate | Estimates:
        if isinstance(place, slice):
            return Estimates(super().__getitem__(place))
        return super().__getitem__(place)

    def __repr__(self) -> str:
        if not self:
            return "Estimates([])"
        return "\n".join([aligned([_HEAD, *(estimate.cells() for estimate in self)]), *self._sentences()])

    def _repr_html_(self) -> str:
        """The same table, for notebooks."""
        return grid(_HEAD, [estimate.cells() for estimate in self], self._sentences())

    def _sentences(self) -> list[str]:
        """What is said of all of them once: what users were promised, and every note."""
        promised = dict.fromkeys(str(estimate.guarantee) for estimate in self)
        return [*promised, *dict.fromkeys(note for estimate in self for note in estimate.notes)]

    def to_dicts(self) -> list[dict[str, Any]]:
        """One flat row an estimate, with the same columns whatever the protocol; None where nothing is said.

        Returns
        -------
        list of dict
            `typical_within`, `typical_if_lumpy` and `certain_within` are slacks of rank (0.05 is 5 percentile
            points), the low and high columns are values, infinite at the open end of a bin. The nested form, for
            JSON, is `Estimate.to_dict()`.
        """
        return [_row(estimate) for estimate in self]

    def to_pandas(self) -> Any:
        """The rows of `to_dicts` as a pandas DataFrame."""
        return library("pandas").DataFrame(self.to_dicts())

    def to_polars(self) -> Any:
        """The rows of `to_dicts` as a polars DataFrame."""
        # A column may begin with nulls: its kind is that of all its rows.
        return library("polars").DataFrame(self.to_dicts(), infer_schema_length=None)


def _row(estimate: Estimate) -> dict[str, Any]:
    typical = estimate.typical if isinstance(estimate.typical, Typical) else None
    row: dict[str, Any] = {"quantile": estimate.quantile, "value": estimate.value, "bin": estimate.bin}
    for name, said, fields in (
        ("typical", typical, ("low", "high", "within", "if_lumpy")),
        ("certain", estimate.certain, ("low", "high", "within")),
        ("interval", estimate.interval, ("low", "high", "confidence")),
        ("rank", estimate.rank, ("within", "confidence")),
    ):
        row |= {f"{name}_{field}": getattr(said, field, None) for field in fields}
    promise = estimate.guarantee
    return row | {
        "users": estimate.users,
        "unused": estimate.unused,
        "protocol": estimate.protocol,
        "trust": promise.trust,
        "epsilon": promise.epsilon,
        "delta": promise.delta,
        "notes": "; ".join(estimate.notes),
    }


def library(name: str) -> Any:
    """A library that not everybody has, or how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise PrivquantError(f"this needs {name}, which is not installed: pip install {name}") from error

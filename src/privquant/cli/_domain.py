"""A domain from --low, --high, --bins and --log, the same for every verb that takes them."""

from __future__ import annotations

import math

from privquant.domain import MAX_BINS, Domain, Grid, Integers, LogGrid
from privquant.errors import InvalidInput


def domain_of(low: str | None, high: str | None, bins: int | None, log: bool) -> Domain:
    if low is None or high is None:
        raise InvalidInput(
            "--low and --high are needed: the bounds are part of the question and never inferred from the data, "
            "because bounds found in the data would reveal data"
        )
    if bins is not None:
        start, end = _number("--low", low), _number("--high", high)
        if log:
            return LogGrid(start, end, bins)
        if not 1 <= bins <= MAX_BINS or not start < end:
            raise InvalidInput(
                f"--bins needs 1 to {MAX_BINS} bins and low < high, got bins={bins}, low={low}, high={high}"
            )
        return Grid([start + (end - start) * k / bins for k in range(bins + 1)])
    if log:
        raise InvalidInput("--log goes with --bins: say how many bins of equal ratio there are")
    return Integers(_whole("--low", low), _whole("--high", high))


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InvalidInput(f"{name} must be a number, got {text!r}") from None
    if not math.isfinite(value):
        raise InvalidInput(f"{name} must be a finite number, got {text!r}")
    return value


def _whole(name: str, text: str) -> int:
    """Exact where the text is a whole number: a float would lose digits beyond 2^53."""
    try:
        return int(text.replace("_", ""))
    except ValueError:
        value = _number(name, text)
    if value != int(value):
        raise InvalidInput(f"{name} must be a whole number, got {text}; add --bins N for continuous values")
    return int(value)

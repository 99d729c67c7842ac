"""Quantiles as the command line takes them, the same for every verb: repeated, by commas, or both."""

from __future__ import annotations

from privquant.errors import InvalidInput


def quantiles_of(texts: list[str] | None) -> list[float]:
    """As they were given; the median where none is."""
    found = []
    for text in texts or ["0.5"]:
        for part in text.split(","):
            try:
                found.append(float(part))
            except ValueError:
                raise InvalidInput(
                    f"--quantile takes numbers between 0 and 1, such as 0.9 or 0.5,0.9, got {text!r}"
                ) from None
    return found

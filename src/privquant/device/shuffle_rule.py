"""What a policy says about shuffled campaigns. One that says nothing refuses them.

In shuffle mode `max_epsilon` and `lifetime_epsilon` of a rule are about the epsilon that holds if the shuffler
is honest. If it works with the aggregator, what is left is the epsilon of the coin alone, and that has limits
of its own here; so has delta.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from privquant.device import spending
from privquant.errors import InvalidInput
from privquant.wire import is_hex

Number = int | float | str | Decimal


@dataclass(frozen=True, slots=True)
class ShuffleRule:
    """The limits for shuffled answers about one measurement.

    max_local_epsilon, lifetime_local_epsilon: of the coin; local answers count in the second too.
    colluding:    the share of a round that may be fake or on the aggregator's side and the promise still hold.
    shuffler_key: optionally, the only shuffler that is trusted: its public key in hex or the key's fingerprint.
    """

    max_local_epsilon: Number
    max_delta: Number
    lifetime_local_epsilon: Number | None = None
    lifetime_delta: Number | None = None
    colluding: Number = 0.0
    shuffler_key: str | None = None
    max_local_units: int = field(init=False, repr=False, compare=False)
    lifetime_local_units: int = field(init=False, repr=False, compare=False)
    max_delta_units: int = field(init=False, repr=False, compare=False)
    lifetime_delta_units: int = field(init=False, repr=False, compare=False)
    share: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        local = self.max_local_epsilon if self.lifetime_local_epsilon is None else self.lifetime_local_epsilon
        delta = self.max_delta if self.lifetime_delta is None else self.lifetime_delta
        for name, units in (
            ("max_local_units", spending.limit(self.max_local_epsilon, "max_local_epsilon")),
            ("lifetime_local_units", spending.limit(local, "lifetime_local_epsilon")),
            ("max_delta_units", spending.delta_limit(self.max_delta, "max_delta")),
            ("lifetime_delta_units", spending.delta_limit(delta, "lifetime_delta")),
            ("share", _share(self.colluding)),
        ):
            object.__setattr__(self, name, units)
        check_pinned(self.shuffler_key, "shuffler_key")


def check_pinned(key: object, name: str) -> None:
    """A pinned key is left out, a public key or a fingerprint."""
    if key is not None and not is_hex(key, 64) and not is_hex(key, 32):
        raise InvalidInput(
            f"{name} must be a public key (64 lower-case hex digits) or its fingerprint (32), got {key!r}"
        )


def _share(colluding: object) -> float:
    try:
        share = float("" if isinstance(colluding, bool) else colluding)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = -1.0
    if not 0.0 <= share < 1.0:
        raise InvalidInput(f"colluding must be a share from 0 to below 1, got {colluding!r}")
    return share

"""What a campaign in shuffle mode adds to its manifest (version 2): the rounds, the shuffler, the seal key.

Round r is answered through the coin of its row and is forwarded only with at least `batch` reports. That
delta(epsilon; coin, batch) <= delta holds for every row is for the device to check; a manifest only says it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privquant.errors import InvalidInput
from privquant.privacy.coin import check_flip_threshold
from privquant.validation import check_probability
from privquant.wire.form import (
    WireError,
    check_hash,
    exact_fields,
    real_from_wire,
    real_to_wire,
    whole_from_wire,
    whole_to_wire,
)
from privquant.wire.sealing import SealKey

MAX_ROUNDS = 1_000
MAX_ROUND_REPORTS = 10**9

_ADDRESS = re.compile(
    r"https?://(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?(?:/[A-Za-z0-9._~-]+)*"
)


@dataclass(frozen=True, slots=True)
class RoundTerms:
    """One round: how many reports it is forwarded with at least, and the flip threshold of its coin."""

    batch: int
    coin: int


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The terms of a shuffled campaign; rounds are numbered from 0 by their place.

    address, key: of the shuffler, who has accepted the campaign with this Ed25519 key (hex).
    colluding:    the share of a round's reports that may be the aggregator's own without breaking the promise.
    """

    delta: float
    rounds: tuple[RoundTerms, ...]
    address: str
    key: str
    seal: SealKey
    colluding: float = 0.0

    def __post_init__(self) -> None:
        try:
            check_probability(self.delta, "delta")
            for row in self.rounds:
                check_flip_threshold(row.coin)
        except InvalidInput as error:
            raise WireError(str(error)) from error
        if not isinstance(self.colluding, float) or not 0.0 <= self.colluding < 1.0:
            raise WireError(f"colluding is a share from 0 to below 1, got {self.colluding!r:.40}")
        if not 1 <= len(self.rounds) <= MAX_ROUNDS:
            raise WireError(f"a campaign has 1 to {MAX_ROUNDS} rounds, got {len(self.rounds)}")
        for row in self.rounds:
            if type(row.batch) is not int or not 1 <= row.batch <= MAX_ROUND_REPORTS:
                raise WireError(f"a round's batch is a whole number in 1 .. {MAX_ROUND_REPORTS}")
        check_address(self.address)
        check_hash(self.key, "the shuffler's key")

    @property
    def most_honest_coin(self) -> int:
        """The smallest flip threshold of all rounds: its epsilon is what is left if both parties collude."""
        return min(row.coin for row in self.rounds)

    def to_wire(self) -> dict[str, Any]:
        return {
            "model": "shuffle",
            "delta": real_to_wire(self.delta),
            "colluding": real_to_wire(self.colluding),
            "rounds": [
                {"round": number, "batch": row.batch, "coin": whole_to_wire(row.coin)}
                for number, row in enumerate(self.rounds)
            ],
            "shuffler": {"address": self.address, "key": self.key},
            "seal": self.seal.to_wire(),
        }

    @classmethod
    def from_wire(cls, form: Any) -> Shuffle:
        names = ("model", "delta", "colluding", "rounds", "shuffler", "seal")
        exact_fields(form, names, "shuffled trust model")
        shuffler = exact_fields(form["shuffler"], ("address", "key"), "shuffler")
        if not isinstance(form["rounds"], list) or len(form["rounds"]) > MAX_ROUNDS:
            raise WireError(f"rounds is a list of at most {MAX_ROUNDS} rounds")
        return cls(
            real_from_wire(form["delta"], "delta"),
            _rounds_from_wire(form["rounds"]),
            shuffler["address"],
            shuffler["key"],
            SealKey.from_wire(form["seal"]),
            real_from_wire(form["colluding"], "colluding"),
        )


def _rounds_from_wire(rows: Sequence[Any]) -> tuple[RoundTerms, ...]:
    found = []
    for number, row in enumerate(rows):
        exact_fields(row, ("round", "batch", "coin"), "round")
        if type(row["round"]) is not int or row["round"] != number:
            raise WireError(f"rounds are numbered 0, 1, 2, ... in order; {number} was expected")
        found.append(RoundTerms(row["batch"], whole_from_wire(row["coin"], "coin")))
    return tuple(found)


def check_round(number: Any) -> int:
    if type(number) is not int or not 0 <= number < MAX_ROUNDS:
        raise WireError(f"a round is a whole number in 0 .. {MAX_ROUNDS - 1}")
    return number


def check_address(address: Any) -> str:
    """A base address such as https://shuffle.example.org: what invites begin with."""
    if not isinstance(address, str) or len(address) > 500 or not _ADDRESS.fullmatch(address):
        raise WireError(
            "a shuffler's address is https://host, with a port and a path where needed, in lower case and without "
            f"a closing slash, got {address!r:.80}"
        )
    return address

"""How many users are asked before their answers are heard: a matter of the run, not of the protocol.

    Schedule()               as many at a time as the protocol suggests
    Schedule.batches(k)      k users at a time
    Schedule.rounds(r)       r rounds that grow: small ones while little is known, large ones at the end
    Schedule.equal(r)        r rounds of equal size
    Schedule.growing(share)  rounds of max(8, share of those heard) users
    Schedule.in_flight(k)    k users asked before the first answer, then one for each that answers

Every schedule but the first and the last is a list of rounds fixed by the number of users, so the driver that asks
a protocol object and the engine that simulates it read the same list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from privquant.errors import InvalidInput
from privquant.protocols.base import Protocol
from privquant.protocols.rounds import equal_sizes, growing_sizes
from privquant.validation import check_choice, check_count

KINDS = ("suggested", "batches", "rounds", "equal", "growing", "in-flight")

# The first round of a run whose rounds grow: one user alone says too little to wait for.
FIRST = 8


@dataclass(frozen=True, slots=True)
class Schedule:
    """kind, and its number: users of a batch or in flight, rounds, or the share by which rounds grow."""

    kind: str = "suggested"
    number: float = 0

    def __post_init__(self) -> None:
        check_choice(self.kind, "schedule", KINDS)
        if self.kind == "growing":
            if isinstance(self.number, bool) or not 0.0 < self.number <= 10.0:
                raise InvalidInput(f"rounds grow by a share above 0 and at most 10, got {self.number!r}")
        elif self.kind != "suggested":
            check_count(self.number, {"batches": "batch", "in-flight": "in_flight"}.get(self.kind, "rounds"), 1)

    @classmethod
    def batches(cls, k: int) -> Schedule:
        return cls("batches", k)

    @classmethod
    def rounds(cls, count: int) -> Schedule:
        return cls("rounds", count)

    @classmethod
    def equal(cls, count: int) -> Schedule:
        return cls("equal", count)

    @classmethod
    def growing(cls, share: float) -> Schedule:
        return cls("growing", share)

    @classmethod
    def in_flight(cls, k: int) -> Schedule:
        return cls("in-flight", k)

    @classmethod
    def of(cls, *, batch: int | None = None, rounds: int | None = None, in_flight: int | None = None) -> Schedule:
        """The schedule a caller named by at most one of these."""
        given = {"batch": ("batches", batch), "rounds": ("rounds", rounds), "in_flight": ("in-flight", in_flight)}
        named = {name: (kind, number) for name, (kind, number) in given.items() if number is not None}
        if len(named) > 1:
            raise InvalidInput(f"give at most one of batch, rounds and in_flight, got {' and '.join(named)}")
        return next((cls(kind, number) for kind, number in named.values()), SUGGESTED)

    def __str__(self) -> str:
        return self.kind if self.kind == "suggested" else f"{self.kind}={self.number:g}"

    def check(self, protocol: Protocol) -> None:
        """Refuse to cut the rounds of a protocol that brings its own."""
        if protocol.fixed_rounds and self.kind != "suggested":
            raise InvalidInput(
                f"this run of {protocol.name!r} brings its own rounds, whose sizes its privacy rests on: leave "
                f"{'rounds' if self.kind in ('rounds', 'equal', 'growing') else self.kind} out"
            )

    def sizes(self, users: int) -> list[int] | None:
        """The users of each round; None where the schedule is no list of rounds."""
        if self.kind in ("suggested", "in-flight"):
            return None
        if self.kind == "batches":
            whole, rest = divmod(users, int(self.number))
            return [int(self.number)] * whole + ([rest] if rest else [])
        if self.kind == "equal":
            return equal_sizes(users, int(self.number))
        if self.kind == "growing":
            return growing_sizes(users, FIRST, self.number)
        return best_sizes(users, int(self.number))

    def batches_of(self, protocol: Protocol) -> Iterator[int]:
        """How many users to ask next, read each time before they are asked. It never ends; the protocol does."""
        self.check(protocol)
        sizes = self.sizes(protocol.users)
        while sizes is None:
            yield protocol.batch_size()
        for end in accumulate(sizes):
            while protocol.asked < end:
                yield end - protocol.asked
        while True:
            yield 1


def best_sizes(users: int, rounds: int) -> list[int]:
    """So many growing rounds: the first has half the users of an equal round, and each a fixed share of those asked
    before it where that is more, the share that uses all users up.

    A smaller first round makes the last ones so large that few users are left to learn from; a larger one wastes
    users where nothing is known. Of the sizes tried half was the best or close to it for 8 to 64 rounds of 2,500
    and of 10^5 users; where 500 users must find a tiny interval, equal rounds are better.
    """
    count = min(rounds, users)
    if count == 0:
        return []
    first = max(1.0, users / (2.0 * count))

    def ends(share: float) -> list[float]:
        found = [0.0]
        for _ in range(count):
            found.append(found[-1] + max(first, share * found[-1]))
        return found

    low, high = 0.0, float(users)
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ends(middle)[-1] < users else (low, middle)
    whole = [min(round(end), users) for end in ends(high)[:-1]] + [users]
    return [after - before for before, after in pairwise(whole)]


SUGGESTED = Schedule()

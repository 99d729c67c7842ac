"""Fixed rounds: how users are divided among them, and where a run of them stands.

Each round has a number of users of its own and closes by itself. It is over when as many as planned were told or
given up, or when it was closed by its number: with more reports than planned, with fewer, or dropped with none.
What one round heard never changes how many the next asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate


def equal_sizes(users: int, rounds: int) -> list[int]:
    """So many rounds of equal size; not more than there are users."""
    parts = min(rounds, users)
    return [users * (r + 1) // parts - users * r // parts for r in range(parts)]


def growing_sizes(users: int, first: int, share: float) -> list[int]:
    """Rounds of max(first, share of those asked before) users; a leftover under half a round joins the last."""
    sizes: list[int] = []
    asked = 0
    while asked < users:
        size = max(first, int(share * asked))
        if users - asked - size < size / 2:
            size = users - asked
        sizes.append(size)
        asked += size
    return sizes


class Rounds:
    """The rounds of one run, counted from 0. All of it is in `rows()`."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.starts = tuple(accumulate(self.sizes, initial=0))  # users planned before each round
        self._asked = [0] * len(self.sizes)
        self._done = [0] * len(self.sizes)  # told or given up
        self._closed = [False] * len(self.sizes)
        self._first = 0

    def current(self) -> int | None:
        """The open round: the first that is not over."""
        while self._first < len(self.sizes) and self.is_over(self._first):
            self._first += 1
        return self._first if self._first < len(self.sizes) else None

    def is_over(self, number: int) -> bool:
        return self._closed[number] or self._done[number] >= self.sizes[number]

    def is_fresh(self, number: int) -> bool:
        """Whether nothing was told or given up of a round, nor it closed."""
        return self._done[number] == 0 and not self._closed[number]

    def left(self) -> int:
        """How many users of the open round have not been asked."""
        number = self.current()
        return 0 if number is None else self.sizes[number] - self._asked[number]

    def ask(self, number: int, users: int) -> None:
        self._asked[number] += users

    def account(self, number: int, users: int) -> None:
        """So many of a round were told or given up."""
        self._done[number] += users
        # Who answered was asked, if not by this object then by the one it was rebuilt from.
        self._asked[number] = max(self._asked[number], self._done[number])

    def close(self, number: int) -> None:
        """The round is over for good, however many were told."""
        self._closed[number] = True
        self._asked[number] = self._done[number] = max(self.sizes[number], self._done[number])

    def forget_in_flight(self) -> None:
        self._asked = list(self._done)

    def rows(self) -> list[list[int]]:
        """[round, asked, told or given up, closed by its number], of the rounds in which anything happened."""
        facts = enumerate(zip(self._asked, self._done, self._closed, strict=True))
        return [[k, asked, done, int(closed)] for k, (asked, done, closed) in facts if asked or done or closed]

    def restore(self, rows: Sequence[Sequence[int]]) -> None:
        for k, asked, done, closed in rows:
            self._asked[k], self._done[k], self._closed[k] = int(asked), int(done), bool(closed)
        self._first = 0

    def merge(self, other: Rounds) -> None:
        for k, asked, done, closed in other.rows():
            self._asked[k] += asked
            self._done[k] += done
            self._closed[k] |= bool(closed)

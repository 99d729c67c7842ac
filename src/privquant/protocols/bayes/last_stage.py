"""The last stage of DpBayeSS: which of the few surviving cells is the answer.

    SearchStage     binary search by batches over the survivors' ends, as in the experiments
    PublishedStage  the same as the authors' program does it
    TestStage       TestCoins: every end tested with its own share of the users, as in the theorem

Each is asked and told by (round, threshold); what it knows is a list of counts.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from privquant.privacy.coin import Coin
from privquant.protocols.bayes.reduction import Cell, ends, representative
from privquant.protocols.naive.bracket import Standing, batch_sizes, follow, follow_published, rounds_for


class LastStage(ABC):
    """Lists with one entry a row: a round of a search, or a threshold of a test."""

    def __init__(self, cells: list[Cell], size: int, users: int, coin: Coin, quantile: float) -> None:
        self.cells = cells
        self.size = size
        self.users = users
        self.coin = coin
        self.target = coin.report_rate(quantile)
        self.thresholds = ends(cells, size)
        self.sizes = self._plan()
        rows = len(self.sizes)
        self.asked, self.answered, self.ones, self.gone = [0] * rows, [0] * rows, [0] * rows, [0] * rows

    @abstractmethod
    def _plan(self) -> tuple[int, ...]:
        """Users of each row."""

    @abstractmethod
    def _open_rows(self) -> list[tuple[int, int]]:
        """(row, threshold) of the rows that may be asked now."""

    @abstractmethod
    def round_of(self, row: int) -> int:
        """The round a row belongs to."""

    @abstractmethod
    def answer(self) -> int:
        """The value, as known now."""

    def ask(self, k: int) -> list[tuple[int, int, int]]:
        """(round, threshold, users) for up to k users."""
        found = []
        for row, threshold in self._open_rows():
            count = min(k, self.sizes[row] - self.asked[row])
            if count > 0:
                self.asked[row] += count
                found.append((self.round_of(row), threshold, count))
                k -= count
        return found

    def left(self) -> int:
        """Users that may be asked now."""
        return sum(max(self.sizes[row] - self.asked[row], 0) for row, _ in self._open_rows())

    def _row(self, number: int, threshold: int) -> int | None:
        """The open row of a round and threshold."""
        for row, asked in self._open_rows():
            if self.round_of(row) == number and asked == threshold:
                return row
        return None

    def belongs(self, number: int, threshold: int) -> bool:
        """Whether this stage can ever ask such a query."""
        return 0 <= number < len(self.sizes) and threshold in self.thresholds

    def tell_counts(self, number: int, threshold: int, answered: int, ones: int) -> bool:
        """Answers to one query that are known to be within its row's plan; False if its round is closed."""
        row = self._row(number, threshold)
        if row is None:
            return False
        self.answered[row] += answered
        self.ones[row] += ones
        self._heard(row)
        return True

    def give_up(self, number: int, threshold: int) -> None:
        row = self._row(number, threshold)
        if row is not None:
            self.gone[row] += 1
            self._heard(row)

    def _heard(self, row: int) -> None:
        # Told without being asked: this is a protocol rebuilt from its reports.
        self.asked[row] = max(self.asked[row], self.answered[row] + self.gone[row])

    def _full(self, row: int) -> bool:
        return self.answered[row] + self.gone[row] >= self.sizes[row]

    def rate(self, row: int) -> float | None:
        """De-biased rate of a row."""
        return self.coin.debias(self.ones[row] / self.answered[row]) if self.answered[row] else None

    def to_dict(self) -> dict[str, Any]:
        return {name: list(getattr(self, name)) for name in ("asked", "answered", "ones", "gone")}

    def restore(self, form: Mapping[str, Any]) -> None:
        for name in ("asked", "answered", "ones", "gone"):
            setattr(self, name, [int(x) for x in form[name]])


class _Rounds(LastStage):
    """One row a round; the open one is the first that is not full."""

    @abstractmethod
    def standing(self, rounds: int) -> Standing:
        """Where the search stands after so many rounds: what it asks, as an index of its coins."""

    @abstractmethod
    def _threshold(self, coin: int) -> int:
        """The threshold that is asked for a coin."""

    def round_of(self, row: int) -> int:
        return row

    def _counts(self, rounds: int) -> list[tuple[int, int]]:
        return list(zip(self.answered[:rounds], self.ones[:rounds], strict=True))

    def _open_rows(self) -> list[tuple[int, int]]:
        row = next((k for k in range(len(self.sizes)) if not self._full(k)), None)
        asks = None if row is None else self.standing(row).ask
        return [] if row is None or asks is None else [(row, self._threshold(asks))]


class SearchStage(_Rounds):
    """The ends cut the domain into segments; the search finds the segment, and a segment is a survivor or a gap."""

    def _plan(self) -> tuple[int, ...]:
        return batch_sizes(self.users, rounds_for(len(self.thresholds) + 1))

    def standing(self, rounds: int) -> Standing:
        return follow(len(self.thresholds) + 1, self._counts(rounds), self.target)

    def _threshold(self, coin: int) -> int:
        return self.thresholds[coin]

    def answer(self) -> int:
        """That of the survivor the segment is; for a gap, of the neighbour whose end came closer to q."""
        segment = self.standing(len(self.sizes)).answer
        low = self.thresholds[segment - 1] if segment > 0 else -1
        high = self.thresholds[segment] if segment < len(self.thresholds) else self.size - 1
        if (low, high) in self.cells:
            return representative((low, high), self.size)
        before = [cell for cell in self.cells if cell[1] <= low]
        after = [cell for cell in self.cells if cell[0] >= high]
        if not before or not after:
            return representative((before or after)[-1 if before else 0], self.size)
        quantile, away = self.coin.debias(self.target), dict[int | None, float]()
        for row in range(len(self.sizes)):
            if (heard := self.rate(row)) is not None:
                away[self.standing(row).ask] = abs(heard - quantile)
        closer = away.get(segment - 1, math.inf) <= away.get(segment, math.inf)
        return representative(before[-1] if closer else after[0], self.size)


class PublishedStage(_Rounds):
    """The authors' search over the survivors' ends, both of each, their own last coin B-1 included."""

    def __init__(self, cells: list[Cell], size: int, users: int, coin: Coin, quantile: float) -> None:
        self.coins = sorted({end for cell in cells for end in cell})
        super().__init__(cells, size, users, coin, quantile)

    def _plan(self) -> tuple[int, ...]:
        return batch_sizes(self.users, rounds_for(len(self.coins)))

    def standing(self, rounds: int) -> Standing:
        return follow_published(len(self.coins), self._counts(rounds), self.target)

    def _threshold(self, coin: int) -> int:
        # Coin B-1 has probability one; the threshold below it stands in, as no threshold B-1 can be asked.
        return min(self.coins[coin], self.size - 2)

    def belongs(self, number: int, threshold: int) -> bool:
        return super().belongs(number, threshold) or threshold == self.size - 2

    def answer(self) -> int:
        return min(self.coins[self.standing(len(self.sizes)).answer] + 1, self.size - 1)


class TestStage(LastStage):
    """One row a threshold, all in one round."""

    __test__ = False  # not a test case, whatever its name

    def _plan(self) -> tuple[int, ...]:
        return batch_sizes(self.users, len(self.thresholds))

    def round_of(self, row: int) -> int:
        return 0

    def _open_rows(self) -> list[tuple[int, int]]:
        return [(row, self.thresholds[row]) for row in range(len(self.sizes)) if not self._full(row)]

    def belongs(self, number: int, threshold: int) -> bool:
        return number == 0 and threshold in self.thresholds

    def answer(self) -> int:
        rates = {self.thresholds[row]: self.rate(row) for row in range(len(self.sizes))}
        return representative(best_cell(self.cells, rates, self.coin.debias(self.target), self.size), self.size)


def best_cell(cells: list[Cell], rates: Mapping[int, float | None], quantile: float, size: int) -> Cell:
    """The cell whose tested ends enclose q or come closest to it; among equals the one whose middle is closest."""

    def badness(cell: Cell) -> tuple[int, float, float]:
        low = 0.0 if cell[0] < 0 else rates[cell[0]]
        high = 1.0 if cell[1] >= size - 1 else rates[cell[1]]
        untested = (low is None) + (high is None)
        known_low = 0.0 if low is None else low
        known_high = 1.0 if high is None else high
        outside = max(known_low - quantile, quantile - known_high, 0.0)
        return untested, outside, abs((known_low + known_high) / 2.0 - quantile)

    return min(cells, key=badness)

"""Binary search over ordered coins by batches: where the search stands, from the counts of its rounds alone.

Nothing here knows users, domains or randomness. A search is replayed from (answered, ones) of each closed round,
so its state is a table of counts and the order of answers within a round cannot matter.

`follow` is the search of the text: it never falls off an end, and when the bracket closes a round before the plan
does (the number of answers is no power of two) the spare batch asks the last question again and both batches decide
together, so every user counts. `follow_published` is the search of the authors' program.
"""

from collections.abc import Iterable
from dataclasses import dataclass

Counts = tuple[int, int]
"""(answered, ones) of one round."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The coin to ask next (None when the search is over), and the answer if it had to be given now."""

    ask: int | None
    answer: int


def rounds_for(answers: int) -> int:
    """ceil(log2(answers)): the rounds in which a bracket of that many answers closes."""
    return (answers - 1).bit_length()


def batch_sizes(users: int, rounds: int) -> tuple[int, ...]:
    """floor(users / rounds) a round, and the remainder one by one from the first round on."""
    if rounds == 0:
        return ()
    base, extra = divmod(users, rounds)
    return tuple(base + 1 if k < extra else base for k in range(rounds))


def follow(answers: int, rounds: Iterable[Counts], target: float) -> Standing:
    """Search answers 0 .. answers-1, where coin c asks "is the answer at most c?".

    `target` is the rate of ones among reports at which the answer is on the coin's left; a round without a single
    answer moves nothing.
    """
    low, high = 0, answers - 1
    asked, answered, ones = -1, 0, 0
    for heard, heads in rounds:
        if heard == 0:
            continue
        if low < high:
            asked, answered, ones = low + (high - low) // 2, heard, heads
            low, high = (low, asked) if ones >= answered * target else (asked + 1, high)
        elif asked >= 0:
            answered, ones = answered + heard, ones + heads
            low = high = asked if ones >= answered * target else asked + 1
    middle = low + (high - low) // 2
    if low < high:
        return Standing(middle, middle)
    return Standing(asked if asked >= 0 else None, low)


def follow_published(coins: int, rounds: Iterable[Counts], target: float) -> Standing:
    """The authors' search for the last coin of 0 .. coins-1 whose rate is at most `target`.

    A coin once asked leaves the bracket on either side. When every coin asked was too high the search falls off the
    left end and answers the LAST coin, because Python reads index -1 so; the recorded runs contain this.
    """
    low, high = 0, coins - 1
    for heard, heads in rounds:
        if low > high:
            break
        if heard == 0:
            continue
        middle = (low + high) // 2
        low, high = (low, middle - 1) if heads > heard * target else (middle + 1, high)
    middle = (low + high) // 2
    return Standing(middle if low <= high else None, middle if middle >= 0 else coins - 1)

"""What several answers promise together.

`worst_round`: every user answers in one round only, so the rounds do not add up; the promise to each user is
that of the worst single round. `same_user`: one user answers in several campaigns; pure and approximate
epsilons add up, and so do the deltas and what is left if no shuffler is honest.

Sums are exact. A float stands for the shortest decimal that names it, so ten times 0.1 is 1 and a budget of 1
is met, not missed by a drift; the result is rounded up where it is no float.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from privquant.errors import InvalidInput
from privquant.messages import Guarantee, ShuffledRound

__all__ = ["same_user", "worst_round"]


def exact(value: float | int | str | Fraction) -> Fraction:
    """A privacy parameter as the rational that was written."""
    try:
        found = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError) as error:
        raise InvalidInput(f"a privacy parameter is a number of at least 0, got {value!r}") from error
    if found < 0:
        raise InvalidInput(f"a privacy parameter is a number of at least 0, got {value!r}")
    return found


def total(values: Iterable[float | int | str | Fraction]) -> Fraction:
    """The exact sum of privacy parameters."""
    return sum((exact(value) for value in values), Fraction(0))


def rounded_up(value: Fraction) -> float:
    """A float that names at least `value`: the nearest one, or the next above it."""
    nearest = float(value)
    return nearest if exact(nearest) >= value else math.nextafter(nearest, math.inf)


def worst_round(guarantees: Iterable[Guarantee]) -> Guarantee:
    """The promise to each user when every user answers in one of these rounds only."""
    return _combined(guarantees, max)


def same_user(guarantees: Iterable[Guarantee]) -> Guarantee:
    """The promise to a user who answers under all of these, whatever the answers have to do with each other."""
    return _combined(guarantees, lambda values: rounded_up(total(values)))


def _local(guarantee: Guarantee) -> float:
    """What is left of a guarantee when nobody is trusted."""
    if guarantee.trust == "local":
        return guarantee.epsilon
    if guarantee.local_epsilon is None:
        raise InvalidInput("a shuffle guarantee without its local_epsilon cannot be composed")
    return guarantee.local_epsilon


def _combined(guarantees: Iterable[Guarantee], together: Callable[[Iterable[float]], float]) -> Guarantee:
    """The guarantee whose every number is what the numbers of these come to together."""
    parts = list(guarantees)
    if not parts:
        raise InvalidInput("there is no guarantee to compose; give at least one")
    epsilon, delta = together(g.epsilon for g in parts), min(1.0, together(g.delta for g in parts))
    local, answers = together(_local(g) for g in parts), int(together(g.answers for g in parts))
    if all(g.trust == "local" for g in parts):
        return Guarantee("local", epsilon, answers=answers)
    shuffled = [each for g in parts if g.trust == "shuffle" for each in _rounds(g)]
    # Batches of different size have coins of their own: the smallest number says nothing about the others.
    alike = len({each.batch for each in shuffled}) <= 1 and not any(g.rounds for g in parts)
    table = () if alike else tuple(replace(each, round=number) for number, each in enumerate(shuffled, 1))
    smallest = min((each.batch for each in shuffled), default=None)
    return Guarantee("shuffle", epsilon, delta, local, smallest, answers, table)


def _rounds(guarantee: Guarantee) -> tuple[ShuffledRound, ...]:
    """Each of a guarantee's batches with its own coin."""
    if guarantee.rounds or guarantee.batch is None:
        return guarantee.rounds
    return (ShuffledRound(1, guarantee.batch, _local(guarantee), guarantee.epsilon),)

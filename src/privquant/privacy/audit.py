"""Does a randomizer keep the epsilon it is sold with? Throw it and see.

`audit` throws a randomizer `draws` times at each input. The first half of the throws chooses the pair of inputs
and the set of outputs that look worst (one quarter ranks the outputs, the next says how many of them to take, so
that luck in the ranking is not taken for a finding). The second half, which knows nothing of the choice, bounds
the two probabilities of that set with Clopper and Pearson's exact limits. The epsilon found is therefore a
LOWER bound on the true one with the stated confidence, whatever the randomizer is: an honest one is accused with
probability at most 1 - confidence. Passing proves nothing beyond the bound that is shown.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from privquant.errors import InvalidInput
from privquant.privacy.binomial import lower_bound, upper_bound
from privquant.privacy.randomizers import Randomizer, check_draws
from privquant.validation import check_count, check_epsilon, check_probability

__all__ = ["Finding", "audit"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What an audit found. `caught`: the true epsilon is above the claimed one, at this confidence."""

    claimed: float
    lower: float
    estimate: float
    confidence: float
    draws: int
    inputs: tuple[Any, Any]
    event: tuple[Hashable, ...]
    successes: tuple[int, int]
    trials: int

    @property
    def caught(self) -> bool:
        return self.lower > self.claimed

    def __str__(self) -> str:
        verdict = f"was not caught breaking epsilon {self.claimed:g}"
        if self.caught:
            verdict = f"is NOT {self.claimed:g}-differentially private"
        return (
            f"The randomizer {verdict}: its epsilon is at least {self.lower:.5g} with confidence "
            f"{self.confidence:.10g} (estimate {self.estimate:.5g}, {self.draws} throws at each input)."
        )

    def to_dict(self) -> dict[str, Any]:
        form = {name: getattr(self, name) for name in self.__slots__}
        form["inputs"] = [str(value) for value in self.inputs]
        form["event"] = [str(output) for output in self.event]
        form["successes"] = list(self.successes)
        return {**form, "caught": self.caught}


def audit(randomizer: Randomizer, *, epsilon: float, draws: int = 2_000_000, confidence: float = 0.999) -> Finding:
    """Throw a randomizer `draws` times at each of its inputs and bound its epsilon from below."""
    claimed = check_epsilon(epsilon)
    n = check_count(draws, "draws", 4)
    error = 1.0 - check_probability(confidence, "confidence")
    if error <= 0.0:
        raise InvalidInput(f"confidence {confidence!r} is too close to 1 to be told from it")
    inputs = tuple(randomizer.inputs)
    if len(inputs) < 2:
        raise InvalidInput(f"an audit compares at least 2 inputs, got {len(inputs)}")
    ranking, sizing = n // 4, n // 2 - n // 4
    first, second = (
        [check_draws(randomizer.draw(value, part), part, value) for value in inputs] for part in (ranking, sizing)
    )
    above, below, event = _worst_event(first, second, sizing, error)
    rest = n - ranking - sizing
    chosen = frozenset(event)

    def hits(value: Any) -> int:
        counts = check_draws(randomizer.draw(value, rest), rest, value)
        return sum(count for output, count in counts.items() if output in chosen)

    high, low = hits(inputs[above]), hits(inputs[below])
    floor = lower_bound(high, rest, error / 2)
    ceiling = upper_bound(low, rest, error / 2)
    bound = math.log(floor / ceiling) if floor > ceiling else 0.0
    return Finding(
        claimed=claimed,
        lower=bound,
        estimate=max(0.0, math.log((high + 0.5) / (low + 0.5))),
        confidence=float(confidence),
        draws=n,
        inputs=(inputs[above], inputs[below]),
        event=tuple(event),
        successes=(high, low),
        trials=rest,
    )


def _worst_event(
    first: list[Mapping[Hashable, int]], second: list[Mapping[Hashable, int]], n: int, error: float
) -> tuple[int, int, list[Hashable]]:
    """Which inputs and which outputs promise the highest bound, by its normal approximation.

    For a pair of inputs the best sets take the outputs in falling order of likelihood ratio.
    """
    outputs = sorted(set().union(*first, *second), key=repr)
    z = math.sqrt(2.0 * math.log(2.0 / error))
    best: tuple[float, int, int, list[Hashable]] = (-math.inf, 0, 1, outputs[:1])
    for above, below in permutations(range(len(first)), 2):
        a, b = first[above], first[below]
        ratio = {output: (a.get(output, 0) + 0.5) / (b.get(output, 0) + 0.5) for output in outputs}
        ranked = sorted(outputs, key=ratio.__getitem__, reverse=True)
        high = low = 0
        for size, output in enumerate(ranked, start=1):
            high += second[above].get(output, 0)
            low += second[below].get(output, 0)
            x, y = max(high, 0.5), low + 1.0
            promise = math.log(x / y) - z * math.sqrt(max(0.0, 1 / x + 1 / y - 2 / n))
            if promise > best[0]:
                best = (promise, above, below, ranked[:size])
    return best[1], best[2], best[3]

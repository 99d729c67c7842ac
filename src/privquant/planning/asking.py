"""What else a run does with its users: several quantiles, an interval, rounds, users in flight.

Each of these costs accuracy in a way that is as if fewer users had been asked at leisure about one quantile:

    several quantiles   users / Q for each, its own people, and 1 / (1 + (d/reach)^1.5) of those asked about another
                        that is d units of rank away: who is asked near by tells as much, who is asked far away
                        nothing; the ranks of those asked about others are sampled
    an interval         users * kept
    rounds, in flight   users * exp(-cost * x^power * bits^growth), x = 1/rounds or in flight / users

The numbers are fitted to simulated runs on the typical family (`python -m studies calibration`).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from privquant.planning.law import Law, Run, unit

# Users of a run in rounds or in flight are asked at thresholds spread over this half-width, as the service does.
SPREAD = 0.25
# How fast the reports asked about another quantile lose their worth with its distance.
_FADING = 1.5
# A certified interval is this many units wide, or so, for a walk's bound of this many deviations (95 %).
_WIDTH = 7.0
_BOUND = 2.24


@dataclass(frozen=True)
class AskingSchedule:
    """How a run asks.

    quantiles: all of one run, where they are several. interval: confidence of a certified interval.
    rounds: feedback rounds that grow. in_flight: users asked before the first answers. None is "no such thing".
    """

    quantiles: tuple[float, ...] = ()
    interval: float | None = None
    rounds: int | None = None
    in_flight: int | None = None

    @property
    def plain(self) -> bool:
        """One quantile, at leisure."""
        return self == AskingSchedule()

    @property
    def share(self) -> float:
        """The part of all people that is asked about one quantile."""
        return 1.0 / max(len(self.quantiles), 1)

    def own_users(self, run: Run, costs: Mapping[str, Any]) -> float:
        """As many users, asked at leisure about one quantile, do as well as all users of this run."""
        users, bits = float(run.users), float(run.bits)
        own = users
        if self.quantiles:
            own = shared(run, self.quantiles, reach=costs["quantiles"]["reach"])
        if self.interval is not None:
            own *= costs["interval"]["kept"]
        if self.rounds is not None:
            own *= slowed(1.0 / self.rounds, bits, **costs["rounds"])
        if self.in_flight is not None:
            own *= slowed(min(self.in_flight / users, 1.0), bits, **costs["in_flight"])
        return own


PLAIN = AskingSchedule()
"""One quantile, asked at leisure."""


def shared(run: Run, quantiles: tuple[float, ...], *, reach: float) -> float:
    """As many users, asked about the run's quantile alone, do as well as all, divided among the quantiles."""
    each = float(run.users) / len(quantiles)
    near = reach * float(unit(run._replace(users=each, share=1.0)))
    return each * math.fsum(1.0 / (1.0 + (abs(q - run.quantile) / near) ** _FADING) for q in quantiles)


def slowed(x: float, bits: float, *, cost: float, power: float, growth: float) -> float:
    """The part of the users that counts where feedback comes late."""
    return math.exp(-cost * x**power * bits**growth)


def interval_run(run: Run, confidence: float) -> Run:
    """The run as the law of an interval's width sees it: in units of a width."""
    bound = NormalDist().inv_cdf(1.0 - (1.0 - confidence) / 4.0)
    return run._replace(stretch=_WIDTH * bound / _BOUND)


def width_within(law: Law, run: Run, confidence: float, chance: float) -> float | None:
    """The width of rank that certified intervals stay within with this chance; None if that is all ranks."""
    seen = interval_run(run, confidence)

    def passed(width: float) -> bool:
        return float(law.tails([width], [1], seen)[0]) > 1.0 - chance

    return None if passed(1.0) else halved(passed, 1.0)


def halved(passed: Callable[[float], bool], high: float) -> float:
    """The least number up to `high` that is not passed, by halving."""
    low = 0.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if passed(middle) else (low, middle)
    return high

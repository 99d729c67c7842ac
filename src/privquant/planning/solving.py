"""Solving for the one number a plan leaves open.

A plan is four numbers: users, alpha (rank error), epsilon and confidence. A way of collecting says of any four
whether it keeps them (`Holds`); `solve` finds the cheapest value of the missing one that is kept. `rows_of` does it
for every way to collect.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privquant.planning import limits
from privquant.planning.asking import PLAIN, AskingSchedule
from privquant.planning.calibration import CALIBRATED_DELTA, Calibration, Setting, calibrated, calibration
from privquant.planning.pilot import Pilot
from privquant.planning.theory import naive_search_users
from privquant.protocols.registry import DEFAULT_PROTOCOL, protocol_class
from privquant.validation import check_choice

UNKNOWNS = ("users", "alpha", "epsilon", "confidence")

# Where each unknown is looked for. Beyond these a plan is of no use to anyone.
RANGES = {"users": (1.0, 1e15), "alpha": (1e-7, 0.999), "epsilon": (1e-3, 20.0), "confidence": (1e-3, 1 - 1e-6)}

# Two values this close are the same plan.
_CLOSE = 1e-4
# Steps from the dear end of a range to its cheap one before halving; for users each is a factor of four.
_STEPS = 25

_ORDER = "order of growth only: the paper leaves the constant open, here it is 1"

Holds = Callable[[dict[str, float]], bool]
"""Whether a full plan (users, alpha, epsilon, confidence) is kept."""


@dataclass(frozen=True)
class Job:
    """What is to be collected, beside the four numbers.

    size: of the domain. delta: of shuffled rows. schedule: how it is asked. source: a calibration of one's own.
    simulate: how many times the job is run on people drawn from the pilot.
    """

    size: int
    quantiles: tuple[float, ...]
    delta: float = CALIBRATED_DELTA
    schedule: AskingSchedule = PLAIN
    pilot: Pilot | None = None
    source: str | Path | None = None
    simulate: int = 0

    def table(self, name: str) -> Calibration:
        return calibration(name, self.source)

    def setting(self, full: dict[str, float], q: float) -> Setting:
        """A full plan for one quantile of this job, as the laws are asked about it."""
        named: Setting = {"users": full["users"], "epsilon": full["epsilon"], "quantile": q, "size": self.size}
        return {**named, "delta": self.delta, "schedule": self.schedule}


def solve(unknown: str, given: dict[str, float], holds: Holds) -> float | None:
    """The cheapest value of the unknown that keeps the plan together with all dearer ones.

    A measured law need not be monotone where nobody measured: that ten people would do is not believed where a
    thousand would not. So the range is walked from its dear end to the first value that fails.
    """
    low, high = RANGES[check_choice(unknown, "unknown", UNKNOWNS)]
    rising = unknown != "confidence"  # more users, alpha, epsilon help; more confidence hurts

    def kept(value: float) -> bool:
        return holds({**given, unknown: value})

    last, dear = (low, high) if rising else (high, low)
    if not kept(dear):
        return None

    def between(a: float, b: float, share: float) -> float:
        return a ** (1.0 - share) * b**share if rising else a + (b - a) * share

    start = dear
    for step in range(1, _STEPS + 1):
        cheap = between(start, last, step / _STEPS)
        if not kept(cheap):
            break
        dear = cheap
    else:
        return last
    while abs(dear - cheap) > _CLOSE * abs(dear):
        middle = between(cheap, dear, 0.5)
        dear, cheap = (middle, cheap) if kept(middle) else (dear, middle)
    return dear


def failure(
    name: str,
    kind: str,
    job: Job,
    q: float,
    full: dict[str, float],
    *,
    ties: bool = True,
    population: bool = False,
) -> float:
    """The share of runs that miss alpha at one quantile; by the ties of the pilot, where there is one."""
    below = above = full["alpha"]
    if job.pilot is not None:
        below, above, _, _ = job.pilot.reach(q, full["alpha"])
        ties = False
    asked = job.setting(full, q)
    return job.table(name).failure(kind, below, above, ties=ties, population=population, **asked)


def by_measurement(name: str, kind: str, job: Job, *, ties: bool = True, population: bool = False) -> Holds:
    """Kept where every quantile, on data of this kind, is missed by no more runs than the confidence allows."""

    def holds(full: dict[str, float]) -> bool:
        return all(
            failure(name, kind, job, q, full, ties=ties, population=population) <= 1.0 - full["confidence"]
            for q in job.quantiles
        )

    return holds


@dataclass(frozen=True)
class PlanRow:
    """One way to collect, and the missing number for it (None: no value in range does it).

    name:  the protocol, or the bound.
    trust: who must be trusted: nobody ("local"), whoever mixes ("shuffle"), whoever holds the data ("central").
    kind:  what the number is: "limit", "order", "sufficient", "measured" or "simulated" (docs/planning.md).
    value, lumpy, hardest: on typical data, and on lumpy and the hardest where that was measured.
    """

    name: str
    trust: str
    kind: str
    value: float | None
    lumpy: float | None = None
    hardest: float | None = None
    note: str = ""
    delta: float | None = None


def default_row(rows: tuple[PlanRow, ...]) -> PlanRow:
    """The default protocol: on the pilot, or as measured; in the local model where that is among the rows."""
    return next(row for row in rows if row.kind in ("simulated", "measured"))


def rows_of(unknown: str, given: dict[str, float], job: Job, trust: str | None) -> tuple[PlanRow, ...]:
    """The rows of one trust model, or of all; those that were not measured at this job's schedule are left out."""
    every = [*bounds(unknown, given, job), *_measured(unknown, given, job, trust)]
    return tuple(row for row in every if trust is None or row.trust == trust)


def bounds(unknown: str, given: dict[str, float], job: Job) -> list[PlanRow]:
    """What theory says; last, what whoever holds the data can do."""
    q, big, delta = job.quantiles[0], max(job.size, 2), job.delta

    def bound(name: str, trust: str, kind: str, needs: Callable[..., float], *uses: str, **fixed: Any) -> PlanRow:
        if unknown not in ("users", *uses):
            return PlanRow(name, trust, kind, None, note=f"says nothing about {unknown}")

        def holds(full: dict[str, float]) -> bool:
            return full["users"] >= needs(**{use: full[use] for use in uses}, **fixed)

        note = _ORDER if kind == "order" else ""
        return PlanRow(name, trust, kind, solve(unknown, given, holds), note=note, delta=fixed.get("delta"))

    def naive_users(*, confidence: float, **named: Any) -> float:
        return naive_search_users(beta=1 - confidence, **named)

    two, three = ("alpha", "epsilon"), ("alpha", "epsilon", "confidence")
    held = "you hold the data: OpenDP"
    central = bound(held, "central", "sufficient", limits.central_users, *three, size=big, many=len(job.quantiles))
    if not job.schedule.plain:
        return [central]
    return [
        bound("information limit", "local", "limit", limits.information_limit, *three, quantile=q),
        bound("any adaptive protocol, grows as", "local", "order", limits.adaptive_lower_bound, *two, size=big),
        bound("any non-adaptive one, grows as", "local", "order", limits.non_adaptive_lower_bound, *two, size=big),
        bound("tree, error sketch", "local", "order", limits.tree_sketch, *two, size=big),
        bound("DpBayeSS, theorem", "local", "order", limits.adaptive_upper_bound, *two, size=big),
        bound("naive search, theorem", "local", "sufficient", naive_users, *three, size=big),
        bound("naive search, theorem", "shuffle", "order", limits.shuffle_order, *three, size=big, delta=delta),
        central,
    ]


def _measured(unknown: str, given: dict[str, float], job: Job, trust: str | None) -> list[PlanRow]:
    rows = []
    for name in calibrated(job.source):
        protocol, model = name.split("/", 1)
        its_trust, _, method = model.partition("-")
        if trust not in (None, its_trust) or (not job.schedule.plain and name != f"{DEFAULT_PROTOCOL}/local"):
            continue
        kinds = job.table(name).kinds if job.schedule.plain else ("typical",)
        found = {kind: solve(unknown, given, by_measurement(name, kind, job)) for kind in kinds}
        shown = protocol_class(protocol).title + (" (the default)" if protocol == DEFAULT_PROTOCOL else "")
        shown += f", {method} accounting" if method else ""
        note = "" if len(kinds) > 1 else "measured on typical data only"
        delta = job.delta if its_trust == "shuffle" else None
        values = (found["typical"], found.get("lumpy"), found.get("hardest"))
        rows.append(PlanRow(shown, its_trust, "measured", *values, note, delta))
    return rows

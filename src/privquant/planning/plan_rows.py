"""The rows of a plan: every way to collect, with the missing number for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from privquant.planning import limits
from privquant.planning.calibration import calibrated
from privquant.planning.solving import Job, by_measurement, solve
from privquant.planning.theory import naive_search_users
from privquant.protocols.registry import DEFAULT_PROTOCOL, protocol_class

_ORDER = "order of growth only: the paper leaves the constant open, here it is 1"


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


def on_the_pilot(row: PlanRow, value: float | None) -> PlanRow:
    """The same way to collect, with what was simulated on people drawn from the pilot."""
    return replace(row, kind="simulated", value=value, lumpy=None, hardest=None, note="people drawn from the pilot")


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
        bound("naive search, theorem", "local", "sufficient", _naive_sufficient, *three, size=big),
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
        rows.append(
            PlanRow(
                shown + (f", {method} accounting" if method else ""),
                its_trust,
                "measured",
                found["typical"],
                found.get("lumpy"),
                found.get("hardest"),
                note="" if len(kinds) > 1 else "measured on typical data only",
                delta=job.delta if its_trust == "shuffle" else None,
            )
        )
    return rows


def _naive_sufficient(*, alpha: float, epsilon: float, confidence: float, size: int) -> float:
    return naive_search_users(size=size, alpha=alpha, beta=1 - confidence, epsilon=epsilon)

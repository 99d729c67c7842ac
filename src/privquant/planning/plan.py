"""Planning: before anyone is asked, say what a collection can reach.

Of users, alpha (rank error), epsilon and confidence give all but one; `plan` solves for the missing one, for
every protocol and trust model side by side:

    limit      everybody asked at the true quantile of the population they were drawn from
    order      a bound of the paper whose constant is open: order of growth only, constant 1
    sufficient a bound of the paper with its constants: this many users are enough
    measured   what our protocols needed in simulation (`privquant.planning.calibration`)
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from privquant.domain import Domain, given_domain
from privquant.errors import InvalidInput
from privquant.planning import limits
from privquant.planning.calibration import calibrated
from privquant.planning.plan_words import easier, show, verdict, warnings
from privquant.planning.solving import CALIBRATED_DELTA, UNKNOWNS, by_measurement, solve
from privquant.planning.statement import liars_in_a_plan
from privquant.planning.theory import naive_search_users
from privquant.protocols.registry import DEFAULT_PROTOCOL, check_trust, protocol_class
from privquant.validation import check_count, check_epsilon, check_probability, check_quantile

_ORDER = "order of growth only: the paper leaves the constant open, here it is 1"


@dataclass(frozen=True)
class PlanRow:
    """One way to collect, and the missing number for it (None: no value in range does it)."""

    name: str
    trust: str
    kind: str
    value: float | None
    hardest: float | None = None
    note: str = ""
    delta: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, repr=False)
class Plan:
    """The answer: what was given, what was solved for, a row for each way, and the verdict in plain words.

    Parameters
    ----------
    missing : str
        The number that was solved for.
    given : dict
        The other three.
    size : int
        Of the domain.
    quantile : float
        The quantile wanted.
    rows : tuple of PlanRow
        Every way to collect, with the missing number for it.
    verdict : str
        What it comes to, in one sentence.
    poisoning : str
        What liars can do.
    warnings : tuple of str
        Where the plan would disappoint.
    """

    missing: str
    given: dict[str, float]
    size: int
    quantile: float
    rows: tuple[PlanRow, ...]
    verdict: str
    poisoning: str
    warnings: tuple[str, ...] = field(default=())

    @property
    def value(self) -> float | None:
        """The missing number for the default protocol, under the trust the plan is for."""
        return _verdict_row(self.rows).value

    def to_dict(self) -> dict[str, Any]:
        form = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return form | {"rows": [row.to_dict() for row in self.rows], "warnings": list(self.warnings)}

    def __repr__(self) -> str:
        return f"Plan({self.verdict})"

    def __str__(self) -> str:
        lines = [self.verdict, *self.warnings, self.poisoning, ""]
        width = max(len(row.name) for row in self.rows)
        for row in self.rows:
            line = f"{row.name:{width}}  {row.trust:7}  {row.kind:10}  {show(self.missing, row.value):>13}"
            if row.delta is not None:
                line += f"  delta {row.delta:g}"
            if row.kind == "measured":
                line += f"  on the hardest data {show(self.missing, row.hardest)}"
            lines.append(line)
        return "\n".join(lines)


def plan(
    *,
    domain: Domain,
    users: int | None = None,
    alpha: float | None = None,
    epsilon: float | None = None,
    confidence: float | None = None,
    quantile: float = 0.5,
    trust: str | None = None,
    delta: float | None = None,
    liars: float = 0.01,
) -> Plan:
    """Solve for the one of users, alpha, epsilon, confidence that is not given.

    Parameters
    ----------
    domain : Domain
        Which values exist; a pair (low, high) is `Integers(low, high)`. Only its size counts.
    users : int, optional
        People who can be asked.
    alpha : float, optional
        Rank error allowed: 0.02 means the answer's rank is within 2 percentile points.
    epsilon : float, optional
        Privacy of each answer.
    confidence : float, optional
        Share of collections that keep alpha.
    quantile : float
        The quantile wanted.
    trust : {"local", "shuffle"}, optional
        Plan for that alone; without it the rows show both, and the verdict is about the local model.
    delta : float, optional
        Of the rows in the shuffle model; 1e-8 unless given.
    liars : float
        Fraction of users who lie, for the line about poisoning.

    Returns
    -------
    Plan
        It prints as a table with its verdict.

    Examples
    --------
    >>> import privquant as pq
    >>> pq.plan(domain=(0, 500_000), alpha=0.02, epsilon=1.0, confidence=0.95).missing
    'users'
    """
    size = given_domain(domain).size
    q = check_quantile(quantile)
    d = CALIBRATED_DELTA if delta is None else check_probability(delta, "delta")
    if trust is not None:
        check_trust(trust, d if trust == "shuffle" else delta)
    if isinstance(liars, bool) or not isinstance(liars, numbers.Real) or not 0 <= liars < 1:
        raise InvalidInput(f"liars must be a fraction in [0, 1), got {liars!r}")
    asked = {"users": users, "alpha": alpha, "epsilon": epsilon, "confidence": confidence}
    missing = [name for name, value in asked.items() if value is None]
    if len(missing) != 1:
        told = ", ".join(name for name, value in asked.items() if value is not None) or "none of them"
        raise InvalidInput(f"give all but one of {', '.join(UNKNOWNS)}; got {told}")
    given: dict[str, float] = {}
    if users is not None:
        given["users"] = check_count(users, "users", 1)
    if alpha is not None:
        given["alpha"] = check_probability(alpha, "alpha")
    if epsilon is not None:
        given["epsilon"] = check_epsilon(epsilon)
    if confidence is not None:
        given["confidence"] = check_probability(confidence, "confidence")
    unknown = missing[0]
    every = _rows(unknown, given, size, q, d)
    rows = tuple(row for row in every if trust is None or row.trust == trust)
    solved = _verdict_row(rows)
    known_epsilon = given.get("epsilon", solved.value if unknown == "epsilon" else None)
    return Plan(
        missing=unknown,
        given=given,
        size=size,
        quantile=q,
        rows=rows,
        verdict=verdict(unknown, given, solved.value, solved.hardest, size=size, q=q, delta=solved.delta),
        poisoning=liars_in_a_plan(liars, epsilon=known_epsilon, quantile=q),
        warnings=(
            *warnings(unknown, given, solved.value, q, solved.trust),
            *(easier(unknown, given, q, rows[0].value, solved.value) if solved.trust == "local" else ()),
        ),
    )


def _verdict_row(rows: tuple[PlanRow, ...]) -> PlanRow:
    """The default protocol: the first that was measured, in the local model where that is among the rows."""
    return next(row for row in rows if row.kind == "measured")


def _rows(unknown: str, given: dict[str, float], size: int, q: float, delta: float) -> list[PlanRow]:
    def bound(name: str, trust: str, kind: str, needs: Callable[..., float], *uses: str, **fixed: Any) -> PlanRow:
        if unknown not in ("users", *uses):
            return PlanRow(name, trust, kind, None, note=f"says nothing about {unknown}")

        def holds(full: dict[str, float]) -> bool:
            return full["users"] >= needs(**{use: full[use] for use in uses}, **fixed)

        note = _ORDER if kind == "order" else ""
        return PlanRow(name, trust, kind, solve(unknown, given, holds), note=note, delta=fixed.get("delta"))

    two, three = ("alpha", "epsilon"), ("alpha", "epsilon", "confidence")
    big = max(size, 2)
    rows = [
        bound("information limit", "local", "limit", limits.information_limit, *three, quantile=q),
        bound("any adaptive protocol, grows as", "local", "order", limits.adaptive_lower_bound, *two, size=big),
        bound("any non-adaptive one, grows as", "local", "order", limits.non_adaptive_lower_bound, *two, size=big),
        bound("tree, error sketch", "local", "order", limits.tree_sketch, *two, size=big),
        bound("DpBayeSS, theorem", "local", "order", limits.adaptive_upper_bound, *two, size=big),
        bound("naive search, theorem", "local", "sufficient", _naive_sufficient, *three, size=big),
        bound("naive search, theorem", "shuffle", "order", limits.shuffle_order, *three, size=big, delta=delta),
    ]
    for name in calibrated():
        protocol, trust = name.split("/", 1)
        typical, hardest = (
            solve(unknown, given, by_measurement(name, kind, size, q, delta)) for kind in ("typical", "hardest")
        )
        shown = protocol_class(protocol).title + (" (the default)" if protocol == DEFAULT_PROTOCOL else "")
        if "-" in trust:
            trust, method = trust.split("-", 1)
            shown += f", {method} accounting"
        its_delta = delta if trust == "shuffle" else None
        rows.append(PlanRow(shown, trust, "measured", typical, hardest, delta=its_delta))
    return rows


def _naive_sufficient(*, alpha: float, epsilon: float, confidence: float, size: int) -> float:
    return naive_search_users(size=size, alpha=alpha, beta=1 - confidence, epsilon=epsilon)

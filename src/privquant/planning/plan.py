"""Planning: before anyone is asked, say what a collection can reach.

Of users, alpha (rank error), epsilon and confidence give all but one; `plan` solves for the missing one, for
every protocol and trust model side by side:

    limit      everybody asked at the true quantile of the population they were drawn from
    order      a bound of the paper whose constant is open: order of growth only, constant 1
    sufficient a bound of the paper with its constants: this many users are enough
    measured   what our protocols needed in simulation (`privquant.planning.calibration`)
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from privquant.domain import Domain, check_domain
from privquant.errors import InvalidInput
from privquant.planning import limits
from privquant.planning.calibration import calibrated, calibration
from privquant.planning.theory import naive_search_users
from privquant.privacy.poisoning import breakdown, shift
from privquant.validation import check_count, check_epsilon, check_probability, check_quantile

UNKNOWNS = ("users", "alpha", "epsilon", "confidence")

# Where each unknown is looked for. Beyond these a plan is of no use to anyone.
_RANGES = {"users": (1.0, 1e15), "alpha": (1e-7, 0.999), "epsilon": (1e-3, 20.0), "confidence": (1e-3, 1 - 1e-6)}

# The measured tables are for this delta; the coin noise of another grows as sqrt(log(4/delta)).
CALIBRATED_DELTA = 1e-8

_DEFAULT = "isotonic/local"

NAMES = {
    "isotonic": "isotonic search (the default)",
    "bayeslearn": "BayesLearn alone",
    "bayess": "DpBayeSS",
    "naive": "naive search, DpNaiveNBS",
    "hierarchical": "hierarchical mechanism, descent",
}


@dataclass(frozen=True)
class PlanRow:
    """One way to collect, and the missing number for it (None: no value in range does it)."""

    name: str
    trust: str
    kind: str
    value: float | None
    hardest: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, repr=False)
class Plan:
    """The answer: what was given, what was solved for, a row for each way, and the verdict in plain words."""

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
        """The missing number for the default protocol in the local model."""
        return next(r.value for r in self.rows if r.kind == "measured" and r.trust == "local")

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
            if row.kind == "measured":
                line += f"  on the hardest data {show(self.missing, row.hardest)}"
            lines.append(line)
        return "\n".join(lines)


def show(unknown: str, value: float | None) -> str:
    """A solved number as people write it."""
    if value is None:
        return "not reachable"
    if unknown == "users":
        return f"{math.ceil(value):,}"
    if unknown == "alpha":
        return f"{100 * value:.2g} points"
    if unknown == "confidence":
        return f"{value:.1%}"
    return f"{value:.3g}"


def plan(
    *,
    domain: Domain,
    users: int | None = None,
    alpha: float | None = None,
    epsilon: float | None = None,
    confidence: float | None = None,
    quantile: float = 0.5,
    delta: float = CALIBRATED_DELTA,
    liars: float = 0.01,
) -> Plan:
    """Solve for the one of users, alpha, epsilon, confidence that is not given.

    alpha:      rank error allowed: 0.02 means the answer's rank is within 2 percentile points.
    confidence: share of collections that keep it.
    delta:      for the shuffle model. liars: fraction of users who lie, for the poisoning line.
    """
    size = check_domain(domain).size
    q = check_quantile(quantile)
    check_probability(delta, "delta")
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
    rows = tuple(_rows(unknown, given, size, q, delta))
    solved = next(r for r in rows if r.kind == "measured" and r.trust == "local")
    known_epsilon = given.get("epsilon", solved.value if unknown == "epsilon" else None)
    return Plan(
        missing=unknown,
        given=given,
        size=size,
        quantile=q,
        rows=rows,
        verdict=_verdict(unknown, given, solved, size, q),
        poisoning=_poisoning(liars, known_epsilon, q),
        warnings=(*_warnings(unknown, given, solved, q), *_easier(unknown, given, q, rows[0].value, solved.value)),
    )


Holds = Callable[[dict[str, float]], bool]
"""Whether a full plan (users, alpha, epsilon, confidence) is kept."""


def _rows(unknown: str, given: dict[str, float], size: int, q: float, delta: float) -> list[PlanRow]:
    def bound(name: str, trust: str, kind: str, needs: Callable[..., float], *uses: str, **fixed: Any) -> PlanRow:
        if unknown not in ("users", *uses):
            return PlanRow(name, trust, kind, None, note=f"says nothing about {unknown}")

        def holds(full: dict[str, float]) -> bool:
            return full["users"] >= needs(**{use: full[use] for use in uses}, **fixed)

        return PlanRow(name, trust, kind, _solve(unknown, given, holds), note=_ORDER if kind == "order" else "")

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
            _solve(unknown, given, _measured(name, kind, size, q, delta)) for kind in ("typical", "hardest")
        )
        shown = NAMES.get(protocol, protocol)
        if "-" in trust:
            trust, method = trust.split("-", 1)
            shown += f", {method} accounting"
        rows.append(PlanRow(shown, trust, "measured", typical, hardest))
    return rows


def _limit(needed: Callable[..., float], q: float) -> Holds:
    def holds(full: dict[str, float]) -> bool:
        uses = {use: full[use] for use in ("alpha", "epsilon", "confidence")}
        return full["users"] >= needed(**uses, quantile=q)

    return holds


def _naive_sufficient(*, alpha: float, epsilon: float, confidence: float, size: int) -> float:
    return naive_search_users(size=size, alpha=alpha, beta=1 - confidence, epsilon=epsilon)


_ORDER = "order of growth only: the paper leaves the constant open, here it is 1"


def _measured(name: str, kind: str, size: int, q: float, delta: float) -> Holds:
    table = calibration(name)
    noise = math.sqrt(math.log(4 / delta) / math.log(4 / CALIBRATED_DELTA)) if "/shuffle" in name else 1.0

    def holds(full: dict[str, float]) -> bool:
        reached = table.error(
            users=full["users"],
            epsilon=full["epsilon"],
            confidence=full["confidence"],
            size=size,
            quantile=q,
            kind=kind,
        )
        return reached * noise <= full["alpha"]

    return holds


def _solve(unknown: str, given: dict[str, float], holds: Holds) -> float | None:
    """The cheapest value of the unknown that keeps the plan: `holds` changes once over its range."""
    low, high = _RANGES[unknown]
    logarithmic = unknown != "confidence"
    rising = unknown != "confidence"  # more users, alpha, epsilon help; more confidence hurts

    def kept(value: float) -> bool:
        return holds({**given, unknown: value})

    cheap, dear = (low, high) if rising else (high, low)
    if not kept(dear):
        return None
    if kept(cheap):
        return cheap
    for _ in range(60):
        middle = math.sqrt(cheap * dear) if logarithmic else (cheap + dear) / 2
        if kept(middle):
            dear = middle
        else:
            cheap = middle
    return dear


def _verdict(unknown: str, given: dict[str, float], row: PlanRow, size: int, q: float) -> str:
    value = row.value
    goal = _goal(given, q)
    if value is None:
        return f"This plan cannot work: {goal} is out of reach at any {unknown} up to {_RANGES[unknown][1]:g}."
    if unknown == "alpha":
        half = {**given, "confidence": 0.5}
        middle = calibration(_DEFAULT).error(
            users=half["users"], epsilon=half["epsilon"], confidence=0.5, size=size, quantile=q
        )
        # Among the shapes are some whose ties forgive every error; nobody should count on those.
        middle = max(middle, _solve("alpha", half, _limit(limits.information_limit, q)) or 0.0)
        return (
            f"{given['users']:,.0f} people at epsilon {given['epsilon']:g}: expect an error of "
            f"{100 * middle:.2g} percentile points, and up to {100 * value:.2g} in "
            f"{given['confidence']:.0%} of collections on typical data, "
            f"{show(unknown, row.hardest)} on the hardest measured."
        )
    hardest = "out of reach" if row.hardest is None else show(unknown, row.hardest)
    return f"For {goal}: {unknown} {show(unknown, value)} on typical data, {hardest} on the hardest measured."


def _goal(given: dict[str, float], q: float) -> str:
    parts = [f"the {q:g} quantile"]
    if "alpha" in given:
        parts.append(f"within {100 * given['alpha']:g} percentile points")
    if "confidence" in given:
        parts.append(f"in {given['confidence']:.0%} of collections")
    if "epsilon" in given:
        parts.append(f"at epsilon {given['epsilon']:g}")
    if "users" in given:
        parts.append(f"from {given['users']:,.0f} people")
    return " ".join(parts)


def _warnings(unknown: str, given: dict[str, float], row: PlanRow, q: float) -> list[str]:
    """Plain words where a plan would disappoint."""
    said = []
    value = row.value
    alpha = given.get("alpha", value if unknown == "alpha" else None)
    if alpha is not None and alpha >= 0.08:
        said.append(
            f"This will not tell much: an error of {100 * alpha:.2g} percentile points turns the median into "
            f"anything from rank {100 * max(0.5 - alpha, 0):.0f} % to {100 * min(0.5 + alpha, 1):.0f} %. "
            "Ask more people or raise epsilon."
            if q == 0.5
            else f"This will not tell much: the answer's rank may be off by {100 * alpha:.2g} percentile points."
        )
    if alpha is not None and alpha >= min(q, 1 - q):
        said.append(
            f"An error of {100 * alpha:.2g} points makes the {q:g} quantile trivial: "
            "an end of the domain is as good."
        )
    if unknown == "confidence" and value is not None and value < 0.5:
        said.append(f"This plan will fail more often than not: only {value:.0%} of collections keep it.")
    epsilon = given.get("epsilon", value if unknown == "epsilon" else None)
    if epsilon is not None and epsilon > 5:
        said.append(
            f"Epsilon {epsilon:.3g} protects little: "
            f"an answer is the truth {1 / (1 + math.exp(-epsilon)):.2%} of the time."
        )
    return said


def _easier(
    unknown: str, given: dict[str, float], q: float, limit: float | None, measured: float | None
) -> list[str]:
    """Said where the measured number is better than the limit: because values repeat in the data measured, or only
    because it is about the very people asked, of whom there is no sampling error.
    """
    if measured is None:
        return []
    word = f"{unknown} {'at most' if unknown == 'confidence' else 'at least'}"
    own = _solve(unknown, given, _limit(limits.limit_of_the_asked, q))
    if own is not None and _better(unknown, measured, own):
        return [
            "This counts on values that repeat, as in the data measured. "
            f"Without ties: {word} {show(unknown, own)}."
        ]
    if limit is not None and _better(unknown, measured, limit):
        return [
            "This is about the very people asked. For the quantile of a population they are drawn from: "
            f"{word} {show(unknown, limit)}."
        ]
    return []


def _better(unknown: str, measured: float, limit: float) -> bool:
    """Beyond what a table of measured errors leaves open."""
    return measured > limit + 0.02 if unknown == "confidence" else measured < 0.95 * limit


def _poisoning(liars: float, epsilon: float | None, q: float) -> str:
    if epsilon is None:
        return "No epsilon does it, so nothing can be said about liars."
    anywhere = breakdown(epsilon=epsilon, quantile=q)
    if liars >= anywhere:
        return f"{liars:.1%} liars can move the answer to an end of the domain (from {100 * anywhere:.2g}% on)."
    moved = shift(liars, epsilon=epsilon, quantile=q)
    return (
        f"{liars:.1%} liars can move the answer's rank by {100 * moved.low:+.2g} to {100 * moved.high:+.2g} "
        f"percentile points; {anywhere:.1%} can move it to an end of the domain."
    )

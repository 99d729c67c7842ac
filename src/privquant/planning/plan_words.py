"""A plan in plain words: numbers as people write them, the verdict, and warnings where it would disappoint."""

from __future__ import annotations

import math

from privquant.planning import limits
from privquant.planning.calibration import calibration
from privquant.planning.solving import RANGES, by_limit, noise_of_delta, solve
from privquant.protocols.registry import DEFAULT_PROTOCOL

DEFAULT = {trust: f"{DEFAULT_PROTOCOL}/{trust}" for trust in ("local", "shuffle")}
"""The way of collecting a plan's verdict speaks of."""


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


def verdict(
    unknown: str,
    given: dict[str, float],
    value: float | None,
    hardest: float | None,
    *,
    size: int,
    q: float,
    delta: float | None = None,
) -> str:
    """What the plan comes to on typical data and on the hardest measured; shuffled where there is a delta."""
    mixed = "" if delta is None else f" shuffled (delta {delta:g})"
    goal = _goal(given, q) + mixed
    if value is None:
        return f"This plan cannot work: {goal} is out of reach at any {unknown} up to {RANGES[unknown][1]:g}."
    if unknown == "alpha":
        half = {**given, "confidence": 0.5}
        middle = calibration(DEFAULT["local" if delta is None else "shuffle"]).error(
            users=half["users"], epsilon=half["epsilon"], confidence=0.5, size=size, quantile=q
        )
        if delta is None:
            # Among the shapes are some whose ties forgive every error; nobody should count on those.
            middle = max(middle, solve("alpha", half, by_limit(limits.information_limit, q)) or 0.0)
        else:
            middle *= noise_of_delta(delta)
        return (
            f"{given['users']:,.0f} people at epsilon {given['epsilon']:g}{mixed}: expect an error of "
            f"{100 * middle:.2g} percentile points, and up to {100 * value:.2g} in "
            f"{given['confidence']:.0%} of collections on typical data, "
            f"{show(unknown, hardest)} on the hardest measured."
        )
    worst = "out of reach" if hardest is None else show(unknown, hardest)
    return f"For {goal}: {unknown} {show(unknown, value)} on typical data, {worst} on the hardest measured."


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


def warnings(
    unknown: str, given: dict[str, float], value: float | None, q: float, trust: str = "local"
) -> list[str]:
    """Plain words where a plan would disappoint."""
    said = []
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
        why = f": an answer is the truth {1 / (1 + math.exp(-epsilon)):.2%} of the time" if trust == "local" else ""
        said.append(f"Epsilon {epsilon:.3g} protects little{why}.")
    return said


def easier(
    unknown: str, given: dict[str, float], q: float, limit: float | None, measured: float | None
) -> list[str]:
    """Said where the measured number is better than the limit: because values repeat in the data measured, or only
    because it is about the very people asked, of whom there is no sampling error.
    """
    if measured is None:
        return []
    word = f"{unknown} {'at most' if unknown == 'confidence' else 'at least'}"
    own = solve(unknown, given, by_limit(limits.limit_of_the_asked, q))
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

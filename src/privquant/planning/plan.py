"""Planning: before anyone is asked, say what a collection can reach.

Of users, alpha (rank error), epsilon and confidence give all but one; `plan` solves for the missing one, for
every protocol and trust model side by side:

    limit      everybody asked at the true quantile of the population they were drawn from
    order      a bound of the paper whose constant is open: order of growth only, constant 1
    sufficient a bound with its constants: this many users are enough
    measured   what our protocols needed in simulation (`privquant.planning.calibration`)
    simulated  what this job came to on people drawn from its pilot (`privquant.planning.simulated`)

Several quantiles of one run, a certified interval, rounds and users in flight are planned for isotonic search. A
pilot makes values of ranks, and has the job simulated.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from privquant.domain import Domain, given_domain
from privquant.errors import InvalidInput
from privquant.planning.calibration import CALIBRATED_DELTA
from privquant.planning.paces import Pace
from privquant.planning.pilot import pilot_of
from privquant.planning.plan_rows import PlanRow, default_row, on_the_pilot, rows_of
from privquant.planning.plan_words import ABOUT, details, facts, show, verdict, warnings
from privquant.planning.shuffled_coins import liars_face
from privquant.planning.simulated import beginning, runs_by_default, simulated
from privquant.planning.solving import UNKNOWNS, Job
from privquant.planning.statement import liars_in_a_plan
from privquant.planning.targets import Target, targets_of
from privquant.protocols.registry import check_trust
from privquant.validation import check_count, check_epsilon, check_probability, check_quantiles


@dataclass(frozen=True, repr=False)
class Plan:
    """The answer: the verdict in one sentence, and what it rests on.

    Parameters
    ----------
    missing : str
        The number that was solved for.
    given : dict
        The other three.
    size : int
        Of the domain.
    quantile : float or tuple of float
        The quantile wanted, or all of one run.
    rows : tuple of PlanRow
        Every way to collect, with the missing number for it.
    verdict : str
        What it comes to, in one sentence.
    poisoning : str
        What liars can do.
    warnings : tuple of str
        Where the plan would disappoint.
    targets : tuple of Target
        What each quantile reaches, in rank and by the pilot in values.
    details : tuple of str
        The same in words, and what the plan is about.
    """

    missing: str
    given: dict[str, float]
    size: int
    quantile: float | tuple[float, ...]
    rows: tuple[PlanRow, ...]
    verdict: str
    poisoning: str
    warnings: tuple[str, ...] = field(default=())
    targets: tuple[Target, ...] = field(default=())
    details: tuple[str, ...] = field(default=())

    @property
    def value(self) -> float | None:
        """The missing number for the default protocol, under the trust the plan is for; on the pilot, if there is
        one."""
        return default_row(self.rows).value

    def to_dict(self) -> dict[str, Any]:
        form = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return form | {
            "quantile": list(self.quantile) if isinstance(self.quantile, tuple) else self.quantile,
            "rows": [row.to_dict() for row in self.rows],
            "warnings": list(self.warnings),
            "targets": [target.to_dict() for target in self.targets],
            "details": list(self.details),
        }

    def __repr__(self) -> str:
        return f"Plan({self.verdict})"

    def __str__(self) -> str:
        lines = [self.verdict, *self.warnings, *self.details, self.poisoning, ""]
        width = max(len(row.name) for row in self.rows)
        for row in self.rows:
            line = f"{row.name:{width}}  {row.trust:7}  {row.kind:10}  {show(self.missing, row.value):>13}"
            if row.delta is not None:
                line += f"  delta {row.delta:g}"
            if row.kind == "measured" and not row.note:
                line += f"  lumpy data {show(self.missing, row.lumpy)}"
                line += f"  the hardest {show(self.missing, row.hardest)}"
            lines.append(line)
        return "\n".join([*lines, "", *ABOUT])


def plan(
    *,
    domain: Domain,
    users: int | None = None,
    alpha: float | None = None,
    epsilon: float | None = None,
    confidence: float | None = None,
    quantile: float | Sequence[float] | None = None,
    q: float | Sequence[float] | None = None,
    trust: str | None = None,
    delta: float | None = None,
    interval: float | None = None,
    rounds: int | None = None,
    in_flight: int | None = None,
    pilot: Any = None,
    unit: str = "",
    liars: float = 0.01,
    calibration: str | Path | None = None,
    simulate: int | None = None,
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
        Share of collections that keep alpha, for each quantile.
    quantile : float or sequence of float, optional
        The quantile wanted, or several that one run is to find; the median unless given.
    q : float or sequence of float, optional
        The same by its short name.
    trust : {"local", "shuffle"}, optional
        Plan for that alone; without it the rows show both and whoever holds the data (central), and the verdict is
        about the local model.
    delta : float, optional
        Of the rows in the shuffle model; 1e-8 unless given.
    interval : float, optional
        The confidence of a certified interval that the run is to give as well.
    rounds, in_flight : int, optional
        Feedback rounds (that grow), or users asked before the first answers; at most one of them. Thresholds are
        then spread by 0.25, as the service does.
    pilot : column, path, or name of a shape, optional
        Values like those to be asked for: errors are then told in their unit too, and ties are taken from them.
    unit : str
        Of the values, for the words: "ms", "EUR".
    liars : float
        Fraction of users who lie, for the line about poisoning.
    calibration : path, optional
        A file of `python -m studies calibration`, instead of the shipped one or of PRIVQUANT_CALIBRATION.
    simulate : int, optional
        With a pilot: run the job so many times on people drawn from it, and say what came out instead of what is
        typical of smooth data; 0 keeps to the laws. Unless given, 600 where numba is installed (some seconds, and
        once a quarter of a minute to compile), 0 without it; with users in flight, who are asked one by one, fewer,
        and from 6,000 users on none.

    Returns
    -------
    Plan
        It prints its verdict first, then details and a table.

    Examples
    --------
    >>> import privquant as pq
    >>> pq.plan(domain=(0, 500_000), alpha=0.02, epsilon=1.0, confidence=0.95).missing
    'users'
    """
    space = given_domain(domain)
    if quantile is not None and q is not None:
        raise InvalidInput("q is short for quantile: give one of them")
    named = quantile if q is None else q
    asked = tuple(sorted(set(check_quantiles(0.5 if named is None else named, rising=False))))
    d = CALIBRATED_DELTA if delta is None else check_probability(delta, "delta")
    if trust is not None:
        check_trust(trust, d if trust == "shuffle" else delta)
    if isinstance(liars, bool) or not isinstance(liars, numbers.Real) or not 0 <= liars < 1:
        raise InvalidInput(f"liars must be a fraction in [0, 1), got {liars!r}")
    pace = _pace(asked, interval, rounds, in_flight, trust)
    unknown, given = _given(users, alpha, epsilon, confidence)
    if simulate is not None and check_count(simulate, "simulate", 0) and pilot is None:
        raise InvalidInput("simulate runs the job on people drawn from its pilot: give one as pilot=")
    values = None if pilot is None else pilot_of(pilot, space)
    job = Job(space.size, asked, d, pace, values, calibration)
    rows = rows_of(unknown, given, job, trust)
    solved = default_row(rows)
    targets: tuple[Target, ...] = ()
    begin = beginning(unknown, solved.value)
    if begin is not None:
        runs = runs_by_default({**given, unknown: begin}["users"], job) if simulate is None else simulate
        job = replace(job, simulate=runs)
        if runs:
            found, targets = simulated(unknown, given, job, solved.trust, begin)
            solved = on_the_pilot(solved, found)
            rows = (solved, *rows)
    full = given if solved.value is None else {**given, unknown: solved.value}
    if solved.value is not None and not job.simulate:
        targets = targets_of(unknown, full, job, solved.trust)
    return Plan(
        missing=unknown,
        given=given,
        size=space.size,
        quantile=asked[0] if len(asked) == 1 else asked,
        rows=rows,
        verdict=verdict(unknown, given, solved, targets, job, unit),
        poisoning=_poisoning(liars, _coin(full, job, solved.trust), asked),
        warnings=tuple(warnings(unknown, full, job, solved, targets)),
        targets=targets,
        details=(*details(targets, job, unit), *facts(unknown, given, job, solved)),
    )


def _given(
    users: int | None, alpha: float | None, epsilon: float | None, confidence: float | None
) -> tuple[str, dict[str, float]]:
    """The unknown, and the three others, checked."""
    asked = {"users": users, "alpha": alpha, "epsilon": epsilon, "confidence": confidence}
    missing = [name for name, value in asked.items() if value is None]
    if len(missing) != 1:
        told = ", ".join(name for name, value in asked.items() if value is not None) or "none of them"
        raise InvalidInput(f"give all but one of {', '.join(UNKNOWNS)}; got {told}")
    checks: dict[str, Callable[[float, str], float]]
    checks = {"users": lambda users, name: check_count(users, name, 1), "epsilon": check_epsilon}
    known = {name: value for name, value in asked.items() if value is not None}
    return missing[0], {name: checks.get(name, check_probability)(value, name) for name, value in known.items()}


def _pace(
    quantiles: tuple[float, ...],
    interval: float | None,
    rounds: int | None,
    in_flight: int | None,
    trust: str | None,
) -> Pace:
    if rounds is not None and in_flight is not None:
        raise InvalidInput("give at most one of rounds and in_flight, got both")
    found = Pace(
        quantiles if len(quantiles) > 1 else (),
        None if interval is None else check_probability(interval, "interval"),
        None if rounds is None else check_count(rounds, "rounds", 2),
        None if in_flight is None else check_count(in_flight, "in_flight", 1),
    )
    if trust == "shuffle" and not found.plain:
        raise InvalidInput(
            "shuffled rounds are planned for one quantile without an interval: they bring their own rounds, and "
            "nothing else was measured"
        )
    return found


def _poisoning(liars: float, coin: float | None, quantiles: tuple[float, ...]) -> str:
    """What liars can do; to the most exposed of several quantiles, the one that is nearest to an end."""
    exposed = min(quantiles, key=lambda q: min(q, 1.0 - q))
    said = liars_in_a_plan(liars, epsilon=coin, quantile=exposed)
    return said if len(quantiles) == 1 else f"At the {exposed:g} quantile: {said}"


def _coin(full: dict[str, float], job: Job, trust: str) -> float | None:
    """The epsilon of the coin that liars face: in shuffled rounds it is far more honest than epsilon."""
    if "epsilon" not in full or trust == "local":
        return full.get("epsilon")
    if "users" not in full:
        return None
    return liars_face(float(int(full["users"])), full["epsilon"], job.delta, job.size)

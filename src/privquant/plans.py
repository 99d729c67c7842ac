"""The public face of planning: `privquant.plan` checks what was given and hands a job to `privquant.planning`.

A pilot named by its file or its shape is read by the lab, and the lab runs the job on people drawn from a pilot. It
is loaded only then.
"""

import numbers
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from privquant.domain import Domain, given_domain
from privquant.errors import InvalidInput
from privquant.planning.asking import AskingSchedule
from privquant.planning.calibration import CALIBRATED_DELTA
from privquant.planning.pilot import Pilot, pilot_of, pilot_of_indices
from privquant.planning.plan import Plan, make_plan
from privquant.planning.solving import UNKNOWNS, Job
from privquant.protocols.registry import check_trust
from privquant.validation import check_count, check_epsilon, check_probability, check_quantiles


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
        A file of `python -m studies calibration`, instead of the shipped one or that of PRIVQUANT_CALIBRATION.
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
    schedule = _schedule(asked, interval, rounds, in_flight, trust)
    unknown, given = _given({"users": users, "alpha": alpha, "epsilon": epsilon, "confidence": confidence})
    if simulate is not None and check_count(simulate, "simulate", 0) and pilot is None:
        raise InvalidInput("simulate runs the job on people drawn from its pilot: give one as pilot=")
    job = Job(space.size, asked, d, schedule, _pilot(pilot, space), calibration)
    return make_plan(
        unknown, given, job, trust=trust, unit=unit, liars=liars, simulate=simulate, rehearse=_rehearse
    )


def _given(asked: dict[str, float | None]) -> tuple[str, dict[str, float]]:
    """The unknown, and the three others, checked."""
    missing = [name for name, value in asked.items() if value is None]
    if len(missing) != 1:
        told = ", ".join(name for name, value in asked.items() if value is not None) or "none of them"
        raise InvalidInput(f"give all but one of {', '.join(UNKNOWNS)}; got {told}")
    checks: dict[str, Callable[[float, str], float]]
    checks = {"users": lambda users, name: check_count(users, name, 1), "epsilon": check_epsilon}
    known = {name: value for name, value in asked.items() if value is not None}
    return missing[0], {name: checks.get(name, check_probability)(value, name) for name, value in known.items()}


def _schedule(
    quantiles: tuple[float, ...],
    interval: float | None,
    rounds: int | None,
    in_flight: int | None,
    trust: str | None,
) -> AskingSchedule:
    if rounds is not None and in_flight is not None:
        raise InvalidInput("give at most one of rounds and in_flight, got both")
    found = AskingSchedule(
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


def _pilot(given: Any, domain: Domain) -> Pilot | None:
    """The pilot from a column of values, the name of a file of them, or of a shape of the lab."""
    if given is None or isinstance(given, Pilot):
        return given
    if isinstance(given, str) or hasattr(given, "__fspath__"):
        from privquant.lab.data import pilot_indices

        return pilot_of_indices(pilot_indices(given, domain), domain)
    return pilot_of(given, domain)


def _rehearse(job: Job, users: int, epsilon: float, trust: str, progress: bool) -> Any:
    from privquant.lab.rehearsal import rehearsed

    return rehearsed(job, users=users, epsilon=epsilon, trust=trust, progress=progress)

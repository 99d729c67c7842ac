"""Planning: before anyone is asked, say what a collection can reach.

Of users, alpha (rank error), epsilon and confidence give all but one; `make_plan` solves for the missing one, for
every protocol and trust model side by side:

    limit      everybody asked at the true quantile of the population they were drawn from
    order      a bound of the paper whose constant is open: order of growth only, constant 1
    sufficient a bound with its constants: this many users are enough
    measured   what our protocols needed in simulation (`privquant.planning.calibration`)
    simulated  what this job came to on people drawn from its pilot (`privquant.planning.targets`)

Several quantiles of one run, a certified interval, rounds and users in flight are planned for isotonic search. A
pilot makes values of ranks, and has the job simulated.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

from privquant.planning.calibration import liars_face
from privquant.planning.plan_words import ABOUT, details, facts, show, verdict, warnings
from privquant.planning.solving import Job, PlanRow, default_row, rows_of
from privquant.planning.statement import liars_in_a_plan
from privquant.planning.targets import LARGE_EPSILON, Rehearse, Target, runs_by_default, simulated, targets_of


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
    warnings: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    details: tuple[str, ...] = ()

    @property
    def value(self) -> float | None:
        """The missing number for the default protocol, under the trust the plan is for; on the pilot, if there is
        one."""
        return default_row(self.rows).value

    def to_dict(self) -> dict[str, Any]:
        return {name: list(part) if isinstance(part, tuple) else part for name, part in asdict(self).items()}

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


def make_plan(
    unknown: str,
    given: dict[str, float],
    job: Job,
    *,
    trust: str | None = None,
    unit: str = "",
    liars: float = 0.01,
    simulate: int | None = None,
    rehearse: Rehearse | None = None,
) -> Plan:
    """The plan of a job for the one of users, alpha, epsilon, confidence that is not given; see `privquant.plan`.

    rehearse: runs a job on people drawn from its pilot; needed where there is a pilot.
    """
    rows = rows_of(unknown, given, job, trust)
    solved = default_row(rows)
    targets: tuple[Target, ...] = ()
    # Where the laws know no epsilon that would do, it is looked for from a large one on.
    begin = LARGE_EPSILON if solved.value is None and unknown == "epsilon" else solved.value
    if begin is not None:
        runs = runs_by_default({**given, unknown: begin}["users"], job) if simulate is None else simulate
        job = replace(job, simulate=runs)
        if runs:
            assert rehearse is not None
            found, targets = simulated(unknown, given, job, solved.trust, begin, rehearse)
            of = "people drawn from the pilot"
            solved = replace(solved, kind="simulated", value=found, lumpy=None, hardest=None, note=of)
            rows = (solved, *rows)
    # Of several quantiles the one that is nearest to an end is the most exposed to liars.
    exposed = min(job.quantiles, key=lambda q: min(q, 1.0 - q))
    where = "" if len(job.quantiles) == 1 else f"At the {exposed:g} quantile: "
    full = given if solved.value is None else {**given, unknown: solved.value}
    if solved.value is not None and not job.simulate:
        targets = targets_of(unknown, full, job, solved.trust)
    return Plan(
        missing=unknown,
        given=given,
        size=job.size,
        quantile=job.quantiles[0] if len(job.quantiles) == 1 else job.quantiles,
        rows=rows,
        verdict=verdict(unknown, given, solved, targets, job, unit),
        poisoning=where + liars_in_a_plan(liars, epsilon=_coin(full, job, solved.trust), quantile=exposed),
        warnings=tuple(warnings(unknown, full, job, solved, targets)),
        targets=targets,
        details=(*details(targets, job, unit), *facts(unknown, given, job, solved)),
    )


def _coin(full: dict[str, float], job: Job, trust: str) -> float | None:
    """The epsilon of the coin that liars face: in shuffled rounds it is far more honest than epsilon."""
    if "epsilon" not in full or trust == "local":
        return full.get("epsilon")
    if "users" not in full:
        return None
    return liars_face(float(int(full["users"])), full["epsilon"], job.delta, job.size)

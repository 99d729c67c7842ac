"""A plan in plain words: numbers as people write them, the verdict, details, warnings where it would disappoint."""

import math
from collections.abc import Iterator

from privquant.planning.solving import RANGES, Job, PlanRow, bounds, by_measurement, solve
from privquant.planning.targets import DEFAULT, Target

ABOUT = (
    "typical: values spread smoothly around the quantile, as times, distances or unrounded pay are.",
    "lumpy: rounded or repeated values, many zeros, gaps, or all values in a tiny part of the domain; an average "
    "over such data, of which some fare far worse.",
    "hardest: made to mislead; nearly all sit at the two ends of the domain and the quantile on a single value.",
)
"""What the three kinds of data are."""

KINDS = (
    "limit: everyone asked at the true quantile of the population they were drawn from.",
    "order: order of growth only, constant 1. sufficient: enough for any data, by proof.",
    "measured: simulated, for the quantile of the very people asked.",
    "simulated: the same on people drawn from the pilot.",
)
"""What the kinds of rows are."""

# A crowd of the pilot on one value that is worth a word, in rank errors of half of the collections.
_CROWD = 2.0


def show(unknown: str, value: float | None) -> str:
    """A solved number as people write it."""
    if value is None:
        return "not reachable"
    written = {"users": f"{math.ceil(value):,}", "alpha": f"{100 * value:.2g} points", "confidence": f"{value:.1%}"}
    return written.get(unknown, f"{value:.3g}")


def verdict(
    unknown: str,
    given: dict[str, float],
    row: PlanRow,
    targets: tuple[Target, ...],
    job: Job,
    unit: str,
) -> str:
    """What the plan comes to, in one sentence."""
    mixed = "" if row.delta is None else f" shuffled (delta {row.delta:g})"
    goal = _goal(given, job, mixed)
    if row.value is None:
        return f"This plan cannot work: {goal} is out of reach at any {unknown} up to {RANGES[unknown][1]:g}."
    data = "are like the pilot" if job.simulate else f"are smooth{_harder(unknown, row)}"
    if unknown == "alpha":
        people = f"{given['users']:,.0f} people at epsilon {given['epsilon']:g}{mixed}{_how(job)}"
        return f"{people}: {_reached(targets, given['confidence'], job, unit)} if the data {data}."
    if unknown == "users":
        return f"For {goal}: ask {show(unknown, row.value)} people if the data {data}."
    return f"For {goal}: {unknown} {show(unknown, row.value)} if the data {data}."


def _harder(unknown: str, row: PlanRow) -> str:
    if row.note:
        return ""
    lumpy, hardest = (
        "out of reach" if value is None else show(unknown, value) for value in (row.lumpy, row.hardest)
    )
    return f" ({lumpy} if they are lumpy, {hardest} for the hardest data)"


def _reached(targets: tuple[Target, ...], confidence: float, job: Job, unit: str) -> str:
    often = f"in {confidence:.0%} of collections"
    if len(targets) > 1:
        errors = [f"{100 * target.alpha:.2g}" for target in targets]
        each = f"{', '.join(errors[:-1])} and {errors[-1]} percentile points"
        return f"{_quantiles(job)} come out within {each} {often}"
    (target,) = targets
    said = f"expect an error of {100 * target.expected:.2g} percentile points, and up to {100 * target.alpha:.2g} "
    return said + often + ("" if job.pilot is None else f" ({_range(target, unit)})")


def _number(value: int | float | None) -> str:
    """To four digits: a pilot tells no more."""
    if value is None:
        return "no bound"
    return f"{float(f'{value:.4g}'):,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _range(target: Target, unit: str) -> str:
    word = f" {unit}" if unit else ""
    low, high, pilot = (f"{_number(value)}{word}" for value in (target.low, target.high, target.value))
    if target.low is None and target.high is None:
        return f"anything, where the pilot has {pilot}"
    if target.low is None or target.high is None:
        return f"{'at most ' + high if target.low is None else 'at least ' + low}, where the pilot has {pilot}"
    return f"{_number(target.low)} to {high}, where the pilot has {pilot}"


def _goal(given: dict[str, float], job: Job, mixed: str) -> str:
    each = "each " if len(job.quantiles) > 1 else ""
    words = {"confidence": "in {:.0%} of collections", "epsilon": "at epsilon {:g}", "users": "from {:,.0f} people"}
    parts = [words[name].format(given[name]) for name in words if name in given]
    if "alpha" in given:
        parts.insert(0, f"{each}within {100 * given['alpha']:g} percentile points")
    return " ".join([_quantiles(job), *parts]) + mixed + _how(job)


def _quantiles(job: Job) -> str:
    names = [f"{q:g}" for q in job.quantiles]
    return (
        f"the {', '.join(names[:-1])} and {names[-1]} quantiles" if len(names) > 1 else f"the {names[0]} quantile"
    )


def _how(job: Job) -> str:
    words = (
        (job.schedule.interval, " with a {:.0%} certified interval"),
        (job.schedule.rounds, " in {} rounds"),
        (job.schedule.in_flight, " with {:,} in flight"),
    )
    return "".join(said.format(number) for number, said in words if number is not None)


def details(targets: tuple[Target, ...], job: Job, unit: str) -> Iterator[str]:
    """A line for each quantile where the verdict has not said it all."""
    if job.simulate and targets:
        yield f"What {job.simulate:,} simulated collections came to, on people drawn from the pilot:"
    for target in targets:
        many = len(job.quantiles) > 1
        parts = [f"an error of {100 * target.expected:.2g} points in half of the collections"]
        parts.append(f"up to {100 * target.alpha:.2g} points in {100 * target.success:.3g} %")
        if job.pilot is not None:
            parts.append(_range(target, unit))
        if job.schedule.interval is not None:
            wide = "open at an end" if target.width is None else f"at most {100 * target.width:.2g} points wide"
            parts.append(f"certified intervals {wide} in half of the collections")
        if many or job.pilot is not None or job.schedule.interval is not None:
            yield f"{target.quantile:g} quantile: {', '.join(parts)}."


def facts(unknown: str, given: dict[str, float], job: Job, row: PlanRow) -> Iterator[str]:
    """What the plan is about, and what others need."""
    if row.value is None:
        return
    if job.simulate:
        yield "Ranks are those among the very people asked; values allow for these and the pilot being samples."
    else:
        wider = solve(unknown, given, by_measurement(DEFAULT[row.trust], "typical", job, population=True))
        yield (
            "This is about the very people asked. For a population they are drawn from at random: "
            f"{unknown} {show(unknown, wider)}."
        )
        if job.pilot is not None:
            yield (
                "It is what laws for smooth data say, not simulated on the pilot: a quantile far out, in a heavier "
                "tail than most, does worse."
            )
    held = bounds(unknown, given, job)[-1].value
    if held is not None:
        yield f"If you hold the data already, use central privacy (OpenDP): {unknown} {show(unknown, held)}."
    if job.pilot is None:
        plain = solve(unknown, given, by_measurement(DEFAULT[row.trust], "typical", job, ties=False))
        if _better(unknown, row.value, plain):
            yield (
                f"This counts on ties: among {job.size:,} possible values some people must share theirs. "
                f"Without ties: {unknown} {show(unknown, plain)}."
            )


def warnings(
    unknown: str, full: dict[str, float], job: Job, row: PlanRow, targets: tuple[Target, ...]
) -> Iterator[str]:
    """Plain words where a plan would disappoint."""
    for q in job.quantiles:
        alpha = next((t.alpha for t in targets if t.quantile == q and unknown == "alpha"), full.get("alpha"))
        if alpha is not None and alpha >= min(q, 1.0 - q):
            end, which = ("largest", 1.0 - q) if q >= 0.5 else ("smallest", q)
            yield (
                f"An error of {100 * alpha:.2g} points makes the {q:g} quantile trivial: with {100 * which:.2g} "
                f"points beyond it the {end} value of all would do."
            )
        elif alpha is not None and alpha >= 0.08:
            low, high = 100 * max(q - alpha, 0), 100 * min(q + alpha, 1)
            yield (
                f"This will not tell much: an error of {100 * alpha:.2g} percentile points turns the {q:g} "
                f"quantile into anything from rank {low:.0f} % to {high:.0f} %. "
                "Ask more people or raise epsilon."
            )
    if unknown == "confidence" and row.value is not None and row.value < 0.5:
        yield f"This plan will fail more often than not: only {row.value:.0%} of collections keep it."
    epsilon = full.get("epsilon")
    if epsilon is not None and epsilon > 5:
        truth = f": an answer is the truth {1 / (1 + math.exp(-epsilon)):.2%} of the time"
        yield f"Epsilon {epsilon:.3g} protects little{truth if row.trust == 'local' else ''}."
    if job.pilot is not None:
        yield from _of_the_pilot(job, targets)


def _of_the_pilot(job: Job, targets: tuple[Target, ...]) -> Iterator[str]:
    assert job.pilot is not None
    for target in targets:
        if job.pilot.users * target.expected**2 < target.quantile * (1.0 - target.quantile):
            yield (
                f"The pilot has {job.pilot.users:,} values: it knows the {target.quantile:g} quantile no better "
                "than the collection itself, so the values said are a guess."
            )
        crowded, share = job.pilot.shared_value(target.quantile, target.alpha)
        if share > _CROWD * target.expected and not job.simulate:
            yield (
                f"{share:.0%} of the pilot share the value {_number(crowded)} near the {target.quantile:g} "
                "quantile: count on what is said of lumpy data."
            )


def _better(unknown: str, measured: float, other: float | None) -> bool:
    """Beyond what a law leaves open."""
    if other is None:
        return True
    return measured > other + 0.01 if unknown == "confidence" else measured < 0.95 * other

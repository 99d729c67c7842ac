"""The whole driver: a protocol asks, a population answers."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from privquant.columns import to_indices
from privquant.errors import InvalidInput
from privquant.lab.data.outside import warned
from privquant.lab.populations import population_of
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.messages import AnyQuery, Estimate, Query
from privquant.planning.statement import stated
from privquant.protocols.base import Protocol, ThresholdProtocol

Progress = Callable[[int, int], None]
"""Called with (users heard, users planned) after every batch."""


def run(
    protocol: Protocol,
    population: Any,
    *,
    batch: int | None = None,
    rounds: int | None = None,
    in_flight: int | None = None,
    schedule: Schedule | None = None,
    rng: Any = None,
    progress: Progress | None = None,
) -> Estimate:
    """Ask until the protocol is finished; its estimate, with what may be said of it.

    Parameters
    ----------
    protocol : Protocol
        A protocol that has users left to ask; `protocol.fresh()` gives one that was used anew.
    population : column, Sample, or object that answers
        A column of values (list, numpy, pandas, polars, arrow), one a user, in the protocol's domain; or an object
        with `answer(queries)` or `answer_counts(query, count)`, such as `Users`, or with `answer_round(pairs)`,
        such as `privquant.engines.RayPopulation`.
    batch, rounds, in_flight : int, optional
        Users asked at a time; or feedback rounds, of the sizes that are best for that many; or users asked before
        the first answers, then one for one. At most one of these and `schedule`.
    schedule : Schedule, optional
        Any schedule of `privquant.lab.schedule`.
    rng : seed or numpy Generator, optional
        For a column: of the simulated coins and the order of users. A population has its own.
    progress : callable, optional
        Called with (users heard, users planned) after every batch.

    Returns
    -------
    Estimate
        Of the first quantile; `protocol.estimates()` has all of them.

    Examples
    --------
    >>> import privquant as pq
    >>> protocol = pq.protocol("isotonic", (0, 99), users=2000, epsilon=2.0)
    >>> pq.run(protocol, [40] * 1000 + [60] * 1000, rng=1).users
    2000
    """
    named = Schedule.of(batch=batch, rounds=rounds, in_flight=in_flight)
    if schedule is not None and named.kind != "suggested":
        raise InvalidInput("give a schedule, or one of batch, rounds and in_flight, not both")
    chosen = schedule or named
    chosen.check(protocol)
    _refuse_used(protocol)
    if any(hasattr(population, name) for name in ("answer", "answer_counts", "answer_round")):
        if rng is not None:
            raise InvalidInput("rng goes with a column of values; a population has a generator of its own")
        drive(protocol, population, chosen, progress=progress)
        return stated(protocol.estimate(), protocol)
    column = None if isinstance(population, Sample) else to_indices(population, protocol.domain)
    sample = population if column is None else Sample(column.indices, protocol.domain.size)
    if sample.n < protocol.users - protocol.asked:
        raise InvalidInput(
            f"the protocol is to ask {protocol.users - protocol.asked:,} users, but there are {sample.n:,} values"
        )
    users = population_of(protocol, sample, generator(rng), chosen)
    drive(protocol, users, chosen, progress=progress)
    found = stated(protocol.estimate(), protocol)
    return found if column is None else warned(found, column, protocol.domain)


def generator(rng: Any) -> np.random.Generator:
    """The generator a caller gave, as a seed or as it is; a fresh one for None."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"rng must be a seed of at least 0 or a numpy Generator, got {rng!r}") from error


def _refuse_used(protocol: Protocol) -> None:
    """A protocol that can ask nobody any more would give its old answer, or none, whoever is to be asked."""
    if not protocol.asked or protocol.can_ask():
        return
    again = "; protocol.fresh() is the same protocol before anybody was asked"
    if protocol.in_flight:
        raise InvalidInput(
            f"this protocol was used in a run that failed: {protocol.in_flight:,} of the {protocol.asked:,} users "
            f"it asked never answered, and it can ask nobody else{again}"
        )
    raise InvalidInput(f"this protocol was used: {protocol.heard:,} users answered it already{again}")


def drive(
    protocol: Protocol, population: Any, schedule: Schedule = SUGGESTED, *, progress: Progress | None = None
) -> None:
    """Ask until the protocol is finished, and leave the answer with it: what `run` does, for many trials."""
    by_round = hasattr(population, "answer_round")
    if by_round:
        population.check(protocol)
    if schedule.kind == "in-flight":
        if by_round:
            raise InvalidInput("users in partitions are asked in rounds: give rounds, batch or a schedule of them")
        schedule.check(protocol)
        _keep_in_flight(protocol, population, int(schedule.number), progress)
    else:
        _in_batches(protocol, population, schedule.batches_of(protocol), progress)


def _in_batches(protocol: Protocol, population: Any, sizes: Iterator[int], progress: Progress | None) -> None:
    by_count = protocol.takes_counts and hasattr(population, "answer_counts")
    while pairs := protocol.ask_counts(next(sizes)):
        if hasattr(population, "answer_round"):
            for reply in population.answer_round(pairs):
                reply.tell(protocol)
        elif by_count:
            assert isinstance(protocol, ThresholdProtocol)
            # All of a batch is asked before any of it is heard.
            answers = [(q, k, population.answer_counts(q, k)) for q, k in pairs if isinstance(q, Query)]
            for query, count, ones in answers:
                protocol.tell_counts(query, count, ones)
        else:
            protocol.tell(population.answer([q for q, k in pairs for _ in range(k)]))
        if progress is not None:
            progress(protocol.heard, protocol.users)


def _keep_in_flight(protocol: Protocol, population: Any, k: int, progress: Progress | None) -> None:
    waiting: deque[AnyQuery] = deque(protocol.ask(k))
    while waiting:
        query = waiting.popleft()
        protocol.tell(population.answer([query]))
        waiting.extend(protocol.ask(k - len(waiting)))
        if progress is not None:
            progress(protocol.heard, protocol.users)

"""The whole driver: a protocol asks, a population answers.

run(protocol, population)                 as many users at a time as the protocol suggests
run(protocol, population, batch=1)        one at a time
run(protocol, population, rounds=32)      in 32 rounds, of the sizes that are best for that many
run(protocol, population, in_flight=100)  100 users asked before the first answers, then one for one
run(protocol, population, schedule=...)   any `Schedule`
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from privquant.errors import InvalidInput
from privquant.lab.schedule import SUGGESTED, Pace, Schedule
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
    progress: Progress | None = None,
) -> Estimate:
    """Ask until the protocol is finished; its estimate, with what may be said of it.

    Give at most one of batch, rounds, in_flight, schedule.
    """
    named = Schedule.of(batch=batch, rounds=rounds, in_flight=in_flight)
    if schedule is not None and named.kind != "suggested":
        raise InvalidInput("give a schedule, or one of batch, rounds and in_flight, not both")
    drive(protocol, population, schedule or named, progress=progress)
    return stated(protocol.estimate(), protocol)


def drive(
    protocol: Protocol, population: Any, schedule: Schedule = SUGGESTED, *, progress: Progress | None = None
) -> None:
    """Ask until the protocol is finished, and leave the answer with it: what `run` does, for many trials."""
    if schedule.kind == "in-flight":
        schedule.check(protocol)
        _keep_in_flight(protocol, population, int(schedule.number), progress)
    else:
        _in_batches(protocol, population, Pace(schedule, protocol), progress)


def _in_batches(protocol: Protocol, population: Any, pace: Pace, progress: Progress | None) -> None:
    by_count = (
        isinstance(protocol, ThresholdProtocol) and protocol.takes_counts and hasattr(population, "answer_counts")
    )
    while pairs := protocol.ask_counts(pace.next()):
        if by_count:
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

"""The whole driver: a protocol asks, a population answers.

Scheduling is the run's, not the protocol's:

    run(protocol, population)                 as many users at a time as the protocol suggests
    run(protocol, population, batch=1)        one at a time
    run(protocol, population, rounds=32)      the users in 32 equal rounds
    run(protocol, population, in_flight=100)  100 users asked before the first answers, then one for one
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from privquant.errors import InvalidInput
from privquant.messages import AnyQuery, Estimate, Query
from privquant.planning.statement import stated
from privquant.protocols.base import Protocol, ThresholdProtocol
from privquant.validation import check_count

Progress = Callable[[int, int], None]
"""Called with (users heard, users planned) after every batch."""


def run(
    protocol: Protocol,
    population: Any,
    *,
    batch: int | None = None,
    rounds: int | None = None,
    in_flight: int | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """Ask until the protocol is finished; its estimate, with what may be said of it.

    Give at most one of batch, rounds, in_flight.
    """
    drive(protocol, population, batch=batch, rounds=rounds, in_flight=in_flight, progress=progress)
    return stated(protocol.estimate(), protocol)


def drive(
    protocol: Protocol,
    population: Any,
    *,
    batch: int | None = None,
    rounds: int | None = None,
    in_flight: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Ask until the protocol is finished, and leave the answer with it: what `run` does, for many trials."""
    given = [
        name
        for name, value in (("batch", batch), ("rounds", rounds), ("in_flight", in_flight))
        if value is not None
    ]
    if len(given) > 1:
        raise InvalidInput(f"give at most one of batch, rounds and in_flight, got {' and '.join(given)}")
    if in_flight is not None:
        _keep_in_flight(protocol, population, check_count(in_flight, "in_flight", 1), progress)
    else:
        _in_batches(protocol, population, _schedule(protocol, batch, rounds), progress)


def _schedule(protocol: Protocol, batch: int | None, rounds: int | None) -> Callable[[], int]:
    """How many users to ask next."""
    if batch is not None:
        fixed = check_count(batch, "batch", 1)
        return lambda: fixed
    if rounds is not None:
        parts = check_count(rounds, "rounds", 1)

        def next_round() -> int:
            done = protocol.asked * parts // max(protocol.users, 1)
            while done < parts and protocol.users * (done + 1) // parts <= protocol.asked:
                done += 1  # rounds whose users were all asked
            return max(1, protocol.users * (done + 1) // parts - protocol.asked)

        return next_round
    return protocol.batch_size


def _in_batches(protocol: Protocol, population: Any, size: Callable[[], int], progress: Progress | None) -> None:
    by_count = (
        isinstance(protocol, ThresholdProtocol) and protocol.takes_counts and hasattr(population, "answer_counts")
    )
    while pairs := protocol.ask_counts(size()):
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

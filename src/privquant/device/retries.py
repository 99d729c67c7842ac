"""Asking again: how long, how often, and when to leave it for another day.

A request that failed for a reason that may pass is repeated after a pause that doubles each time and is cut
by a random share, so that a fleet which fell silent together does not come back together. Where the server
names a time (Retry-After), the device waits that long and a random share of its first pause more. A wait that
does not fit into what is left of the device's patience is not begun: the caller is told to try later, and
when.

How long it takes depends on the server and on chance, never on the value.
"""

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from privquant.device.refusals import NotAnswered, ServerRefused, TransportRefused, TryLater
from privquant.device.transport import Origin, Response, Transport
from privquant.errors import InvalidInput
from privquant.wire import Route, WireError, parse_problem, path_of

_SECONDS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: for an answer in total, for one request, for the first pause and for the longest."""

    total: float = 60.0
    request: float = 10.0
    first_pause: float = 0.5
    longest_pause: float = 30.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            seconds = getattr(self, name)
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= 86_400:
                raise InvalidInput(f"patience: {name} must be above 0 and at most 86400 s, got {seconds!r}")

    def pause(self, failures: int, chance: float) -> float:
        """The pause after so many failures in a row; `chance` is uniform in [0, 1)."""
        full = min(self.longest_pause, self.first_pause * 2.0 ** min(failures - 1, 60))
        return full * (0.5 + 0.5 * chance)


class Caller:
    """Makes the requests of one answer, within one patience."""

    def __init__(self, transport: Transport, origin: Origin, patience: Patience) -> None:
        self._transport = transport
        self._origin = origin
        self._patience = patience
        self._end = time.monotonic() + patience.total

    def call(self, route: Route, campaign: str, body: bytes | None = None) -> Response:
        """The first answer that is a success (200 or 201); `ServerRefused` on a final no, `TryLater` in the end."""
        failures = 0
        path, limit = path_of(campaign, route.name), route.most_answered
        while True:
            try:
                deadline = min(self._end, time.monotonic() + self._patience.request)
                response = self._transport.send(
                    self._origin, route.method, path, body, limit=limit, deadline=deadline
                )
                if response.status in (200, 201):
                    return response
                failure = self._failure(response)
            except TryLater as error:
                failure = error
            failures += 1
            chance = secrets.randbits(32) / 2**32
            wait = self._patience.pause(failures, chance)
            if failure.retry_after is not None:
                least = self._patience.first_pause  # "at once, for ever" is no time to wait
                wait = max(failure.retry_after, least) + least * chance
            if time.monotonic() + wait >= self._end:
                raise failure
            time.sleep(wait)

    def _failure(self, response: Response) -> TryLater:
        host, status = self._origin.host, response.status
        if 300 <= status < 400:
            raise TransportRefused("redirect", f"{host} sends the device elsewhere (HTTP {status}); it does not go")
        problem = parse_problem(status, response.body)
        said = "".join(each for each in problem.detail if each.isprintable())  # it may end up on a terminal
        if not 400 <= status < 600:
            raise TransportRefused("not-http", f"{host} answered with the unexpected HTTP status {status}")
        if problem.final and status < 500:
            raise ServerRefused("server-refused", f"{host} refused: {said}")
        waiting = status == 425 or problem.code in ("campaign-paused", "all-places-taken")
        reason = "not-yet" if waiting else "server-error"
        return TryLater(reason, f"{host} cannot take an answer now: {said}", _seconds(response.retry_after))


@contextmanager
def reading(
    refusal: type[NotAnswered], reason: str, text: str, fault: type[WireError] = WireError
) -> Iterator[None]:
    """An answer that cannot be read within is refused; the refusal says why after the text."""
    try:
        yield
    except fault as error:
        raise refusal(reason, f"{text}: {error}") from error


def _seconds(header: str | None) -> float | None:
    """Retry-After as seconds. Its form as a date is not used: it needs a clock that is right."""
    text = (header or "").strip()
    return float(text) if _SECONDS.fullmatch(text) else None

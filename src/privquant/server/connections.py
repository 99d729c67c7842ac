"""What one connection may cost before and between its requests: silence, headers without end, answers nobody takes.

The HTTP server beneath closes a connection that is idle after an answer. It waits for ever for the first request,
for the rest of a header, and for a client to take its answer; and it keeps a header however long it grows. Here a
connection knows since when it is in its present state, and `sweep` closes those that are in it for too long.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable
from typing import Any

MOST_HEAD = 64 << 10
"""Bytes of a request before its body."""
LONGEST_SILENCE = 30.0
"""Seconds from the opening of a connection, or an answer, to the next request's whole header."""
LONGEST_REQUEST = 120.0
"""Seconds from a request's header to its answer being taken."""
SWEEP_TICKS = 10
"""Ticks of the HTTP server, a tenth of a second each, from one sweep to the next."""
_MOST_FILES = 1 << 16


def bounded(base: type[Any]) -> type[Any]:
    """A protocol class of uvicorn's, with these bounds."""

    class Bounded(base):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._since = self.loop.time()
            self._head = 0
            self._last = None

        @property
        def _in_work(self) -> bool:
            return self.cycle is not None and not self.cycle.response_complete

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not self._last:
                self._last, self._since, self._head = self.cycle, self.loop.time(), 0
            elif not self._in_work:
                self._head += len(data)
                if self._head > MOST_HEAD:
                    self.transport.abort()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._since, self._head = self.loop.time(), 0

        def overdue(self, longest_request: float) -> bool:
            return bool(self.loop.time() - self._since > (longest_request if self._in_work else LONGEST_SILENCE))

    return Bounded


def sweep(connections: Iterable[Any], longest_request: float) -> None:
    """Close what has been silent, or at one request, for too long."""
    for connection in list(connections):
        if connection.overdue(longest_request):
            connection.transport.abort()


def allow_many() -> None:
    """As many open connections as this process may be given; what is usual by default is a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

"""Batches of reports: answered one at a time, in pieces, so that devices with single reports hardly notice.

A batch costs thousands of times what a report does, and anybody can send one full of forged tickets. So:

- one batch is in work at a time in a process, and it works for a fifth of the time at most;
- its reports are looked at and stored a piece at a time, and other requests are served between two pieces;
- when `FORGED` of its reports were forged, and half of those looked at, the rest is not looked at: each is answered
  429, which is not final. The sender may have been lied to, and sends the rest again in a smaller batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

from privquant import wire
from privquant.aggregator import metrics
from privquant.aggregator.store.base import Ask, AskResult, Outcome, Spend
from privquant.server.group_commit import GroupCommit
from privquant.server.replies import Reply, RequestRefused

T = TypeVar("T")

PIECE = 100
"""Reports looked at before other requests are served."""
REST = 4.0
"""Seconds left to other requests for every second a batch works."""
FORGED = 64
"""Forged reports in a batch, at least, before the rest of it is left unread."""


class ReportBatches:
    """Takes the batches of one process. counted: notes a result, and says whether the report was new."""

    def __init__(self, group: GroupCommit[Ask, AskResult], counted: Callable[[AskResult], bool]) -> None:
        self._group = group
        self._counted = counted
        self._one_at_a_time = asyncio.Lock()

    async def answer(self, body: bytes, spend: Callable[[wire.WireReport], Spend]) -> Reply:
        """A result for each report; `spend` makes an ask of one, or refuses it."""
        async with self._one_at_a_time:
            reports = await _resting(lambda: _parse(body))
            results: list[dict[str, Any]] = []
            forged = 0
            while len(results) < len(reports):
                if forged >= FORGED and 2 * forged >= len(results):
                    left = len(reports) - len(results)
                    results += [_result("too-many-requests", left)] * left
                    break
                piece = reports[len(results) : len(results) + PIECE]
                found = await self._piece(piece, spend)
                forged += sum(result["status"] == 403 for result in found)
                results += found
            return await _resting(lambda: Reply(200, wire.canonical({"results": results})))

    async def _piece(self, forms: list[Any], spend: Callable[[wire.WireReport], Spend]) -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = [{} for _ in forms]
        places: list[int] = []
        asks: list[Spend] = []

        def look() -> None:
            for place, form in enumerate(forms):
                try:
                    asks.append(spend(wire.WireReport.from_dict(form)))
                    places.append(place)
                except wire.WireError:
                    results[place] = _result("malformed")
                except RequestRefused as error:
                    results[place] = _result(error.code)

        await _resting(look)
        for place, result in zip(places, await self._group.put_all(asks), strict=True):
            if result.outcome is Outcome.CLOSED:
                results[place] = _result("campaign-closed")
            else:
                results[place] = {"status": 201 if self._counted(result) else 200}
        return results


async def _resting(work: Callable[[], T]) -> T:
    """Do the work, then serve other requests for `REST` times as long."""
    began = time.perf_counter()
    done = work()
    await asyncio.sleep(REST * (time.perf_counter() - began))
    return done


def _parse(body: bytes) -> list[Any]:
    reports = wire.parse_object(body, wire.MAX_BATCH_REQUEST, ("reports",))["reports"]
    if not isinstance(reports, list) or not 1 <= len(reports) <= wire.BATCH_LIMIT:
        raise wire.WireError(f"reports is a list of 1 to {wire.BATCH_LIMIT} reports")
    return reports


def _result(code: str, times: int = 1) -> dict[str, Any]:
    metrics.refusals.labels(code).inc(times)
    return {"status": wire.PROBLEMS[code].status, "type": wire.PROBLEM_TYPE + code}

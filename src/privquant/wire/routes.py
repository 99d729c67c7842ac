"""The addresses of a campaign: one table a role, which device, servers and API document all read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from privquant.wire.form import MAX_BATCH_REQUEST, MAX_MANIFEST, MAX_REQUEST
from privquant.wire.shuffled import MAX_ROUND_ANSWER


@dataclass(frozen=True, slots=True)
class Route:
    """One address. most_sent, most_answered: bytes a request's body and its answer may have."""

    name: str
    method: str
    most_sent: int
    most_answered: int


MANIFEST = Route("manifest", "GET", 0, MAX_MANIFEST)
CLAIMS = Route("claims", "POST", MAX_REQUEST, MAX_REQUEST)
QUERY = Route("query", "POST", MAX_REQUEST, MAX_REQUEST)
REPORTS = Route("reports", "POST", MAX_REQUEST, MAX_REQUEST)
BATCH = Route("reports:batch", "POST", MAX_BATCH_REQUEST, MAX_BATCH_REQUEST)
ROUTES = (MANIFEST, CLAIMS, QUERY, REPORTS, BATCH)
"""What devices speak to in the local trust model, at the aggregator."""

ROUND_QUERY = Route("query", "POST", MAX_REQUEST, MAX_ROUND_ANSWER)
ANNOUNCEMENTS = Route("announcements", "POST", MAX_REQUEST, MAX_REQUEST)
SHUFFLER_ROUTES = (MANIFEST, CLAIMS, ROUND_QUERY, REPORTS, ANNOUNCEMENTS)
"""What devices, and with announcements the aggregator, speak to at a shuffler."""

BATCHES = Route("batches", "POST", MAX_BATCH_REQUEST, MAX_REQUEST)
NOTICES = Route("notices", "POST", MAX_REQUEST, MAX_REQUEST)
SHUFFLED_ROUTES = (MANIFEST, BATCHES, NOTICES)
"""What a shuffler speaks to at the aggregator."""

_PATH = re.compile(r"/v1/campaigns/([^/]+)/([a-z:]+)")


def path_of(campaign_id: str, what: str) -> str:
    """The path of a campaign's resource, by its route's name."""
    return f"/v1/campaigns/{campaign_id}/{what}"


def route_of(path: str, routes: Iterable[Route] = ROUTES) -> tuple[str, Route] | None:
    """What stands for the campaign's id in a path, and the route, if it is the path of one."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    return next(((found[1], route) for route in routes if route.name == found[2]), None)

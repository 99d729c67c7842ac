"""The addresses of a campaign that devices speak to: one table, which device, server and API document all read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from privquant.wire.form import MAX_BATCH_REQUEST, MAX_MANIFEST, MAX_REQUEST


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

_BY_NAME = {route.name: route for route in ROUTES}
_PATH = re.compile(rf"/v1/campaigns/([^/]+)/({'|'.join(map(re.escape, _BY_NAME))})")


def path_of(campaign_id: str, what: str) -> str:
    """The path of a campaign's resource: manifest, query, claims, reports or reports:batch."""
    return f"/v1/campaigns/{campaign_id}/{what}"


def route_of(path: str) -> tuple[str, Route] | None:
    """What stands for the campaign's id in a path, and the route, if it is the path of one."""
    found = _PATH.fullmatch(path)
    return None if found is None else (found[1], _BY_NAME[found[2]])

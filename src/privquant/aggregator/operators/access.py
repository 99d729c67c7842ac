"""Who may use the operator's API: whoever sends an operator's token as a bearer. There is no cookie to forge."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from privquant.aggregator.operators.accounts import Operator, who_is
from privquant.aggregator.operators.forms import CAMPAIGN_ID
from privquant.server.replies import RequestRefused

_bearer = HTTPBearer(auto_error=False, description="An operator's token")


async def _operator(
    request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Operator:
    found = None if given is None else await who_is(request.app.state.engine, given.credentials)
    if found is None:
        raise RequestRefused("unauthorized", "give an operator's token as 'Authorization: Bearer ...'")
    return found


async def _admin(found: Annotated[Operator, Depends(_operator)]) -> Operator:
    if found.role != "admin":
        raise RequestRefused("forbidden", f"{found.name} is a {found.role}; this takes an admin")
    return found


AnyOperator = Annotated[Operator, Depends(_operator)]
Admin = Annotated[Operator, Depends(_admin)]
CampaignId = Annotated[str, Path(pattern=CAMPAIGN_ID, description="SHA-256 of the manifest, hex")]

"""The operator's console: its page, and the routes only it needs: live pictures, the planner, codes to scan.

The page itself is for anybody who reaches the admin listener and shows nothing; everything it shows it fetches with
the operator's token as a bearer, the stream of events too.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, RedirectResponse, StreamingResponse

from privquant.aggregator.campaign import alarms
from privquant.aggregator.operators.access import AnyOperator, CampaignId
from privquant.aggregator.operators.forms import Form
from privquant.aggregator.page_routes import CODE, CodeForm, code_of
from privquant.aggregator.service import Service
from privquant.domain import Integers
from privquant.pages.page_files import head_of, serve_page
from privquant.plans import plan
from privquant.server.replies import RequestRefused

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>privquant console</title>
<script defer src="assets/pages/vendor/uplot/uPlot.iife.min.js"></script>
{head}
</head>
<body class="console">
<header id="top"></header>
<main id="app"><noscript><h1>Console</h1>
<p>The console needs a browser that runs scripts; <code>privquant campaign</code> does the same in a shell.</p>
</noscript></main>
</body>
</html>
"""

_STEPS = (0.1, 0.2, 0.4, 1.0, 2.5, 5.0, 10.0)  # times the users of a plan: where its curve is computed


class PlanForm(Form):
    """What is known about a collection; of users, alpha, epsilon and confidence exactly one is left out."""

    model_config = ConfigDict(frozen=True)

    size: Annotated[int, Field(ge=2, le=2**63, description="How many values the domain has")]
    users: Annotated[int, Field(ge=1, le=10**12)] | None = None
    alpha: Annotated[float, Field(gt=0, lt=1)] | None = None
    epsilon: Annotated[float, Field(ge=1e-9, le=50)] | None = None
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    quantile: Annotated[float, Field(gt=0, lt=1)] = 0.5


class Planned(BaseModel):
    """value: what was solved for. curve: users, and the error in rank on typical and on the hardest data."""

    missing: str
    value: float | None
    verdict: str
    warnings: list[str]
    poisoning: str
    curve: list[list[float | None]]


class Liars(BaseModel):
    sentence: str


def add_console(app: FastAPI, service: Service) -> None:
    tags: list[Any] = ["console"]
    page = console_page()

    @app.get("/", include_in_schema=False)
    async def start() -> Response:
        return RedirectResponse("console", 307, {"cache-control": "no-store", "referrer-policy": "no-referrer"})

    @app.get("/console", tags=tags, summary="The operator's console", response_class=HTMLResponse)
    async def console(request: Request) -> Response:
        return serve_page(page, request)

    # Not in the document, which could say nothing that a client can check of a stream without an end.
    @app.get("/v1/campaigns/{id}/live", include_in_schema=False)
    async def live(id: CampaignId, _by: AnyOperator) -> Response:
        await service.campaigns.manifest(id)  # there is such a campaign
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", "x-content-type-options": "nosniff"}
        return StreamingResponse(service.live.stream(id), 200, headers, "text/event-stream")

    @app.get("/v1/campaigns/{id}/picture", tags=tags, summary="One such picture")
    async def picture(id: CampaignId, _by: AnyOperator) -> dict[str, Any]:
        return await service.live.once(id)

    @app.get("/v1/campaigns/{id}/liars", tags=tags, summary="What a share of liars could do to the answer")
    async def liars(id: CampaignId, _by: AnyOperator, share: Annotated[float, Query(ge=0, le=0.5)] = 0.01) -> Liars:
        return Liars(sentence=alarms.liars(await service.campaigns.manifest(id), share))

    @app.post("/v1/plan", tags=tags, summary="What a collection can reach, before anyone is asked")
    async def planned(form: PlanForm, _by: AnyOperator) -> Planned:
        try:
            return await asyncio.to_thread(_plan, form)
        except ArithmeticError as error:
            raise RequestRefused("invalid", "these numbers are too extreme to plan with") from error

    @app.post("/v1/qr", tags=tags, summary="An invite as a code", response_class=Response, responses={200: CODE})
    async def drawn(form: CodeForm, _by: AnyOperator) -> Response:
        return await code_of(form.invite)


def console_page() -> str:
    styles = "pages/shared/page.css", "pages/vendor/uplot/uPlot.min.css", "pages/console/console.css"
    return _PAGE.format(head=head_of("pages/console/main.js", "", *styles))


@lru_cache(256)
def _plan(form: PlanForm) -> Planned:
    domain = Integers(0, form.size - 1)
    made = plan(domain=domain, **form.model_dump(exclude={"size"}))
    known = made.given | ({} if made.value is None else {made.missing: made.value})
    curve: list[list[float | None]] = []
    if {"users", "epsilon", "confidence"} <= set(known):
        for step in _STEPS:
            many = max(10, round(step * known["users"]))
            sure, q = known["confidence"], form.quantile
            there = plan(domain=domain, users=many, epsilon=known["epsilon"], confidence=sure, quantile=q)
            row = next(row for row in there.rows if row.kind == "measured")
            curve.append([many, row.value, row.hardest])
    return Planned(
        missing=made.missing,
        value=made.value,
        verdict=made.verdict,
        warnings=list(made.warnings),
        poisoning=made.poisoning,
        curve=curve,
    )

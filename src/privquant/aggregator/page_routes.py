"""What a person's browser is given: on the devices' listener the page of an invite and one for a room, on the admin
listener the operator's console and the routes only it needs: live pictures, the planner, codes to scan.

The console's page is for anybody who reaches the admin listener and shows nothing; everything it shows it fetches
with the operator's token as a bearer, the stream of events too.
"""

import asyncio
import io
import re
from functools import lru_cache
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import HTMLResponse, RedirectResponse, StreamingResponse

from privquant.aggregator.campaign import alarms
from privquant.aggregator.operators.forms import CAMPAIGN_ID, AnyOperator, CampaignId, Form
from privquant.aggregator.operators.openapi import PROBLEM, text_answer
from privquant.aggregator.service import Service
from privquant.domain import Integers
from privquant.errors import PrivquantError
from privquant.pages.invite_page import room_page
from privquant.pages.join_pages import missing_page
from privquant.pages.page_files import PREFIX, SECURITY, head_of, serve_file, serve_page
from privquant.plans import plan
from privquant.server.replies import RequestRefused
from privquant.wire import Invite

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

# Not checked by the framework: a browser gets a page even for an address that was cut short.
PageId = Annotated[
    str, Path(json_schema_extra={"pattern": CAMPAIGN_ID}, description="SHA-256 of the manifest, hex")
]
_STEPS = (0.1, 0.2, 0.4, 1.0, 2.5, 5.0, 10.0)  # times the users of a plan: where its curve is computed
_CODE = text_answer("image/svg+xml")


class CodeForm(Form):
    """An invite of this server whose address is to be drawn."""

    invite: Annotated[str, Field(min_length=1, max_length=2_000)]


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


def add_files(app: FastAPI) -> None:
    """The files of all pages; on every listener that has pages."""

    @app.head(PREFIX + "{name:path}", include_in_schema=False)
    @app.get(PREFIX + "{name:path}", include_in_schema=False)
    async def file(name: str, request: Request) -> Response:
        found = serve_file(name, request)
        if found is None:
            raise RequestRefused("not-found")
        return found


def add_join_pages(app: FastAPI, service: Service) -> None:
    content = text_answer("text/html")["content"] | PROBLEM["content"]

    @app.head("/c/{id}", include_in_schema=False)  # what looks at a link before it shows it
    @app.get(
        "/c/{id}",
        tags=["devices"],
        summary="What an invite is, for a person who opens it in a browser",
        response_class=HTMLResponse,
        responses={404: {"content": content, "description": "No such campaign, or not a browser"}},
    )
    async def page(id: PageId, request: Request) -> Response:
        if "text/html" not in request.headers.get("accept", "").lower():
            raise RequestRefused(
                "not-found", "an invite is answered with `privquant answer`; only browsers get a page here"
            )
        view = await service.cache.view(id) if re.fullmatch(CAMPAIGN_ID, id) else None
        if view is None:
            return serve_page(missing_page("../"), request, 404)
        return serve_page(view.mode.page(view.state, service.settings.url), request)

    @app.head("/join", include_in_schema=False)
    @app.get("/join", tags=["devices"], summary="A code to scan, for a room", response_class=HTMLResponse)
    async def room(request: Request) -> Response:
        return serve_page(room_page(), request)

    @app.post(
        "/join/qr",
        tags=["devices"],
        summary="The code of an open link of this server",
        response_class=Response,
        responses={200: _CODE},
    )
    async def drawn(form: CodeForm) -> Response:
        try:
            invite = Invite.parse(form.invite)
        except PrivquantError as error:
            raise RequestRefused("invalid", f"invite: {error}") from error
        if invite.link is None:
            raise RequestRefused("invalid", "a one-time invite is one person's and not for a room")
        if await service.cache.view(invite.campaign_id) is None:
            raise RequestRefused("unknown-campaign")
        return await _code_of(form.invite)


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

    @app.post("/v1/qr", tags=tags, summary="An invite as a code", response_class=Response, responses={200: _CODE})
    async def drawn(form: CodeForm, _by: AnyOperator) -> Response:
        return await _code_of(form.invite)


def console_page() -> str:
    styles = "pages/shared/page.css", "pages/vendor/uplot/uPlot.min.css", "pages/console/console.css"
    return _PAGE.format(head=head_of("pages/console/main.js", "", *styles))


_drawing = asyncio.Semaphore(1)


async def _code_of(text: str) -> Response:
    """A QR code as SVG. One at a time, in another thread: a code takes some milliseconds."""
    async with _drawing:
        picture = await asyncio.to_thread(_code, text)
    return Response(picture, 200, SECURITY | {"cache-control": "no-store"}, "image/svg+xml")


@lru_cache(64)  # the same few are shown again and again
def _code(text: str) -> bytes:
    import segno

    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(
        out, kind="svg", border=2, xmldecl=False, svgclass=None, lineclass=None, omitsize=True
    )
    return out.getvalue()


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
    said = {name: getattr(made, name) for name in ("missing", "value", "verdict", "warnings", "poisoning")}
    return Planned(**said, curve=curve)

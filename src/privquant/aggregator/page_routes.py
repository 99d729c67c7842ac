"""What a person's browser is given on the devices' listener: the page of an invite, one for a room, their files."""

from __future__ import annotations

import asyncio
import io
import re
from functools import lru_cache
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request, Response
from pydantic import Field
from starlette.responses import HTMLResponse

from privquant.aggregator.operators.forms import CAMPAIGN_ID, Form
from privquant.aggregator.service import Service
from privquant.errors import PrivquantError
from privquant.pages.invite_page import room_page
from privquant.pages.join_pages import missing_page
from privquant.pages.page_files import PREFIX, SECURITY, serve_file, serve_page
from privquant.server.replies import RequestRefused
from privquant.wire import PROBLEM_MEDIA, Invite

# Not checked by the framework: a browser gets a page even for an address that was cut short.
PageId = Annotated[
    str, Path(json_schema_extra={"pattern": CAMPAIGN_ID}, description="SHA-256 of the manifest, hex")
]
_DRAWN = 64  # codes kept: the same few are shown again and again
CODE: dict[str, Any] = {"content": {"image/svg+xml": {"schema": {"type": "string"}}}, "description": "OK"}


class CodeForm(Form):
    """An invite of this server whose address is to be drawn."""

    invite: Annotated[str, Field(min_length=1, max_length=2_000)]


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
    refusal = {"schema": {"$ref": "#/components/schemas/Problem"}}
    html = {"text/html": {"schema": {"type": "string"}}}

    @app.head("/c/{id}", include_in_schema=False)  # what looks at a link before it shows it
    @app.get(
        "/c/{id}",
        tags=["devices"],
        summary="What an invite is, for a person who opens it in a browser",
        response_class=HTMLResponse,
        responses={
            404: {"content": html | {PROBLEM_MEDIA: refusal}, "description": "No such campaign, or not a browser"}
        },
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
        responses={200: CODE},
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
        return await code_of(form.invite)


_drawing = asyncio.Semaphore(1)


async def code_of(text: str) -> Response:
    """A QR code as SVG. One at a time, in another thread: a code takes some milliseconds."""
    async with _drawing:
        picture = await asyncio.to_thread(_code, text)
    return Response(picture, 200, SECURITY | {"cache-control": "no-store"}, "image/svg+xml")


@lru_cache(_DRAWN)
def _code(text: str) -> bytes:
    import segno

    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(
        out, kind="svg", border=2, xmldecl=False, svgclass=None, lineclass=None, omitsize=True
    )
    return out.getvalue()

"""The two listeners, each with its HTTP API and its OpenAPI 3.1 document.

The admin listener has the operator's routes, health and metrics. The public one has the page of an invite, and the
device routes, which `PublicApp` answers itself; the API's document has them from the wire format's table.
"""

from collections.abc import MutableMapping
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, cast

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from privquant import __version__, wire
from privquant.aggregator import metrics
from privquant.aggregator.campaign.states import Act, State, WrongState
from privquant.aggregator.operators import forms
from privquant.aggregator.operators.accounts import read_audit
from privquant.aggregator.operators.forms import Admin, AnyOperator, CampaignId
from privquant.aggregator.operators.openapi import PROBLEM, complete_document, text_answer
from privquant.aggregator.page_routes import add_console, add_files, add_join_pages
from privquant.aggregator.service import Service
from privquant.aggregator.store.base import Unavailable
from privquant.aggregator.store.operator_queries import DatabaseError, UnknownCampaign
from privquant.errors import PrivquantError
from privquant.server.http_server import App
from privquant.server.keys import KeyUnusable
from privquant.server.replies import Asgi, Receive, Reply, RequestRefused, Scope, Send, problem
from privquant.server.request_bodies import SMALL_BODY, RequestBody

_NOT_PUBLIC = (
    "nothing is served at this address; an operator's API, health and metrics are on the server's admin port, by "
    "default 8471 and on its own machine only (`privquant campaign --server http://127.0.0.1:8471`)"
)
_NOT_ADMIN = "nothing is served at this address; devices and invites are on the server's public port"


@lru_cache(64)  # few campaigns are answered at a time; a path is anybody's, and may be long
def _device_route(path: str) -> tuple[str, wire.Route] | None:
    return wire.route_of(path, (*wire.ROUTES, *wire.SHUFFLED_ROUTES))


class AdminApp(App):
    """The operators' listener. most_sent: bytes of the largest body the API takes."""

    def __init__(self, api: Asgi, most_sent: int = 1 << 20) -> None:
        super().__init__()
        self._api = api
        self._most_sent = most_sent

    async def answer(self, scope: Scope, body: RequestBody) -> Asgi:
        """The API, which reads a body that is here already."""
        try:
            here = [{"type": "http.request", "body": await body.read(self._most_sent), "more_body": False}]
        except RequestRefused as error:
            return error.reply

        async def with_body(scope: Scope, receive: Receive, send: Send) -> None:
            async def replay() -> MutableMapping[str, Any]:
                return here.pop() if here else await receive()

            await self._api(scope, replay, send)

        return with_body


class PublicApp(AdminApp):
    """The devices' listener. What is no route of theirs is a page, and the API's."""

    def __init__(self, service: Service, api: Asgi) -> None:
        super().__init__(api, SMALL_BODY)
        self._service = service

    async def answer(self, scope: Scope, body: RequestBody) -> Asgi:
        found = _device_route(scope["path"])
        if found is None:
            return await super().answer(scope, body)
        identity, route = found
        routes = self._service.batches if route in (wire.BATCHES, wire.NOTICES) else self._service.devices
        return await routes.handle(identity, route, scope["method"], body.read, body.gone)


def build_public_api(service: Service) -> FastAPI:
    """What anybody may reach, beside the device routes."""
    app = _api(service, "privquant aggregator", _NOT_PUBLIC, devices=True)
    add_files(app)
    add_join_pages(app, service)
    return app


def build_admin_api(service: Service) -> FastAPI:
    """What operators and those who watch over the server reach."""
    app = _api(service, "privquant aggregator, for operators", _NOT_ADMIN, devices=False)
    _add_health(app, service)
    _add_campaigns(app, service)
    add_files(app)
    add_console(app, service)
    return app


def _api(service: Service, title: str, elsewhere: str, *, devices: bool) -> FastAPI:
    """elsewhere: what is said of an address that this listener does not have. devices: whether it has theirs."""
    app = FastAPI(
        title=title,
        version=__version__,
        description="Quantiles of data that never leaves its owner.",
        docs_url=None,
        redoc_url=None,
        responses={"default": PROBLEM},  # with it the framework documents no refusals of its own
    )
    app.state.engine = service.engine
    complete_document(app, devices=devices)

    async def refuse(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code == 404:
            return cast(Response, problem("not-found", elsewhere))
        reply = _reply_to(error, service)
        if reply.status == 405:
            reply = replace(reply, allow=_methods_at(app, request))
        return cast(Response, reply)  # all the framework does with it is to let it answer

    refusals = (RequestValidationError, HTTPException, PrivquantError, RequestRefused, DatabaseError, OSError)
    for kind in (*refusals, Exception):
        app.add_exception_handler(kind, refuse)
    return app


def _methods_at(app: FastAPI, request: Request) -> str:
    """All methods the address takes; the framework itself names those of the first route only."""
    routes = [route for route in app.routes if isinstance(route, Route)]
    found = [route.methods or () for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted(set().union(*found)))


def _reply_to(error: Exception, service: Service) -> Reply:
    if isinstance(error, RequestRefused):
        return error.reply
    if isinstance(error, RequestValidationError):
        broken = error.errors()[0]["type"] == "json_invalid"
        return problem("malformed" if broken else "invalid", forms.in_words(error.errors())[:500])
    if isinstance(error, HTTPException):
        return problem("method-not-allowed" if error.status_code == 405 else "malformed")
    if isinstance(error, UnknownCampaign):
        return problem("unknown-campaign", str(error))
    if isinstance(error, WrongState):
        return problem("conflict", str(error))
    if isinstance(error, Unavailable | KeyUnusable | DatabaseError | OSError):
        service.health.failed("operator", error)
        return problem("unavailable")
    if isinstance(error, PrivquantError):
        return problem("invalid", str(error)[:500])
    return problem("unavailable")  # `App` writes it to the log


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/healthz", tags=["health"], summary="The process runs")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"], summary="Reports can be counted")
    async def readyz() -> dict[str, str]:
        cause = service.health.cause
        if not service.started or cause is not None:
            raise RequestRefused("unavailable", cause or "")
        return {"status": "ready"}

    @app.get(
        "/metrics",
        tags=["health"],
        summary="Prometheus",
        response_class=Response,
        responses={200: text_answer("text/plain")},
    )
    async def shown() -> Response:
        of_campaigns = await service.campaign_metrics.render()  # first: it counts those that are alarmed
        return Response(metrics.render() + of_campaigns, media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/key", tags=["health"], summary="The key that signs new manifests")
    async def key() -> dict[str, str]:
        public = wire.public_key_of(service.keys.current)
        return {"public_key": public, "fingerprint": wire.fingerprint(public)}


def _add_campaigns(app: FastAPI, service: Service) -> None:
    tags: list[Any] = ["campaigns"]

    @app.post("/v1/campaigns", status_code=201, tags=tags, summary="Publish a campaign")
    async def create(form: forms.CampaignForm, by: Admin) -> forms.Created:
        identity = await service.campaigns.create(form.to_draft(), by.name)
        mark = wire.fingerprint(wire.public_key_of(service.keys.current))
        more = (await service.campaigns.mode(identity)).created(service.settings.url)
        return forms.Created(id=identity, key_fingerprint=mark, **more)

    @app.get("/v1/campaigns", tags=tags, summary="All campaigns")
    async def overview(_by: AnyOperator) -> list[forms.CampaignLine]:
        return [forms.CampaignLine(**line) for line in await service.campaigns.overview()]

    @app.get("/v1/campaigns/{id}", tags=tags, summary="State, progress and estimates")
    async def show(id: CampaignId, _by: AnyOperator) -> forms.CampaignShown:
        return forms.CampaignShown(**await service.campaigns.show(id))

    @app.post(
        "/v1/campaigns/{id}/invites",
        status_code=201,
        tags=tags,
        summary="One-time invites, one a line",
        response_class=Response,
        responses={201: text_answer("text/csv")},
    )
    async def invite(id: CampaignId, form: forms.InvitesForm, by: Admin) -> Response:
        urls = await service.campaigns.invite(id, form.count, by.name)
        body = "invite\n" + "".join(url + "\n" for url in urls)
        return Response(body, 201, {"cache-control": "no-store"}, "text/csv")

    @app.post("/v1/campaigns/{id}/link", status_code=201, tags=tags, summary="One open link with a limit")
    async def link(id: CampaignId, form: forms.LinkForm, by: Admin) -> forms.LinkMade:
        invite, code = await service.campaigns.open_link(id, form.places, by.name, coded=form.code)
        return forms.LinkMade(invite=invite, code=code)

    def turn(name: str, after: str) -> None:
        @app.post(f"/v1/campaigns/{{id}}/{name}", tags=tags, summary=f"{name} the campaign", name=name)
        async def turned(id: CampaignId, by: Admin) -> forms.StateForm:
            await getattr(service.campaigns, name)(id, by.name)
            await service.cache.refresh_one(id)
            return forms.StateForm(id=id, state=after)

    for name, after in {Act.PAUSE: State.PAUSED, Act.RESUME: State.OPEN, Act.CLOSE: State.CLOSED}.items():
        turn(name, after)

    @app.get("/v1/campaigns/{id}/export", tags=tags, summary="Manifest, counts and estimates")
    async def export(id: CampaignId, _by: AnyOperator) -> forms.Exported:
        return forms.Exported(**await service.campaigns.export(id))

    @app.get("/v1/campaigns/{id}/verify", tags=tags, summary="Rebuild the estimate from the log and compare")
    async def verify(id: CampaignId, _by: AnyOperator) -> forms.Verified:
        return forms.Verified(**await service.campaigns.verify(id))

    @app.delete("/v1/campaigns/{id}", tags=tags, summary="Erase a closed campaign")
    async def delete(id: CampaignId, by: Admin) -> forms.Deleted:
        erasure = await service.campaigns.delete(id, by.name)
        await service.cache.refresh()
        return forms.Deleted(id=id, erased=erasure.whole, left=erasure.left)

    @app.get("/v1/audit", tags=tags, summary="The last acts of operators")
    async def audit(_by: Admin, last: Annotated[int, Query(ge=1, le=10_000)] = 100) -> list[forms.AuditLine]:
        return [forms.AuditLine(**line) for line in await read_audit(service.engine, last)]

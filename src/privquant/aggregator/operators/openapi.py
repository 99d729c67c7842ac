"""The device routes and the problems, as the OpenAPI document has them (docs/wire.md says the same in prose)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi

from privquant import wire
from privquant.aggregator.operators.forms import CampaignId

_TOKEN = {"type": "string", "pattern": "^[A-Za-z0-9_-]{21}[AQgw]$", "description": "16 bytes, base64url"}
_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TICKET = {"type": "string", "pattern": f"^[A-Za-z0-9_-]{{1,{wire.MAX_TICKET}}}$"}
_WHOLE = {"type": "string", "pattern": "^(0|-?[1-9][0-9]{0,19})$"}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_REPORT = _object(token=_TOKEN, ticket=_TICKET, bit={"type": "integer", "enum": [0, 1]})
_CODED_CLAIM = _object(
    link=_TOKEN,
    token_hash=_HASH,
    code={"type": "string", "pattern": "^[0-9a-hjkmnp-tv-z]{8}$"},
    version={"type": "integer", "enum": [wire.CODED_CLAIM]},
)
_STATUS = _object(status={"type": "string"})
_RESULT = {
    "type": "object",
    "properties": {"status": {"type": "integer"}, "type": {"type": "string"}},
    "required": ["status"],
}


def _json(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


@dataclass(frozen=True, slots=True)
class _Documented:
    """What the document says about a route: in words, the body it takes, and its answers by status."""

    summary: str
    answers: dict[int | str, dict[str, Any]]
    body: dict[str, Any] | None = None


_SIGNATURE = {"type": "string", "pattern": "^[0-9a-f]{128}$"}
_SIGNED = _SIGNATURE | {"description": "by the campaign's shuffler"}
_NUMBER = {"type": "integer", "minimum": 0}
_ENVELOPE = _object(manifest={"type": "object"}, signature=_SIGNATURE)
_DOCUMENTED = {
    wire.MANIFEST: _Documented("The signed manifest; never changes", {"200": _json(_ENVELOPE, "The envelope")}),
    wire.CLAIMS: _Documented(
        "Take a place of the open link",
        {"201": _json(_STATUS, "A place was taken"), "200": _json(_STATUS, "This token has one already")},
        {"oneOf": [_object(link=_TOKEN, token_hash=_HASH), _CODED_CLAIM]},
    ),
    wire.QUERY: _Documented(
        "The threshold of a token; the same one however often it asks",
        {"200": _json(_object(threshold=_WHOLE, ticket=_TICKET), "The ticket")},
        _object(token_hash=_HASH),
    ),
    wire.REPORTS: _Documented(
        "One bit, counted exactly once",
        {"201": _json(_STATUS, "Counted"), "200": _json(_STATUS, "Was counted before")},
        _REPORT,
    ),
    wire.BATCH: _Documented(
        "Up to 10,000 reports, a result for each",
        {"200": _json(_object(results={"type": "array", "items": _RESULT}), "A result for each")},
        _object(reports={"type": "array", "items": _REPORT, "minItems": 1, "maxItems": wire.BATCH_LIMIT}),
    ),
    wire.BATCHES: _Documented(
        "From the shuffler: the batch of a round, or a part of it; counted once",
        {
            "201": _json(_STATUS, "Counted, or kept until the other parts are there"),
            "200": _json(_STATUS, "Was counted before"),
        },
        _object(
            batch=_object(
                campaign=_HASH,
                round=_NUMBER,
                id=_HASH,
                reports=_NUMBER,
                part=_NUMBER,
                parts=_NUMBER,
                sealed={"type": "array", "items": {"type": "string"}, "maxItems": wire.PART_LIMIT},
            ),
            signature=_SIGNED,
        ),
    ),
    wire.NOTICES: _Documented(
        "From the shuffler: a round was extended, or dropped for good",
        {"201": _json(_STATUS, "Noted"), "200": _json(_STATUS, "Was noted before")},
        _object(
            notice=_object(
                campaign=_HASH,
                round=_NUMBER,
                status={"type": "string", "enum": [wire.EXTENDED, wire.DROPPED]},
                reports=_NUMBER,
            ),
            signature=_SIGNED,
        ),
    ),
}
_PROBLEM = {
    "title": "Problem",
    "description": "RFC 9457.",
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": [wire.PROBLEM_TYPE + code for code in wire.PROBLEMS]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}
PROBLEM = {
    "description": "A problem of RFC 9457",
    "content": {wire.PROBLEM_MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def complete_document(app: FastAPI, *, devices: bool) -> None:
    """Add to the framework's document what it does not see: the form of a problem, and the device routes."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        form = make()
        form.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM
        if devices:
            form["paths"] |= get_openapi(title="", version="", routes=_device_routes().routes)["paths"]
        return form

    app.openapi = openapi  # type: ignore[method-assign]


def _device_routes() -> APIRouter:
    """The device routes for the document alone: `PublicApp` answers them before the framework sees a request."""

    async def answered_elsewhere(id: CampaignId) -> None: ...

    router = APIRouter(tags=["devices"], responses={"default": PROBLEM})
    for route, documented in _DOCUMENTED.items():
        body = {"required": True, "content": {"application/json": {"schema": documented.body}}}
        router.add_api_route(
            wire.path_of("{id}", route.name),
            answered_elsewhere,
            name=route.name,
            methods=[route.method],
            summary=documented.summary,
            responses=documented.answers,
            openapi_extra=None if documented.body is None else {"requestBody": body},
        )
    return router

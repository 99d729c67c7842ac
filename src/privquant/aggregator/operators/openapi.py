"""The device routes and the problems, as the OpenAPI document has them (docs/wire.md says the same in prose)."""

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
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _answer(schema: dict[str, Any], description: str) -> dict[int | str, dict[str, Any]]:
    return {"200": {"description": description} | _json(schema)}


def _status(new: str, again: str) -> dict[int | str, dict[str, Any]]:
    """The answers of a route that takes something once."""
    status = _json(_object(status={"type": "string"}))
    return {"201": {"description": new} | status, "200": {"description": again} | status}


def _from_shuffler(what: str, **properties: Any) -> dict[str, Any]:
    signature = _SIGNATURE | {"description": "by the campaign's shuffler"}
    return _object(**{what: _object(campaign=_HASH, round=_NUMBER, **properties)}, signature=signature)


_SIGNATURE = {"type": "string", "pattern": "^[0-9a-f]{128}$"}
_NUMBER = {"type": "integer", "minimum": 0}
_REPORT = _object(token=_TOKEN, ticket=_TICKET, bit={"type": "integer", "enum": [0, 1]})
_CODED_CLAIM = _object(
    link=_TOKEN,
    token_hash=_HASH,
    code={"type": "string", "pattern": "^[0-9a-hjkmnp-tv-z]{8}$"},
    version={"type": "integer", "enum": [wire.CODED_CLAIM]},
)
_RESULT = {
    "type": "object",
    "properties": {"status": {"type": "integer"}, "type": {"type": "string"}},
    "required": ["status"],
}

# Of each route: what it is for, its answers by status, and the body it takes.
_DOCUMENTED: dict[wire.Route, tuple[str, dict[int | str, dict[str, Any]], dict[str, Any] | None]] = {
    wire.MANIFEST: (
        "The signed manifest; never changes",
        _answer(_object(manifest={"type": "object"}, signature=_SIGNATURE), "The envelope"),
        None,
    ),
    wire.CLAIMS: (
        "Take a place of the open link",
        _status("A place was taken", "This token has one already"),
        {"oneOf": [_object(link=_TOKEN, token_hash=_HASH), _CODED_CLAIM]},
    ),
    wire.QUERY: (
        "The threshold of a token; the same one however often it asks",
        _answer(_object(threshold=_WHOLE, ticket=_TICKET), "The ticket"),
        _object(token_hash=_HASH),
    ),
    wire.REPORTS: ("One bit, counted exactly once", _status("Counted", "Was counted before"), _REPORT),
    wire.BATCH: (
        "Up to 10,000 reports, a result for each",
        _answer(_object(results={"type": "array", "items": _RESULT}), "A result for each"),
        _object(reports={"type": "array", "items": _REPORT, "minItems": 1, "maxItems": wire.BATCH_LIMIT}),
    ),
    wire.BATCHES: (
        "From the shuffler: the batch of a round, or a part of it; counted once",
        _status("Counted, or kept until the other parts are there", "Was counted before"),
        _from_shuffler(
            "batch",
            id=_HASH,
            reports=_NUMBER,
            part=_NUMBER,
            parts=_NUMBER,
            sealed={"type": "array", "items": {"type": "string"}, "maxItems": wire.PART_LIMIT},
        ),
    ),
    wire.NOTICES: (
        "From the shuffler: a round was extended, or dropped for good",
        _status("Noted", "Was noted before"),
        _from_shuffler("notice", status={"type": "string", "enum": [wire.EXTENDED, wire.DROPPED]}, reports=_NUMBER),
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
PROBLEM: dict[str, Any] = {
    "description": "A problem of RFC 9457",
    "content": {wire.PROBLEM_MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def text_answer(media: str) -> dict[str, Any]:
    return {"content": {media: {"schema": {"type": "string"}}}, "description": "OK"}


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
    for route, (summary, answers, body) in _DOCUMENTED.items():
        router.add_api_route(
            wire.path_of("{id}", route.name),
            answered_elsewhere,
            name=route.name,
            methods=[route.method],
            summary=summary,
            responses=answers,
            openapi_extra=None if body is None else {"requestBody": {"required": True} | _json(body)},
        )
    return router

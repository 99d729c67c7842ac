"""The device routes and the problems, as the OpenAPI document has them (docs/wire.md says the same in prose)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from privquant.wire import BATCH_LIMIT, MAX_TICKET, PROBLEM_MEDIA, PROBLEM_TYPE, PROBLEMS

_TOKEN = {"type": "string", "pattern": "^[A-Za-z0-9_-]{21}[AQgw]$", "description": "16 bytes, base64url"}
_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TICKET = {"type": "string", "pattern": f"^[A-Za-z0-9_-]{{1,{MAX_TICKET}}}$"}
_WHOLE = {"type": "string", "pattern": "^(0|-?[1-9][0-9]{0,19})$"}


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_REPORT = _object(token=_TOKEN, ticket=_TICKET, bit={"type": "integer", "enum": [0, 1]})
_STATUS = _object(status={"type": "string"})
_RESULT = {
    "type": "object",
    "properties": {"status": {"type": "integer"}, "type": {"type": "string"}},
    "required": ["status"],
}


def _json(schema: dict[str, Any], description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


@dataclass(frozen=True, slots=True)
class DeviceRoute:
    name: str
    method: str
    summary: str
    status: int
    responses: dict[int | str, dict[str, Any]]
    request: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def _post(
    name: str, summary: str, request: dict[str, Any], status: int, responses: dict[int | str, dict[str, Any]]
) -> DeviceRoute:
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    return DeviceRoute(name, "POST", summary, status, responses, request, {"requestBody": body})


DEVICE_ROUTES = (
    DeviceRoute(
        "manifest",
        "GET",
        "The signed manifest; never changes",
        200,
        {
            200: _json(
                _object(manifest={"type": "object"}, signature={"type": "string", "pattern": "^[0-9a-f]{128}$"}),
                "The envelope",
            )
        },
    ),
    _post(
        "claims",
        "Take a place of the open link",
        _object(link=_TOKEN, token_hash=_HASH),
        201,
        {201: _json(_STATUS, "A place was taken"), 200: _json(_STATUS, "This token has one already")},
    ),
    _post(
        "query",
        "The threshold of a token; the same one however often it asks",
        _object(token_hash=_HASH),
        200,
        {200: _json(_object(threshold=_WHOLE, ticket=_TICKET), "The ticket")},
    ),
    _post(
        "reports",
        "One bit, counted exactly once",
        _REPORT,
        201,
        {201: _json(_STATUS, "Counted"), 200: _json(_STATUS, "Was counted before")},
    ),
    _post(
        "reports:batch",
        "Up to 10,000 reports, a result for each",
        _object(reports={"type": "array", "items": _REPORT, "minItems": 1, "maxItems": BATCH_LIMIT}),
        200,
        {200: _json(_object(results={"type": "array", "items": _RESULT}), "A result for each")},
    ),
)


def document_problems(app: FastAPI) -> None:
    """Say in the document that refusals are problem+json, with every kind of the table."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        form = make()
        shape = form["components"]["schemas"]["Problem"]
        shape["properties"]["type"]["enum"] = [PROBLEM_TYPE + code for code in PROBLEMS]
        for path in form["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
                refusal = operation["responses"]["default"]
                refusal["content"] = {PROBLEM_MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        return form

    app.openapi = openapi  # type: ignore[method-assign]

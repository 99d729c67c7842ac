"""Who may use the operator's API, and what it takes and gives as models, by which FastAPI checks and documents it.

It is for whoever sends an operator's token as a bearer. There is no cookie to forge.

`in_words` says what is wrong with a request: which field, what is allowed, what was given. pydantic's own messages
speak of "input" and "valid" and repeat what was given. Here it is repeated only if it is a number, a word of JSON
or a short text, in a field that this API has: never a field we did not ask for, a whole object, or a body that was
meant for another address (such as a device's report).
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from privquant.aggregator.campaign.campaigns import MOST_INVITES
from privquant.aggregator.campaign.mode import ONE_WAVE, Draft, ShuffleDraft
from privquant.aggregator.devices.admission_rules import DEFAULT_SHARE
from privquant.aggregator.operators.accounts import Operator, who_is
from privquant.server.replies import RequestRefused
from privquant.wire import MAX_EDGES, Waves, domain_from_wire, real_to_wire

WHOLE = r"^(0|-?[1-9][0-9]{0,19})$"
MEASUREMENT = r"^[a-z0-9][a-z0-9._-]{0,99}$"
CAMPAIGN_ID = "^[0-9a-f]{64}$"

PATTERNS = {
    WHOLE: 'must be a whole number as a text, such as "600"',
    MEASUREMENT: "must be a name of 1 to 100 of a-z 0-9 . _ -, starting with a letter or digit",
    CAMPAIGN_ID: "must be a campaign's whole id, 64 lower-case hex digits",
}
"""What the patterns mean, for error messages."""


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


class Form(BaseModel):
    """The body of a request: exactly these fields, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class IntegersForm(Form):
    kind: Literal["integers"]
    low: Annotated[str, Field(pattern=WHOLE)]
    high: Annotated[str, Field(pattern=WHOLE)]


class GridForm(Form):
    kind: Literal["grid"]
    edges: Annotated[list[float], Field(min_length=1, max_length=MAX_EDGES)]


class WavesForm(Form):
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    seconds: Annotated[int, Field(ge=0, le=366 * 86_400)] = 0


class ShuffleForm(Form):
    """The shuffle model: what every round keeps, and who shuffles (`privquant shuffler key`)."""

    delta: Annotated[float, Field(gt=0, lt=1)]
    address: Annotated[str, Field(max_length=500)]
    key: Annotated[str, Field(pattern=CAMPAIGN_ID)]
    cap: Annotated[float, Field(ge=1e-9, le=50)] | None = None
    colluding: Annotated[float, Field(ge=0, lt=1)] = 0.0
    drop_outs: Annotated[float, Field(ge=0, lt=1)] = 0.0


_MAX = 2**53 - 1
MOST_DAYS = 36_500


class CampaignForm(Form):
    """A new campaign. Whole numbers of a domain are decimal strings, as in the manifest."""

    measurement: Annotated[str, Field(pattern=MEASUREMENT)]
    question: Annotated[str, Field(min_length=1, max_length=500)]
    domain: Annotated[IntegersForm | GridForm, Field(discriminator="kind")]
    epsilon: Annotated[float, Field(ge=1e-9, le=50)]
    planned_users: Annotated[int, Field(ge=1, le=_MAX)]
    quantiles: Annotated[list[float], Field(min_length=1, max_length=100)] = [0.5]
    protocol: Annotated[str, Field(max_length=50)] = "isotonic"
    options: dict[str, str | int | bool | None] = {}
    interval: Annotated[float, Field(gt=0, lt=1)] | None = None
    waves: WavesForm | None = None
    opens: Annotated[int, Field(ge=0, le=_MAX)] | None = None
    deadline: Annotated[int, Field(ge=0, le=_MAX)] | None = None
    pace: Annotated[float, Field(ge=0, le=1)] = DEFAULT_SHARE
    shuffle: ShuffleForm | None = None
    keep_days: Annotated[int, Field(ge=1, le=MOST_DAYS)] | None = None

    def to_draft(self) -> Draft:
        domain = self.domain.model_dump()
        if "edges" in domain:
            domain["edges"] = [real_to_wire(edge) for edge in domain["edges"]]
        in_another_form = {
            "domain": domain_from_wire(domain),
            "quantiles": tuple(self.quantiles),
            "options": tuple(self.options.items()),
            "waves": ONE_WAVE if self.waves is None else Waves(**self.waves.model_dump()),
            "shuffle": self.shuffle and ShuffleDraft(**self.shuffle.model_dump()),
        }
        return Draft(**self.model_dump() | in_another_form)


class InvitesForm(Form):
    count: Annotated[int, Field(ge=1, le=MOST_INVITES)]


class LinkForm(Form):
    places: Annotated[int, Field(ge=1, le=_MAX)]
    code: bool = False


class Created(BaseModel):
    """join: what the shuffler's operator is to be given, of a campaign in the shuffle model. plan: in words."""

    id: str
    key_fingerprint: str
    join: str | None = None
    plan: str | None = None


class LinkMade(BaseModel):
    """code: what is to be typed beside it, where one was asked for."""

    invite: str
    code: str | None = None


class StateForm(BaseModel):
    id: str
    state: str


class CampaignLine(BaseModel):
    id: str
    measurement: str
    state: str
    heard: int
    planned_users: int
    deadline: int
    alarm: bool


class PaceShown(BaseModel):
    """share: of those heard. waiting, wait_seconds: as seen by the process that answers."""

    share: float
    at_a_time: int
    waiting: int
    wait_seconds: int


class CampaignShown(BaseModel):
    """behind: while the campaign runs, numbers are those of a snapshot at least so many reports old.

    keep_days: how long after `closed` (seconds since 1970) it is erased by itself; null: not before it is deleted.
    """

    id: str
    state: str
    manifest: dict[str, Any]
    key_fingerprint: str
    heard: int
    planned_users: int
    tokens: int
    asked_not_answered: int
    behind: int = 0
    keep_days: int | None = None
    closed: int | None = None
    pace: PaceShown | None = None
    open_link: dict[str, int] | None
    thresholds: int
    epsilon: float
    estimates: list[dict[str, Any]]
    privacy: str
    poisoning: str
    alarms: list[str]
    shuffle: dict[str, Any] | None = None


class Verified(BaseModel):
    """ok: all three agree. reports, estimates: of a closed campaign; of one that runs, null."""

    campaign: str
    ok: bool
    counts_agree: bool
    estimates_agree: bool
    tokens_agree: bool | None = None
    reports: int | None = None
    estimates: list[dict[str, Any]] | None
    batches_agree: bool | None = None
    announcements_agree: bool | None = None
    rounds: list[dict[str, Any]] | None = None


class Deleted(BaseModel):
    """erased: no byte is left in the store's own files. left: what may be left, and where, in words."""

    id: str
    erased: bool
    left: str


class Exported(BaseModel):
    campaign: str
    state: str
    envelope: dict[str, Any]
    counts: list[dict[str, Any]]
    estimates: list[dict[str, Any]]
    rounds: list[dict[str, Any]] | None = None


class AuditLine(BaseModel):
    no: int
    at: int
    operator: str
    act: str
    campaign: str | None
    detail: str


_SHOWN = 3
_LONGEST = 60

# By pydantic's name of the mistake; the names in braces are those of its context.
_ALLOWED = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "finite_number": "must be a finite number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of fewer digits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be a JSON object",
    "model_attributes_type": "must be a JSON object",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "has {discriminator}, which must be {expected_tags}",
    "union_tag_not_found": "needs {discriminator}",
    "missing": "is needed",
    "extra_forbidden": "is not a field of this request",
}
# Mistakes whose input is not the one value that is wrong.
_NOT_REPEATED = frozenset(("missing", "extra_forbidden", "union_tag_invalid", "union_tag_not_found"))


def in_words(mistakes: Sequence[Mapping[str, Any]]) -> str:
    """One line for the mistakes that pydantic found, the first few of them."""
    lines = list(dict.fromkeys(_line(mistake) for mistake in mistakes))
    more = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return "; ".join(lines[:_SHOWN]) + more


def _line(mistake: Mapping[str, Any]) -> str:
    kind, context = mistake["type"], mistake.get("ctx", {})
    where, *path = mistake["loc"]
    if kind == "json_invalid":
        return f"the body is not JSON, from character {path[0] if path else 0} on"
    if path[:1] == ["domain"]:
        del path[1:2]  # the kind of the domain, which is no field
    if path[:1] == ["options"] and len(path) == 3:
        # A value that is of none of the kinds allowed; pydantic has a mistake for each.
        return f"{_name(path[:2])} must be a text, a whole number, true, false or null{_given(mistake)}"
    allowed = PATTERNS.get(context.get("pattern", "")) or _ALLOWED.get(kind, "is not what this field takes")
    given = "" if kind in _NOT_REPEATED or where == "path" else _given(mistake)
    return f"{_name(path)} {allowed.format(**context)}{given}"


def _name(path: Sequence[str | int]) -> str:
    """options.spread, quantiles[2], or the whole body."""
    found = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return _short(found.lstrip(".")) or "the body"


def _given(mistake: Mapping[str, Any]) -> str:
    value = mistake.get("input")
    if len(mistake["loc"]) < 2:
        return ""
    if value is None or isinstance(value, bool):
        return f", got {str(value).lower() if value is not None else 'null'}"
    if isinstance(value, int | float | str):
        return f", got {_short(repr(value))}"
    if isinstance(value, list):
        return f", got a list of {len(value)}"
    return ", got an object" if isinstance(value, dict) else ""


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."

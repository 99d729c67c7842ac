"""What the operator's API takes and gives, as models: FastAPI checks by them and writes them into OpenAPI."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from privquant.aggregator.campaign.campaigns import MOST_INVITES
from privquant.aggregator.campaign.mode import ONE_WAVE, Draft, ShuffleDraft
from privquant.aggregator.devices.admission_rules import DEFAULT_SHARE
from privquant.wire import MAX_EDGES, Waves, domain_from_wire, real_to_wire

WHOLE = r"^(0|-?[1-9][0-9]{0,19})$"
MEASUREMENT = r"^[a-z0-9][a-z0-9._-]{0,99}$"
CAMPAIGN_ID = "^[0-9a-f]{64}$"

IN_WORDS = {
    WHOLE: 'must be a whole number as a text, such as "600"',
    MEASUREMENT: "must be a name of 1 to 100 of a-z 0-9 . _ -, starting with a letter or digit",
    CAMPAIGN_ID: "must be a campaign's whole id, 64 lower-case hex digits",
}
"""What the patterns mean, for error messages."""


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

    def to_draft(self) -> ShuffleDraft:
        return ShuffleDraft(**self.model_dump())


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
    shuffle: Annotated[ShuffleForm, AfterValidator(ShuffleForm.to_draft)] | None = None
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
            "shuffle": self.shuffle,
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

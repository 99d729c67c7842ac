"""What a campaign does differently in its two modes: one interface, which `local` and `shuffled` implement.

In the local mode devices talk to this server. Queries are published from the counts, a device is given one, and
its report is counted by itself. What is shown while the campaign runs lags behind, in snapshots. In the shuffled
mode devices talk to the shuffler. This server announces the question of a round, and the shuffler sends the round's
reports as one batch, which is counted whole. A round is the smallest thing that is counted and is shown as it is.

    what a manifest says       terms_of_draft
    how a report comes in      check_route
    what is asked first        first_queries
    who gets in                check_invites
    what is shown              show, export, verify, heard, contradicted, alarms, created, page
    how the answer closed in   past

`campaigns.mode_of` says which mode a campaign has; what is asked next, `publisher` says of both. A mode holds the
manifest and nothing besides; all that it shows it reads from the database.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from privquant.aggregator.campaign.protocol import Options
from privquant.aggregator.campaign.states import shown_state
from privquant.aggregator.devices.admission_rules import DEFAULT_SHARE
from privquant.aggregator.store.base import CampaignRow, Counts
from privquant.aggregator.store.operator_queries import Engine
from privquant.domain import Domain
from privquant.messages import Estimate, Query
from privquant.wire import Manifest, Route, SealKey, Waves, fingerprint

ONE_WAVE = Waves()
Estimating = Callable[[Manifest, Sequence[Counts]], Awaitable[list[Estimate]]]
"""Computes the estimates of counts."""
Waiting = Callable[[str], tuple[int, float]]
"""How many devices wait for their turn in a campaign, and how many seconds others had waited."""


@dataclass(frozen=True, slots=True)
class ShuffleDraft:
    """What an operator says about the shuffle model.

    cap:       the most that may be left if shuffler and aggregator work together; None: no limit.
    colluding: share of a round's reports that may be the aggregator's own.
    drop_outs: share of the users planned for who are expected not to answer.
    address, key: of the shuffler; `privquant shuffler key` shows both.
    """

    delta: float
    address: str
    key: str
    cap: float | None = None
    colluding: float = 0.0
    drop_outs: float = 0.0


@dataclass(frozen=True, slots=True)
class Draft:
    """What an operator says about a new campaign; the rest of the manifest follows from it."""

    measurement: str
    question: str
    domain: Domain
    epsilon: float
    planned_users: int
    quantiles: tuple[float, ...] = (0.5,)
    protocol: str = "isotonic"
    options: Options = ()
    interval: float | None = None
    waves: Waves = ONE_WAVE
    opens: int | None = None
    deadline: int | None = None
    pace: float = DEFAULT_SHARE
    shuffle: ShuffleDraft | None = None
    keep_days: int | None = None


class CampaignMode(ABC):
    """The mode of one campaign. What only one mode has to say is answered here for the other."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @cached_property
    def id(self) -> str:
        return self.manifest.id

    @classmethod
    @abstractmethod
    def terms_of_draft(cls, draft: Draft, epsilon: float, seal: SealKey) -> dict[str, Any]:
        """The fields of a new manifest that depend on the mode. seal: the key that batches can be sealed to."""

    @abstractmethod
    def check_route(self, route: Route) -> None:
        """RequestRefused where this server does not answer the route for this campaign."""

    @abstractmethod
    def first_queries(self) -> list[tuple[Query, int]]:
        """The queries to publish at first; InvalidInput if the campaign cannot run or does not keep its promise."""

    def check_invites(self) -> None:  # noqa: B027
        """WrongState where tokens are not issued here."""

    @abstractmethod
    async def show(self, engine: Engine, *, behind: int, waiting: Waiting, estimate: Estimating) -> dict[str, Any]:
        """State, progress and estimates, as JSON.

        behind: reports that what is shown of a running campaign is behind, at least.
        """

    @abstractmethod
    async def export(self, engine: Engine) -> dict[str, Any]:
        """Everything that is not a token: manifest, signature, counts per query, estimates, as JSON."""

    @abstractmethod
    async def verify(self, engine: Engine) -> dict[str, Any]:
        """Everything rebuilt from what the database keeps, and whether it agrees with what is shown, as JSON."""

    def heard(self, row: CampaignRow, _in_snapshot: int) -> int:
        """How many reports are shown in the overview."""
        return row.heard

    def contradicted(self, _counts: Sequence[Counts]) -> bool:
        """Whether one part of the run contradicts the others, by the counts that are shown."""
        return False

    def alarms(self, _counts: Sequence[Counts]) -> list[str]:
        """A sentence for everything in the shown counts that honest devices alone cannot have brought about.

        None in the shuffled mode: there is no snapshot to look at, and a single report is never seen here.
        """
        return []

    def created(self, _url: str) -> dict[str, str]:
        """What an operator is told of a new campaign beside its id. url: of this server."""
        return {}

    @abstractmethod
    def page(self, state: str, url: str) -> str:
        """What a browser shows at the campaign's address on this server."""

    async def past(self, _engine: Engine) -> dict[int, Callable[[], list[Estimate]]]:
        """The earlier estimates that follow from the database, by how many reports they are of."""
        return {}

    def _shown_of(self, row: Any) -> dict[str, Any]:
        """What `show` says in both modes. row: of the table of campaigns."""
        return {
            "id": self.id,
            "state": shown_state(row.state, self.manifest.deadline),
            "manifest": self.manifest.to_dict(),
            "key_fingerprint": fingerprint(self.manifest.issuer),
            "planned_users": self.manifest.planned_users,
        }

    def _exported_of(self, row: Any) -> dict[str, Any]:
        """What `export` says in both modes."""
        state = shown_state(row.state, self.manifest.deadline)
        return {"campaign": self.id, "state": state, "envelope": json.loads(bytes(row.envelope))}


def estimates_as_json(estimates: Iterable[Estimate]) -> list[dict[str, Any]]:
    """With the guarantee in words."""
    return [estimate.to_dict() | {"guarantee": str(estimate.guarantee)} for estimate in estimates]


def counts_as_json(counts: Iterable[Counts]) -> list[dict[str, Any]]:
    """Numbers that may pass 2^53 are texts."""
    return [
        {
            "phase": row.query.phase,
            "arm": row.query.arm,
            "coin": str(row.query.coin),
            "threshold": str(row.query.threshold),
            "answered": row.answered,
            "ones": row.ones,
        }
        for row in counts
    ]

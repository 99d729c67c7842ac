"""What a campaign does differently in its two modes: one interface, which `local` and `shuffled` implement.

In the local mode devices talk to this server. Queries are published from the counts, a device is given one, and
its report is counted by itself. What is shown while the campaign runs lags behind, in snapshots. In the shuffled
mode devices talk to the shuffler. This server announces the question of a round, and the shuffler sends the round's
reports as one batch, which is counted whole. A round is the smallest thing that is counted and is shown as it is.

    what a manifest says       terms_of_draft
    how a report comes in      check_route
    what is asked next         first_queries, publish, announce
    who gets in                check_invites
    what is shown              show, export, verify, heard, contradicted, alarms, created, page
    how the answer closed in   past

`modes.mode_of` says which mode a campaign has, and nothing else asks. A mode holds the manifest and nothing
besides; all that it shows it reads from the database.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from privquant.aggregator.campaign.states import shown_state
from privquant.aggregator.store.base import CampaignRow, Counts
from privquant.aggregator.store.operator_queries import Engine
from privquant.messages import Estimate, Query
from privquant.wire import Manifest, Route, SealKey, fingerprint

if TYPE_CHECKING:
    from privquant.aggregator.campaign.announcer import Announcer
    from privquant.aggregator.campaign.modes import Draft
    from privquant.aggregator.campaign.publisher import Publisher

Estimating = Callable[[Manifest, Sequence[Counts]], Awaitable[list[Estimate]]]
"""Computes the estimates of counts."""
Waiting = Callable[[str], tuple[int, float]]
"""How many devices wait for their turn in a campaign, and how many seconds others had waited."""


class CampaignMode(ABC):
    """The mode of one campaign."""

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

    async def publish(self, row: CampaignRow, publisher: Publisher) -> None:  # noqa: B027
        """A turn of the publisher: nothing where no queries are published."""

    async def announce(self, row: CampaignRow, announcer: Announcer) -> None:  # noqa: B027
        """A turn of the announcer: nothing where no rounds are announced."""

    @abstractmethod
    def check_invites(self) -> None:
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

    @abstractmethod
    def heard(self, row: CampaignRow, in_snapshot: int) -> int:
        """How many reports are shown in the overview."""

    @abstractmethod
    def contradicted(self, counts: Sequence[Counts]) -> bool:
        """Whether one part of the run contradicts the others, by the counts that are shown."""

    @abstractmethod
    def alarms(self, counts: Sequence[Counts]) -> list[str]:
        """A sentence for everything in the shown counts that honest devices alone cannot have brought about."""

    @abstractmethod
    def created(self, url: str) -> dict[str, str]:
        """What an operator is told of a new campaign beside its id. url: of this server."""

    @abstractmethod
    def page(self, state: str, url: str) -> str:
        """What a browser shows at the campaign's address on this server."""

    @abstractmethod
    async def past(self, engine: Engine) -> dict[int, Callable[[], list[Estimate]]]:
        """The earlier estimates that follow from the database, by how many reports they are of."""

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

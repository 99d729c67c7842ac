"""What an operator does with a campaign in the shuffle model: make it, look at it, export and verify it.

Tokens are not among it: they are issued on the shuffler's side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from privquant import wire
from privquant.aggregator.campaign.alarms import alarms, poisoning
from privquant.aggregator.campaign.shuffled_plan import ShuffleDraft, planned_rounds
from privquant.aggregator.campaign.shuffled_protocol import (
    ANNOUNCED,
    COUNTED,
    DROPPED,
    RoundRow,
    build_shuffled,
    folded,
    thresholds_again,
)
from privquant.aggregator.store import rounds as shuffled_rounds
from privquant.aggregator.store.base import Counts
from privquant.domain import Domain
from privquant.messages import Estimate, Query
from privquant.server.peer import check_peer
from privquant.wire.shuffle_promise import check_rounds, promise, terms_of


def shuffled_terms(
    draft: ShuffleDraft, protocol: str, domain: Domain, users: int, epsilon: float, seal: wire.SealKey
) -> wire.Shuffle:
    """What a new manifest says about rounds, shuffler and seal."""
    check_peer(draft.address)
    rounds = planned_rounds(protocol, domain, users=users, epsilon=epsilon, draft=draft)
    return wire.Shuffle(draft.delta, rounds, draft.address, draft.key, seal, float(draft.colluding))


def check_shuffled(manifest: wire.Manifest) -> None:
    """InvalidInput if the campaign cannot run, or does not keep what it says."""
    build_shuffled(manifest)
    check_rounds(manifest)


@dataclass(frozen=True, slots=True)
class Looked:
    """A campaign's rounds as of one moment, and what follows from them."""

    manifest: wire.Manifest
    rows: list[RoundRow]

    @property
    def counts(self) -> list[Counts]:
        protocol = build_shuffled(self.manifest)
        return [
            Counts(protocol.query_of_round(row.round, row.threshold), row.answered, row.ones)
            for row in self.rows
            if row.answered
        ]

    def estimates(self) -> list[dict[str, Any]]:
        return estimates_shown(folded(self.manifest, self.rows).estimates())

    def rounds(self) -> list[dict[str, Any]]:
        """As JSON, each with the number it needed."""
        terms = terms_of(self.manifest)
        return [
            {
                "round": row.round,
                "state": row.state,
                "threshold": str(row.threshold),
                "needed": terms.rounds[row.round].batch,
                "reports": row.reports,
                "opened": row.answered,
                "extended": row.extended,
                "batch": row.batch,
            }
            for row in self.rows
        ]

    def ended(self, state: str) -> int:
        return sum(row.state == state for row in self.rows)


def estimates_shown(estimates: Iterable[Estimate]) -> list[dict[str, Any]]:
    """Estimates as JSON, with the guarantee in words."""
    return [estimate.to_dict() | {"guarantee": str(estimate.guarantee)} for estimate in estimates]


def counts_shown(counts: Iterable[Counts]) -> list[dict[str, Any]]:
    """Counts as JSON, numbers that may pass 2^53 as texts."""
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


async def look(db: AsyncConnection, number: int, manifest: wire.Manifest) -> Looked:
    return Looked(manifest, await shuffled_rounds.read_rounds(db, number))


def shown(found: Looked) -> dict[str, Any]:
    """What `show` has of a shuffled campaign beyond id and state."""
    manifest, terms = found.manifest, terms_of(found.manifest)
    guarantee = promise(manifest)
    alarmed = alarms(manifest, found.counts)
    unopened = sum(row.reports - row.answered for row in found.rows if row.state == COUNTED)
    if unopened:
        alarmed.append(f"{unopened} reports in the batches did not open: not sealed to the question they came for")
    return {
        "manifest": manifest.to_dict(),
        "key_fingerprint": wire.fingerprint(manifest.issuer),
        "heard": sum(row.answered for row in found.rows),
        "planned_users": manifest.planned_users,
        "tokens": 0,
        "asked_not_answered": 0,
        "open_link": None,
        "thresholds": len({row.threshold for row in found.rows if row.answered}),
        "epsilon": guarantee.epsilon,
        "estimates": found.estimates(),
        "privacy": str(guarantee),
        "poisoning": poisoning(manifest),
        "alarms": alarmed,
        "shuffle": {
            "shuffler": terms.address,
            "shuffler_fingerprint": wire.fingerprint(terms.key),
            "guarantee": guarantee.to_dict(),
            "table": guarantee.table(),
            "planned_rounds": len(terms.rounds),
            "counted_rounds": found.ended(COUNTED),
            "dropped_rounds": found.ended(DROPPED),
            "dropped_reports": sum(row.reports for row in found.rows if row.state == DROPPED),
            "standing": standing(found),
            "rounds": found.rounds(),
        },
    }


def standing(found: Looked) -> str:
    """What the campaign waits for, in one sentence."""
    terms = terms_of(found.manifest)
    open_round = next((row for row in found.rows if row.state == ANNOUNCED), None)
    ended = f"{found.ended(COUNTED)} of {len(terms.rounds)} rounds counted"
    lost = f", {found.ended(DROPPED)} dropped" if found.ended(DROPPED) else ""
    if open_round is None:
        return f"{ended}{lost}"
    needed = terms.rounds[open_round.round].batch
    if not open_round.noted:
        return f"{ended}{lost}; round {open_round.round} waits for the shuffler at {terms.address} to take it"
    more = ", extended once" if open_round.extended else ""
    return f"{ended}{lost}; round {open_round.round} waits for {needed:,} reports at the shuffler{more}"


def exported(found: Looked) -> dict[str, Any]:
    """Rounds and estimates."""
    return {"counts": counts_shown(found.counts), "estimates": found.estimates(), "rounds": found.rounds()}


def verified(found: Looked, served: dict[Query, tuple[int, int]]) -> dict[str, Any]:
    """Rebuild everything from the rounds and compare: counts, batches, announcements, every question asked."""
    manifest, rows, terms = found.manifest, found.rows, terms_of(found.manifest)
    same_counts = served == {row.query: (row.answered, row.ones) for row in found.counts}
    counted = [row for row in rows if row.state == COUNTED]
    whole = all(row.reports >= terms.rounds[row.round].batch and row.reports >= row.answered for row in counted)
    once = len({row.batch for row in counted}) == len(counted) and None not in {row.batch for row in counted}
    nothing = all(row.answered == 0 and row.batch is None for row in rows if row.state == DROPPED)
    in_order = [row.round for row in rows] == list(range(len(rows))) and all(row.over for row in rows[:-1])
    same_questions = thresholds_again(manifest, rows) == [row.threshold for row in rows]
    return {
        "ok": same_counts and whole and once and nothing and in_order and _chain(manifest, rows) and same_questions,
        "reports": sum(row.reports for row in counted),
        "counts_agree": same_counts,
        "estimates_agree": same_questions,
        "estimates": found.estimates(),
        "batches_agree": whole and once and nothing and in_order,
        "announcements_agree": _chain(manifest, rows),
        "rounds": found.rounds(),
    }


def _chain(manifest: wire.Manifest, rows: list[RoundRow]) -> bool:
    """Whether the announcements are signed, one a round, each following the one before."""
    try:
        signed = [wire.open_announcement(row.envelope, manifest) for row in rows]
    except (wire.SignatureError, wire.WireError):
        return False
    return signed == wire.announcements(manifest.id, [row.threshold for row in rows])

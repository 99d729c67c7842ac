"""What an operator does with a campaign in the shuffle model: make it, look at it, export and verify it.

Tokens are not among it: they are issued on the shuffler's side.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from privquant import wire
from privquant.aggregator import shuffle_rounds
from privquant.aggregator.alarms import EXAMPLE, alarms
from privquant.aggregator.peer import check_peer
from privquant.aggregator.shuffle_plan import ShuffleDraft, planned_rounds
from privquant.aggregator.shuffle_promise import check_rounds, promise, terms_of
from privquant.aggregator.shuffle_protocol import (
    ANNOUNCED,
    COUNTED,
    DROPPED,
    RoundRow,
    build_shuffled,
    folded,
    thresholds_again,
)
from privquant.aggregator.store.base import Counts
from privquant.aggregator.store.operator_queries import reading
from privquant.domain import Domain
from privquant.messages import Estimate, Query
from privquant.planning.statement import liars_in_a_run
from privquant.privacy.coin import real_epsilon


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


async def look(engine: AsyncEngine, number: int, manifest: wire.Manifest) -> Looked:
    async with reading(engine) as db:
        return Looked(manifest, await shuffle_rounds.read_rounds(db, number))


async def shown(engine: AsyncEngine, number: int, manifest: wire.Manifest) -> dict[str, Any]:
    """What `show` has of a shuffled campaign beyond id and state."""
    found = await look(engine, number, manifest)
    return await asyncio.to_thread(_shown, found)


def _shown(found: Looked) -> dict[str, Any]:
    manifest, terms = found.manifest, terms_of(found.manifest)
    least = max(row.coin for row in terms.rounds)  # liars weigh the most where the coin flips the most
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
        "poisoning": liars_in_a_run(EXAMPLE, epsilon=real_epsilon(least), quantiles=manifest.quantiles),
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
            "rounds": [_round(row, terms.rounds[row.round].batch) for row in found.rows],
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


def _round(row: RoundRow, needed: int) -> dict[str, Any]:
    return {
        "round": row.round,
        "state": row.state,
        "threshold": str(row.threshold),
        "needed": needed,
        "reports": row.reports,
        "opened": row.answered,
        "extended": row.extended,
        "batch": row.batch,
    }


async def exported(engine: AsyncEngine, number: int, manifest: wire.Manifest, envelope: bytes) -> dict[str, Any]:
    """Manifest, rounds and estimates."""
    found = await look(engine, number, manifest)

    def form() -> dict[str, Any]:
        return {
            "envelope": json.loads(envelope),
            "counts": counts_shown(found.counts),
            "estimates": found.estimates(),
            "rounds": [_round(row, terms_of(manifest).rounds[row.round].batch) for row in found.rows],
        }

    return await asyncio.to_thread(form)


async def verified(
    engine: AsyncEngine, number: int, manifest: wire.Manifest, served: dict[Query, tuple[int, int]]
) -> dict[str, Any]:
    """Rebuild everything from the rounds and compare: counts, batches, announcements, every question asked."""
    found = await look(engine, number, manifest)
    return await asyncio.to_thread(_verified, found, served)


def _verified(found: Looked, served: dict[Query, tuple[int, int]]) -> dict[str, Any]:
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
        "spent_tokens": 0,
        "counts_agree": same_counts,
        "estimates_agree": same_questions,
        "estimates": found.estimates(),
        "batches_agree": whole and once and nothing and in_order,
        "announcements_agree": _chain(manifest, rows),
        "rounds": [_round(row, terms.rounds[row.round].batch) for row in rows],
    }


def _chain(manifest: wire.Manifest, rows: list[RoundRow]) -> bool:
    """Whether the announcements are signed, one a round, each following the one before."""
    try:
        signed = [wire.open_announcement(row.envelope, manifest) for row in rows]
    except (wire.SignatureError, wire.WireError):
        return False
    return signed == wire.announcements(manifest.id, [row.threshold for row in rows])

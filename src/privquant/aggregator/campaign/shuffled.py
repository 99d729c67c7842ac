"""The shuffled mode: devices talk to the shuffler, and this server counts the batch of a round whole.

Tokens are issued on the shuffler's side. Everything that is shown of such a campaign follows from its rounds.

How they are planned: the users who are expected to answer are divided into rounds as the lab divides them; every
round gets the most honest coin that keeps (epsilon, delta) with its own number of reports, the colluders among them
counted out, and never one above the cap. Those who are expected to drop out are left out of the plan: a round waits
for its number, so a plan for users who never come would end in a round that is dropped.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

from privquant import wire
from privquant.aggregator.campaign.alarms import EXAMPLE, impossible_rates, liars
from privquant.aggregator.campaign.mode import CampaignMode, Draft, ShuffleDraft, counts_as_json, estimates_as_json
from privquant.aggregator.campaign.protocol import build_shuffled, folded, thresholds_again
from privquant.aggregator.campaign.states import WrongState
from privquant.aggregator.store.base import Counts
from privquant.aggregator.store.operator_queries import Engine, as_dict, find_campaign, read_counts, reading
from privquant.aggregator.store.rounds import ANNOUNCED, COUNTED, DROPPED, RoundRow, rounds_in
from privquant.domain import Domain
from privquant.errors import InvalidInput
from privquant.messages import Estimate, Query
from privquant.pages.join_pages import shuffled_page
from privquant.planning.calibration import rounds_of
from privquant.privacy.coin import Coin, real_epsilon
from privquant.privacy.shuffle import local_epsilon
from privquant.server.http_client import check_peer
from privquant.server.replies import RequestRefused
from privquant.validation import check_choice, check_count, check_epsilon, check_probability
from privquant.wire import MAX_ROUNDS, RoundTerms, terms_of
from privquant.wire.shuffle_promise import check_rounds, promise

PROTOCOLS = ("isotonic", "naive")
# A coin less than this many times as honest as the plain local one is not worth trusting a shuffler for.
_WORTH_IT = 1.01
_ANSWERED_HERE = (wire.MANIFEST, wire.BATCHES, wire.NOTICES)


class Shuffled(CampaignMode):
    """A campaign in the shuffle model."""

    announces_rounds = True

    @classmethod
    def terms_of_draft(cls, draft: Draft, epsilon: float, seal: wire.SealKey) -> dict[str, Any]:
        said = draft.shuffle
        assert said is not None
        check_peer(said.address)
        rounds = planned_rounds(
            draft.protocol, draft.domain, users=draft.planned_users, epsilon=epsilon, draft=said
        )
        terms = wire.Shuffle(said.delta, rounds, said.address, said.key, seal, float(said.colluding))
        return {
            "flip_threshold": terms.most_honest_coin,
            "options": tuple(sorted(draft.options)),
            "planned_users": sum(row.batch for row in rounds),
            "trust": "shuffle",
            "version": wire.SHUFFLED_VERSION,
            "shuffle": terms,
        }

    def check_route(self, route: wire.Route) -> None:
        if route not in _ANSWERED_HERE:
            raise RequestRefused("not-found", f"this campaign is answered at {terms_of(self.manifest).address}")

    def first_queries(self) -> list[tuple[Query, int]]:
        build_shuffled(self.manifest)
        check_rounds(self.manifest)
        return []

    def check_invites(self) -> None:
        raise WrongState(
            f"the tokens of this campaign are issued by its shuffler, at {terms_of(self.manifest).address}: "
            "`privquant shuffler invites` there"
        )

    async def show(self, engine: Engine, **_around: object) -> dict[str, Any]:
        row, rounds, _ = await self._read(engine)
        return self._shown_of(row) | await asyncio.to_thread(rounds.shown)

    async def export(self, engine: Engine) -> dict[str, Any]:
        row, rounds, _ = await self._read(engine)
        return self._exported_of(row) | await asyncio.to_thread(rounds.exported)

    async def verify(self, engine: Engine) -> dict[str, Any]:
        _, rounds, served = await self._read(engine)
        return {"campaign": self.id} | await asyncio.to_thread(rounds.verified, served)

    def created(self, url: str) -> dict[str, str]:
        """What the shuffler's operator is to be given, and the rounds in words."""
        join = f"{url}/c/{self.id}#k={wire.fingerprint(self.manifest.issuer)}"
        return {"join": join, "plan": plan_in_words(terms_of(self.manifest).rounds)}

    def page(self, _state: str, _url: str) -> str:
        return shuffled_page(self.manifest, at_shuffler=False)

    async def past(self, engine: Engine) -> dict[int, Callable[[], list[Estimate]]]:
        """One for every round that was counted."""
        rows = (await self._read(engine))[1].rows
        sums = list(accumulate(row.answered for row in rows))

        def then(heard: int) -> list[Estimate]:
            so_far = [row for row, so_many in zip(rows, sums, strict=True) if so_many <= heard]
            return folded(self.manifest, so_far).estimates()

        return {sums[place]: partial(then, sums[place]) for place, row in enumerate(rows) if row.state == COUNTED}

    async def _read(self, engine: Engine) -> tuple[Any, RoundsSoFar, dict[Query, tuple[int, int]]]:
        """The campaign's row, its rounds, and the counts that the store has, as of one moment."""
        async with reading(engine) as db:
            row, manifest = await find_campaign(db, self.id)
            rounds = RoundsSoFar(manifest, await rounds_in(db, row.no))
            return row, rounds, as_dict(await read_counts(db, row.no))


@dataclass(frozen=True, slots=True)
class RoundsSoFar:
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
        return estimates_as_json(folded(self.manifest, self.rows).estimates())

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

    def shown(self) -> dict[str, Any]:
        """What `show` says of a shuffled campaign alone."""
        terms, guarantee, counts = terms_of(self.manifest), promise(self.manifest), self.counts
        alarms = impossible_rates(self.manifest, counts)
        unopened = sum(row.reports - row.answered for row in self.rows if row.state == COUNTED)
        if unopened:
            alarms.append(
                f"{unopened} reports in the batches did not open: not sealed to the question they came for"
            )
        return {
            "heard": sum(row.answered for row in self.rows),
            "tokens": 0,
            "asked_not_answered": 0,
            "open_link": None,
            "thresholds": len({row.threshold for row in self.rows if row.answered}),
            "epsilon": guarantee.epsilon,
            "estimates": self.estimates(),
            "privacy": str(guarantee),
            "poisoning": liars(self.manifest, EXAMPLE),
            "alarms": alarms,
            "shuffle": {
                "shuffler": terms.address,
                "shuffler_fingerprint": wire.fingerprint(terms.key),
                "guarantee": guarantee.to_dict(),
                "table": guarantee.table(),
                "planned_rounds": len(terms.rounds),
                "counted_rounds": self.ended(COUNTED),
                "dropped_rounds": self.ended(DROPPED),
                "dropped_reports": sum(row.reports for row in self.rows if row.state == DROPPED),
                "standing": self.standing(),
                "rounds": self.rounds(),
            },
        }

    def standing(self) -> str:
        """What the campaign waits for, in one sentence."""
        terms = terms_of(self.manifest)
        open_round = next((row for row in self.rows if row.state == ANNOUNCED), None)
        ended = f"{self.ended(COUNTED)} of {len(terms.rounds)} rounds counted"
        lost = f", {self.ended(DROPPED)} dropped" if self.ended(DROPPED) else ""
        if open_round is None:
            return f"{ended}{lost}"
        needed = terms.rounds[open_round.round].batch
        if not open_round.noted:
            return f"{ended}{lost}; round {open_round.round} waits for the shuffler at {terms.address} to take it"
        more = ", extended once" if open_round.extended else ""
        return f"{ended}{lost}; round {open_round.round} waits for {needed:,} reports at the shuffler{more}"

    def exported(self) -> dict[str, Any]:
        """Rounds and estimates."""
        return {"counts": counts_as_json(self.counts), "estimates": self.estimates(), "rounds": self.rounds()}

    def verified(self, served: dict[Query, tuple[int, int]]) -> dict[str, Any]:
        """Everything rebuilt from the rounds and compared: counts, batches, announcements, every question asked."""
        manifest, rows, terms = self.manifest, self.rows, terms_of(self.manifest)
        same_counts = served == {row.query: (row.answered, row.ones) for row in self.counts}
        counted = [row for row in rows if row.state == COUNTED]
        whole = all(row.reports >= terms.rounds[row.round].batch and row.reports >= row.answered for row in counted)
        once = len({row.batch for row in counted}) == len(counted) and None not in {row.batch for row in counted}
        nothing = all(row.answered == 0 and row.batch is None for row in rows if row.state == DROPPED)
        in_order = [row.round for row in rows] == list(range(len(rows))) and all(row.over for row in rows[:-1])
        same_batches, same_chain = whole and once and nothing and in_order, _chain(manifest, rows)
        same_questions = thresholds_again(manifest, rows) == [row.threshold for row in rows]
        return {
            "ok": same_counts and same_batches and same_chain and same_questions,
            "reports": sum(row.reports for row in counted),
            "counts_agree": same_counts,
            "estimates_agree": same_questions,
            "estimates": self.estimates(),
            "batches_agree": same_batches,
            "announcements_agree": same_chain,
            "rounds": self.rounds(),
        }


def _chain(manifest: wire.Manifest, rows: list[RoundRow]) -> bool:
    """Whether the announcements are signed, one a round, each following the one before."""
    try:
        signed = [wire.open_announcement(row.envelope, manifest) for row in rows]
    except (wire.SignatureError, wire.WireError):
        return False
    return signed == wire.announcements(manifest.id, [row.threshold for row in rows])


def planned_rounds(
    protocol: str, domain: Domain, *, users: int, epsilon: float, draft: ShuffleDraft
) -> tuple[RoundTerms, ...]:
    """The rounds of a campaign; InvalidInput where shuffling gains nothing."""
    check_choice(protocol, "protocol", PROTOCOLS)
    e, d = check_epsilon(epsilon), check_probability(draft.delta, "delta")
    if not 0.0 <= draft.drop_outs < 1.0:
        raise InvalidInput(f"drop_outs is a share from 0 to below 1, got {draft.drop_outs!r}")
    expected = check_count(math.floor(users * (1.0 - draft.drop_outs)), "users who answer", 1)
    sizes = rounds_of(protocol, expected, e, domain.size)
    coin_for = partial(local_epsilon, epsilon=e, delta=d, cap=draft.cap, colluding=draft.colluding)
    if protocol == "naive":
        allowed = dict.fromkeys(sizes, coin_for(batch=min(sizes)))  # one coin, of the smallest round
    else:
        allowed = {size: coin_for(batch=size) for size in set(sizes)}
    if len(sizes) > MAX_ROUNDS:
        raise InvalidInput(f"a campaign has at most {MAX_ROUNDS} rounds, and this one would have {len(sizes)}")
    if max(allowed.values()) <= _WORTH_IT * e:
        raise InvalidInput(
            f"shuffling gains nothing here: rounds of {min(sizes):,} to {max(sizes):,} reports allow no coin "
            f"that is more honest than epsilon {e:g} alone; plan for more users, a larger delta or a "
            "higher cap, or leave --trust shuffle out"
        )
    return tuple(RoundTerms(size, Coin.of(allowed[size]).threshold) for size in sizes)


def plan_in_words(rounds: tuple[RoundTerms, ...]) -> str:
    """The table in one sentence, for who makes a campaign."""
    sizes, coins = [row.batch for row in rounds], [real_epsilon(row.coin) for row in rounds]
    return (
        f"{len(rounds)} rounds of {min(sizes):,} to {max(sizes):,} reports, {sum(sizes):,} in all; local epsilon "
        f"{min(coins):.3g} to {max(coins):.3g}, which is what is left if shuffler and aggregator work together"
    )

"""What an operator does with campaigns: create, look, invite, pause, resume, close, export, verify, delete.

A published manifest cannot be changed by anyone: there is no call for it, and its id is its hash. Every act is
written to the audit in the transaction that does it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncEngine

from privquant.aggregator.campaign import shuffled as shuffled_campaigns
from privquant.aggregator.campaign.alarms import alarms, judged, poisoning
from privquant.aggregator.campaign.local_protocol import estimates_of, key_of
from privquant.aggregator.campaign.modes import Draft, check_waves, first_queries, new_manifest
from privquant.aggregator.campaign.shuffled import counts_shown, estimates_shown, look
from privquant.aggregator.campaign.snapshots import STEP, shown_counts, shown_heard
from privquant.aggregator.devices.pace import at_a_time, check_share
from privquant.aggregator.operators.accounts import note
from privquant.aggregator.store import schema
from privquant.aggregator.store.base import CampaignRow, Counts, DeviceStore, Erasure
from privquant.aggregator.store.operator_queries import (
    as_dict,
    find_campaign,
    manifest_of,
    publish,
    read_counts,
    reading,
    size_of,
    writing,
)
from privquant.aggregator.store.statements import CAMPAIGNS, COUNTS_FROM_LOG, for_sqlalchemy
from privquant.errors import InvalidInput, PrivquantError
from privquant.messages import Estimate
from privquant.privacy.coin import real_epsilon
from privquant.server.keys import KeyRing
from privquant.server.token_ids import TokenIds, hash_link, hash_of
from privquant.wire import Invite, Manifest, fingerprint, new_code, new_token, sign_manifest

MOST_INVITES = 100_000
"""In one call; ask again for more."""
_CHUNK = 5_000  # ids a transaction, so that devices never wait long for the writer
ERASE_SECONDS = 20.0
"""How long `delete` waits for transactions that keep deleted rows alive."""


Estimating = Callable[[Manifest, Sequence[Counts]], Awaitable[list[Estimate]]]


async def in_a_thread(manifest: Manifest, counts: Sequence[Counts]) -> list[Estimate]:
    return await asyncio.to_thread(estimates_of, manifest, counts)


class WrongState(PrivquantError):
    """The campaign's state does not allow the act."""


@dataclass(eq=False)
class Campaigns:
    """Acts on the campaigns of one store.

    url:     what invites start with.
    behind:  reports that what is shown of a running campaign is behind, at least.
    waiting: how many devices wait for their turn in a campaign, and how long others had waited.
    """

    engine: AsyncEngine
    store: DeviceStore
    keys: KeyRing
    url: str
    behind: int = STEP
    waiting: Callable[[str], tuple[int, float]] = lambda _campaign: (0, 0.0)

    def __post_init__(self) -> None:
        self._alarm_at_the_end: dict[str, bool] = {}

    async def create(self, draft: Draft, by: str) -> str:
        """Publish a campaign; its id. The manifest is signed with the current key."""
        key = self.keys.current
        check_waves(draft.waves)
        pace = check_share(draft.pace)
        manifest = await asyncio.to_thread(new_manifest, draft, self.keys)
        # Refuses what cannot run, before anything is stored.
        first = await asyncio.to_thread(first_queries, manifest)
        async with writing(self.engine) as db:
            made = await db.execute(
                insert(schema.campaign).values(
                    id=manifest.id,
                    envelope=sign_manifest(manifest, key),
                    state="open",
                    created=int(time.time()),
                    pace=pace,
                    keep_days=draft.keep_days,
                )
            )
            assert made.inserted_primary_key is not None
            number = made.inserted_primary_key[0]
            await publish(db, number, first)
            await note(db, by, "create", manifest.id, manifest.measurement)
        return manifest.id

    async def manifest(self, identity: str) -> Manifest:
        async with reading(self.engine) as db:
            return (await find_campaign(db, identity))[1]

    async def overview(self) -> list[dict[str, Any]]:
        """All campaigns; of those that run, as of their last snapshots. alarm: a part contradicts the rest."""
        async with reading(self.engine) as db:
            rows = (await db.execute(text(for_sqlalchemy(CAMPAIGNS)), {"p1": None, "p2": False})).all()
            shown = await shown_heard(db)
            counts = {
                no: await shown_counts(db, no, state)
                for no, identity, state, *_ in rows
                if identity not in self._alarm_at_the_end
            }
        found = []
        for row in (CampaignRow(*row) for row in rows):
            manifest = manifest_of(bytes(row.envelope))
            alarm = self._alarm_at_the_end.get(row.id, False)
            if row.no in counts and manifest.shuffle is None:
                said = await asyncio.to_thread(judged, manifest, counts[row.no])
                alarm = said is not None and said[0].alarm
                if row.state == "closed":  # its counts will not change
                    self._alarm_at_the_end[row.id] = alarm
            found.append(
                {
                    "id": row.id,
                    "measurement": manifest.measurement,
                    "state": shown_state(row.state, manifest),
                    "heard": row.heard if row.state == "closed" or manifest.shuffle else shown.get(row.no, 0),
                    "planned_users": manifest.planned_users,
                    "deadline": manifest.deadline,
                    "alarm": alarm,
                }
            )
        return found

    async def watch(self) -> list[dict[str, Any]]:
        """`overview`, and of campaigns that are not closed how many alarms their last snapshots raise."""
        found = await self.overview()
        for line in found:
            line["alarms"] = 0
            if line["state"] != "closed":
                async with reading(self.engine) as db:
                    row, manifest = await find_campaign(db, line["id"])
                    counts = await shown_counts(db, row.no, row.state)
                if manifest.shuffle is None:  # of which a single report is never seen here
                    line["alarms"] = len(await asyncio.to_thread(alarms, manifest, counts))
        return found

    async def show(self, identity: str, estimate: Estimating | None = None) -> dict[str, Any]:
        """State, progress and estimates; while it runs, as of its last snapshot. estimate: who computes them."""
        async with reading(self.engine) as db:
            row, manifest = await find_campaign(db, identity)
            state = shown_state(row.state, manifest)
            if manifest.shuffle is not None:
                found = await asyncio.to_thread(shuffled_campaigns.shown, await look(db, row.no, manifest))
                return {"id": identity, "state": state, **found}
            counts = await shown_counts(db, row.no, row.state)
            issued = await size_of(db, schema.token, row.no)
            # A sum that changes when a device is asked, and not when it answers.
            asked = await size_of(db, schema.pin, row.no) + await size_of(db, schema.spent, row.no)
            places = (await db.execute(select(schema.link).where(schema.link.c.campaign == row.no))).first()
        estimates = await (estimate or in_a_thread)(manifest, counts)
        heard = sum(each.answered for each in counts)
        return {
            "id": identity,
            "state": state,
            "manifest": manifest.to_dict(),
            "key_fingerprint": fingerprint(manifest.issuer),
            "heard": heard,
            "planned_users": manifest.planned_users,
            "tokens": issued,
            "asked_not_answered": asked - heard,
            "behind": 0 if row.state == "closed" else self.behind,
            "pace": None if row.pace == 0 else self._pace(identity, row.pace, heard),
            "open_link": None if places is None else {"places": places.places, "taken": places.taken},
            "keep_days": row.keep_days,
            "closed": row.closed,
            "thresholds": len(counts),
            "epsilon": real_epsilon(manifest.flip_threshold),
            "estimates": estimates_shown(estimates),
            "privacy": str(estimates[0].guarantee),
            "poisoning": poisoning(manifest),
            "alarms": await asyncio.to_thread(alarms, manifest, counts),
        }

    def _pace(self, identity: str, share: float, heard: int) -> dict[str, Any]:
        waiting, seconds = self.waiting(identity)
        return {
            "share": share,
            "at_a_time": at_a_time(share, heard),
            "waiting": waiting,
            "wait_seconds": round(seconds),
        }

    async def invite(self, identity: str, number_of: int, by: str) -> list[str]:
        """Fresh one-time invites. Their tokens are nowhere but in what this returns."""
        if not 1 <= number_of <= MOST_INVITES:
            raise InvalidInput(f"1 to {MOST_INVITES} invites can be made in one call, got {number_of}")
        number, office, manifest = await self._open(identity)
        tokens = [new_token() for _ in range(number_of)]
        ids = [{"campaign": number, "id": office.id(hash_of(token))} for token in tokens]
        for start in range(0, len(ids), _CHUNK):
            async with writing(self.engine) as db:
                await db.execute(insert(schema.token), ids[start : start + _CHUNK])
                if start == 0:
                    await note(db, by, "invite", identity, f"{number_of} tokens")
        mark = fingerprint(manifest.issuer)
        return [Invite(self.url, identity, mark, token=token).to_url() for token in tokens]

    async def open_link(
        self, identity: str, places: int, by: str, *, coded: bool = False
    ) -> tuple[str, str | None]:
        """One link for many, with a limit, and the code it needs if `coded`.

        A second call replaces both and keeps the places taken.
        """
        if places < 1:
            raise InvalidInput(f"an open link has at least 1 place, got {places}")
        number, _, manifest = await self._open(identity)
        secret, code = new_token(), new_code() if coded else None
        async with writing(self.engine) as db:
            table = schema.link
            values = {"secret": hash_link(secret, code), "places": places}
            kept = await db.execute(update(table).where(table.c.campaign == number).values(values))
            if kept.rowcount == 0:
                await db.execute(insert(table).values(campaign=number, taken=0, **values))
            await note(db, by, "open link", identity, f"{places} places")
        return Invite(self.url, identity, fingerprint(manifest.issuer), link=secret).to_url(), code

    async def pause(self, identity: str, by: str) -> None:
        """Hand out no queries. Reports to queries handed out before still count."""
        await self._turn(identity, ("open",), "paused", "pause", by)

    async def resume(self, identity: str, by: str) -> None:
        await self._turn(identity, ("paused",), "open", "resume", by)

    async def close(self, identity: str, by: str, why: str = "") -> None:
        """Count nothing any more; seal the last reports; forget what was given to tokens that did not answer."""
        number = await self._turn(identity, ("open", "paused"), "closed", "close", by, why)
        async with writing(self.engine) as db:
            for table in (schema.pin, schema.flight, schema.published, schema.snapshot):
                await db.execute(delete(table).where(table.c.campaign == number))
        await self.store.seal(1)
        await self.store.sweep()

    async def export(self, identity: str) -> dict[str, Any]:
        """Everything that is not a token: manifest, signature, counts per query, estimates; see `show`."""
        async with reading(self.engine) as db:
            row, manifest = await find_campaign(db, identity)
            # A round of the shuffle model is a batch already: nothing finer than it is ever counted.
            rounds = None if manifest.shuffle is None else await look(db, row.no, manifest)
            counts = await shown_counts(db, row.no, row.state)
        if rounds is not None:
            found = await asyncio.to_thread(shuffled_campaigns.exported, rounds)
        else:
            found = {
                "counts": counts_shown(sorted(counts, key=lambda each: key_of(each.query))),
                "estimates": estimates_shown(await asyncio.to_thread(estimates_of, manifest, counts)),
            }
        envelope = json.loads(bytes(row.envelope))
        return {"campaign": identity, "state": shown_state(row.state, manifest), "envelope": envelope, **found}

    async def verify(self, identity: str) -> dict[str, Any]:
        """Rebuild counts and estimates from the log of reports and compare with what is counted.

        The numbers themselves are told of a closed campaign only; of one that runs, whether they agree.
        """
        async with reading(self.engine) as db:
            row, manifest = await find_campaign(db, identity)
            served = await read_counts(db, row.no)
            if manifest.shuffle is not None:
                rounds = await look(db, row.no, manifest)
                found = await asyncio.to_thread(shuffled_campaigns.verified, rounds, as_dict(served))
                return {"campaign": identity, **found}
            logged = await read_counts(db, row.no, statement=COUNTS_FROM_LOG)
            spent = await size_of(db, schema.spent, row.no)
            reports = await size_of(db, schema.log, row.no) + await size_of(db, schema.tail, row.no)
        same_counts = as_dict(served) == as_dict(logged)
        from_counts, from_log = await asyncio.to_thread(
            lambda: (estimates_of(manifest, served), estimates_of(manifest, logged))
        )
        same = [e.to_dict() for e in from_counts] == [e.to_dict() for e in from_log]
        final = row.state == "closed"
        return {
            "campaign": identity,
            "ok": same_counts and same and spent == reports,
            "counts_agree": same_counts,
            "estimates_agree": same,
            "tokens_agree": spent == reports,
            "reports": reports if final else None,
            "estimates": estimates_shown(from_log) if final else None,
        }

    async def delete(self, identity: str, by: str, why: str = "") -> Erasure:
        """Erase a closed campaign, also from the store's files; only the audit remembers it."""
        async with writing(self.engine) as db:
            row, _ = await find_campaign(db, identity)
            if row.state != "closed":
                raise WrongState(f"only a closed campaign can be deleted; this one is {row.state}")
            for table in schema.OF_CAMPAIGNS:
                await db.execute(delete(table).where(table.c.campaign == row.no))
            await db.execute(delete(schema.campaign).where(schema.campaign.c.no == row.no))
            await note(db, by, "delete", identity, why)
        return await self.store.erase(ERASE_SECONDS)

    async def _open(self, identity: str) -> tuple[int, TokenIds, Manifest]:
        async with reading(self.engine) as db:
            row, manifest = await find_campaign(db, identity)
        if row.state == "closed":
            raise WrongState("the campaign is closed")
        if manifest.shuffle is not None:
            raise WrongState(
                f"the tokens of this campaign are issued by its shuffler, at {manifest.shuffle.address}: "
                "`privquant shuffler invites` there"
            )
        return row.no, TokenIds(self.keys.campaign_secret(manifest.issuer, identity)), manifest

    async def _turn(
        self, identity: str, before: tuple[str, ...], after: str, act: str, by: str, why: str = ""
    ) -> int:
        table = schema.campaign
        async with writing(self.engine) as db:
            row, _ = await find_campaign(db, identity)
            now = {"closed": int(time.time())} if after == "closed" else {}
            turned = await db.execute(
                update(table).where(table.c.no == row.no, table.c.state.in_(before)).values(state=after, **now)
            )
            if turned.rowcount == 0:
                raise WrongState(f"a campaign that is {row.state} cannot {act}")
            await note(db, by, act, identity, why)
        return int(row.no)


def shown_state(state: str, manifest: Manifest) -> str:
    """As an operator sees it: past its deadline a campaign that is not closed yet is over."""
    return "over" if state != "closed" and time.time() >= manifest.deadline else state

"""What an operator does with campaigns: create, look, invite, pause, resume, close, export, verify, delete.

A published manifest cannot be changed by anyone: there is no call for it, and its id is its hash. Every act is
written to the audit in the transaction that does it. `states` says which acts a campaign's state allows, and `mode`
what differs between campaigns; `mode_of` says which mode a campaign has.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from privquant.aggregator.campaign import states
from privquant.aggregator.campaign.mode import Draft, Estimating, Local, Waiting
from privquant.aggregator.campaign.protocol import estimates_of
from privquant.aggregator.campaign.shuffled import Shuffled
from privquant.aggregator.campaign.snapshots import STEP, shown_counts
from privquant.aggregator.campaign.states import Act, WrongState
from privquant.aggregator.devices.admission_rules import check_share
from privquant.aggregator.store import operator_queries as queries
from privquant.aggregator.store.base import Counts, DeviceStore, Erasure
from privquant.aggregator.store.operator_queries import Engine, find_campaign, manifest_of, note, reading, writing
from privquant.errors import InvalidInput
from privquant.messages import Estimate
from privquant.server.keys import KeyRing, seal_key
from privquant.server.logs import say
from privquant.server.token_ids import CHUNK, TokenIds, new_invites, new_link
from privquant.validation import check_epsilon
from privquant.wire import Manifest, SealKey, Waves, new_nonce, public_key_of, sign_manifest

MOST_INVITES = 100_000
"""In one call; ask again for more."""
ERASE_SECONDS = 20.0
"""How long `delete` waits for transactions that keep deleted rows alive."""


def new_manifest(draft: Draft, keys: KeyRing) -> Manifest:
    """The manifest that follows from a draft, for the current key to sign."""
    issuer, nonce, epsilon = public_key_of(keys.current), new_nonce(), check_epsilon(draft.epsilon)
    opens = int(time.time()) if draft.opens is None else draft.opens
    seal = SealKey.of(seal_key(keys, issuer, nonce))
    as_they_are = ("measurement", "question", "domain", "quantiles", "protocol", "interval", "waves")
    return Manifest(
        **{name: getattr(draft, name) for name in as_they_are},
        epsilon=epsilon,
        opens=opens,
        deadline=opens + 30 * queries.DAY if draft.deadline is None else draft.deadline,
        issuer=issuer,
        nonce=nonce,
        **(Shuffled if draft.shuffle else Local).terms_of_draft(draft, epsilon, seal),
    )


def mode_of(manifest: Manifest) -> Local | Shuffled:
    """The mode of a campaign."""
    return Shuffled(manifest) if manifest.shuffle else Local(manifest)


def check_waves(waves: Waves) -> None:
    """`InvalidInput` where one half of what waves need is missing."""
    if waves.count > 1 and waves.seconds == 0:
        raise InvalidInput(f"waves.seconds is needed: {waves.count} waves 0 seconds apart all open at once")
    if waves.count == 1 and waves.seconds > 0:
        raise InvalidInput(f"waves.count is needed: 1 wave leaves nothing to open {waves.seconds} seconds later")


async def in_a_thread(manifest: Manifest, counts: Sequence[Counts]) -> list[Estimate]:
    return await asyncio.to_thread(estimates_of, manifest, counts)


@dataclass(eq=False)
class Campaigns:
    """Acts on the campaigns of one store.

    url:     what invites start with.
    behind:  reports that what is shown of a running campaign is behind, at least.
    waiting: how many devices wait for their turn in a campaign, and how long others had waited.
    """

    engine: Engine
    store: DeviceStore
    keys: KeyRing
    url: str
    behind: int = STEP
    waiting: Waiting = lambda _campaign: (0, 0.0)

    def __post_init__(self) -> None:
        self._alarm_at_the_end: dict[str, bool] = {}

    async def create(self, draft: Draft, by: str) -> str:
        """Publish a campaign; its id. The manifest is signed with the current key."""
        key = self.keys.current
        check_waves(draft.waves)
        pace = check_share(draft.pace)
        manifest = await asyncio.to_thread(new_manifest, draft, self.keys)
        # Refuses what cannot run, before anything is stored.
        first = await asyncio.to_thread(mode_of(manifest).first_queries)
        values = {"id": manifest.id, "envelope": sign_manifest(manifest, key), "keep_days": draft.keep_days}
        async with writing(self.engine) as db:
            await queries.add_campaign(db, first, pace=pace, **values)
            await note(db, by, "create", manifest.id, manifest.measurement)
        return manifest.id

    async def manifest(self, identity: str) -> Manifest:
        async with reading(self.engine) as db:
            return (await find_campaign(db, identity))[1]

    async def mode(self, identity: str) -> Local | Shuffled:
        return mode_of(await self.manifest(identity))

    async def overview(self, *, with_alarms: bool = False) -> list[dict[str, Any]]:
        """All campaigns; of those that run, as of their last snapshots. alarm: a part contradicts the rest.

        with_alarms: also how many alarms the last snapshots of campaigns that are not closed raise.
        """
        async with reading(self.engine) as db:
            rows = await queries.all_campaigns(db)
            new = [row for row in rows if row.id not in self._alarm_at_the_end]
            counts = {row.no: await shown_counts(db, row.no, row.state) for row in new}
        found = []
        for row in rows:
            manifest, running = manifest_of(row.envelope), row.state in states.COUNTS_REPORTS
            mode, alarm = mode_of(manifest), self._alarm_at_the_end.get(row.id, False)
            if row.no in counts:
                alarm = await asyncio.to_thread(mode.contradicted, counts[row.no])
                if not running:  # its counts will not change
                    self._alarm_at_the_end[row.id] = alarm
            line = {
                "id": row.id,
                "measurement": manifest.measurement,
                "state": states.shown_state(row.state, manifest.deadline),
                "heard": mode.heard(row, counts.get(row.no, [])),
                "planned_users": manifest.planned_users,
                "deadline": manifest.deadline,
                "alarm": alarm,
            }
            if with_alarms:
                line["alarms"] = len(await asyncio.to_thread(mode.alarms, counts[row.no])) if running else 0
            found.append(line)
        return found

    async def show(self, identity: str, estimate: Estimating = in_a_thread) -> dict[str, Any]:
        """State, progress and estimates; while it runs, as of its last snapshot. estimate: who computes them."""
        mode = await self.mode(identity)
        return await mode.show(self.engine, behind=self.behind, waiting=self.waiting, estimate=estimate)

    async def export(self, identity: str) -> dict[str, Any]:
        """Everything that is not a token: manifest, signature, counts per query, estimates; see `show`."""
        return await (await self.mode(identity)).export(self.engine)

    async def verify(self, identity: str) -> dict[str, Any]:
        """Rebuild counts and estimates from what is kept of the reports, and compare with what is counted."""
        return await (await self.mode(identity)).verify(self.engine)

    async def invite(self, identity: str, number_of: int, by: str) -> list[str]:
        """Fresh one-time invites. Their tokens are nowhere but in what this returns."""
        number, manifest = await self._open_to_invites(identity)
        token_ids = TokenIds(self.keys.campaign_secret(manifest.issuer, identity))
        ids, urls = new_invites(number_of, MOST_INVITES, token_ids, self.url, manifest)
        for start in range(0, len(ids), CHUNK):
            async with writing(self.engine) as db:
                await queries.add_tokens(db, number, ids[start : start + CHUNK])
                if start == 0:
                    await note(db, by, "invite", identity, f"{number_of} tokens")
        return urls

    async def open_link(
        self, identity: str, places: int, by: str, *, coded: bool = False
    ) -> tuple[str, str | None]:
        """One link for many, with a limit, and the code it needs if `coded`.

        A second call replaces both and keeps the places taken.
        """
        number, manifest = await self._open_to_invites(identity)
        stored, url, code = new_link(places, coded, self.url, manifest)
        async with writing(self.engine) as db:
            await queries.set_link(db, number, stored, places)
            await note(db, by, "open link", identity, f"{places} places")
        return url, code

    async def _open_to_invites(self, identity: str) -> tuple[int, Manifest]:
        async with reading(self.engine) as db:
            row, manifest = await find_campaign(db, identity)
        if row.state not in states.TAKES_INVITES:
            raise WrongState(f"the campaign is {row.state}")
        mode_of(manifest).check_invites()
        return row.no, manifest

    async def pause(self, identity: str, by: str) -> None:
        """Hand out no queries. Reports to queries handed out before still count."""
        await self._do(Act.PAUSE, identity, by)

    async def resume(self, identity: str, by: str) -> None:
        await self._do(Act.RESUME, identity, by)

    async def close(self, identity: str, by: str, why: str = "") -> None:
        """Count nothing any more; seal the last reports; forget what was given to tokens that did not answer."""
        await self._do(Act.CLOSE, identity, by, why)
        await self.store.seal(1)
        await self.store.sweep()

    async def _do(self, act: Act, identity: str, by: str, why: str = "") -> None:
        async with writing(self.engine) as db:
            row, _ = await find_campaign(db, identity)
            await queries.change_state(db, row, act)
            await note(db, by, act.value, identity, why)

    async def delete(self, identity: str, by: str, why: str = "") -> Erasure:
        """Erase a closed campaign, also from the store's files; only the audit remembers it."""
        async with writing(self.engine) as db:
            row, _ = await find_campaign(db, identity)
            if row.state not in states.CAN_BE_ERASED:
                raise WrongState(f"only a closed campaign can be deleted; this one is {row.state}")
            await queries.delete_campaign(db, row.no)
            await note(db, by, "delete", identity, why)
        return await self.store.erase(ERASE_SECONDS)


class Retention:
    """Erases closed campaigns that were kept for their days, as `delete` would; `turn` by one process at a time.

    Erasing is written to the audit and the log. Where the files of the store could not be proved clean (a
    transaction that is older than the deletion keeps rows alive), it is tried again at every turn until they are.
    """

    def __init__(self, campaigns: Campaigns) -> None:
        self._campaigns = campaigns
        self._left = False  # bytes of a deleted campaign may be in the store's files

    async def turn(self) -> None:
        async with writing(self._campaigns.engine) as db:
            # An earlier version may have died between its two transactions of closing, and a publisher may publish
            # the queries of a campaign that is being closed.
            await queries.forget_what_was_given(db)
            due = await queries.kept_long_enough(db)
        for identity, days in due:
            with suppress(queries.UnknownCampaign):  # an operator was quicker
                erasure = await self._campaigns.delete(identity, "server", f"kept for {days} days")
                self._left |= not erasure.whole
                say("a campaign was kept long enough", campaign=identity, erased=erasure.whole, left=erasure.left)
        if self._left:
            self._left = not (await self._campaigns.store.erase(ERASE_SECONDS)).whole

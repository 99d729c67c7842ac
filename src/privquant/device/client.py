"""The device: answers one question about one value with one bit, or says why not.

Whatever the server says, the device itself sees to it (each is a check below, before anything that depends on
the value exists) that

- the campaign is the one the invite names, signed by the key the invite and, if pinned, the policy name;
- the measurement, its domain and its noise are within the owner's policy, and so is the sum over all answers
  so far;
- the question is about a whole-numbered threshold inside the domain;
- the bit is drawn once, is on disk before it leaves, and is resent, never redrawn.

The value takes part in one comparison, whose result goes through the coin at once. Nothing else depends on
it: not which requests are made, nor their size, nor their time.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privquant.device import spending
from privquant.device.answer_states import Event, State
from privquant.device.invited import manifest_of, origin_of, read_invite, with_code
from privquant.device.ledger import Ledger
from privquant.device.ledger_format import Answer
from privquant.device.policy import Policy, Rule, covers, default_ledger
from privquant.device.refusals import PolicyRefused, QuestionRefused, TryLater
from privquant.device.retries import Caller, Patience
from privquant.device.transport import Transport
from privquant.messages import Guarantee
from privquant.privacy.coin import Coin
from privquant.wire import (
    CLAIMS,
    QUERY,
    REPORTS,
    TOKEN_BYTES,
    Claim,
    Invite,
    Manifest,
    Ticket,
    WireError,
    WireReport,
    fingerprint,
    parse_claim_receipt,
    parse_receipt,
    query_request,
    token_from_bytes,
    token_hash,
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What left this device, and what it cost.

    status:   "counted" now, "already counted" by the server before, or "answered before": nothing was sent now.
    asked:    the question was whether the value is at most this.
    bit:      the answer after the coin, the one thing about the value that left.
    epsilon:  of this answer. spent, lifetime: of the measurement, exact decimals.
    """

    measurement: str
    campaign: str
    status: str
    asked: int | float
    bit: int
    epsilon: float
    spent: str
    lifetime: str

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee("local", self.epsilon)

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {"guarantee": str(self.guarantee)}


class Device:
    """One person's device. Cheap to make; the ledger on disk is its whole state.

    ledger: another place than the policy's. transport: share one to keep connections open over several
    devices.
    """

    def __init__(
        self,
        policy: Policy,
        *,
        ledger: Ledger | str | Path | None = None,
        transport: Transport | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.policy = policy
        place = policy.ledger if ledger is None else ledger
        if not isinstance(place, Ledger):
            place = Ledger(place, make_directory=Path(place) == default_ledger())
        self.ledger = place
        self._transport = transport
        self._patience = patience or Patience()

    def answer(self, invite: str | Invite, value: float, *, code: str | None = None) -> Receipt:
        """Answer the question of `invite` about `value`, which is clamped to the domain.

        Safe to call again after any failure, crash or success: a bit that was drawn is resent until it is
        acknowledged and then never again (`value` is not looked at any more). Raises `Refused` when this
        device will not answer, `TryLater` when it could not now, `InvalidInput` when the value is no number.

        code: what was told beside an open link that needs one.
        """
        named = read_invite(invite) if code is None else with_code(read_invite(invite), code)
        origin = origin_of(named, allow_http=self.policy.allow_http)
        transport = self._transport or Transport()
        try:
            return self._answer(named, Caller(transport, origin, self._patience), value)
        finally:
            if self._transport is None:
                transport.close()

    def _answer(self, invite: Invite, caller: Caller, value: float) -> Receipt:
        answer = self.ledger.find(invite.campaign_id)
        if answer is None:
            answer = self._draw(invite, caller, value)
        rule = self._rule(answer.measurement)
        if answer.state is not State.ACKED:
            self._check_resend(invite, rule, answer)
            answer = self.ledger.advance(answer, Event.SEND)
        if answer.state is State.ACKED:
            return self._receipt(rule, answer, "answered before")
        return self._send(rule, caller, answer)

    def _draw(self, invite: Invite, caller: Caller, value: float) -> Answer:
        """Check everything, get the question, throw the coin, write the answer down."""
        campaign = invite.campaign_id
        manifest = manifest_of(invite, caller)
        rule = self._rule(manifest.measurement)
        _check_campaign(rule, manifest)
        _check_budget(rule, campaign, manifest, self.ledger.answers(manifest.measurement))
        index = manifest.domain.index(value)
        token = self._token(invite)
        if invite.link is not None:
            _claim(invite, invite.link, token, caller)
        ticket = _ticket(campaign, manifest, token, caller)

        def throw(so_far: Sequence[Answer]) -> Answer:
            # Again, now under the lock: another process may have answered while this one was asking.
            _check_budget(rule, campaign, manifest, so_far)
            coin = Coin(manifest.flip_threshold)
            bit = respond(coin, index, ticket.threshold)
            return Answer(
                manifest.measurement, campaign, coin.threshold, ticket.threshold, bit, token, ticket.ticket
            )

        return self.ledger.prepare(manifest.measurement, campaign, throw)

    def _send(self, rule: Rule, caller: Caller, answer: Answer) -> Receipt:
        report = WireReport(answer.token, answer.ticket, answer.bit).to_bytes()
        response = caller.call(REPORTS, answer.campaign, report)
        try:
            status = parse_receipt(response.body)
        except WireError as error:
            raise TryLater(
                "bad-acknowledgement", f"the server's acknowledgement cannot be read: {error}"
            ) from error
        return self._receipt(rule, self.ledger.advance(answer, Event.ACK), status)

    def _token(self, invite: Invite) -> str:
        """The invite's token; for an open link, this device's own.

        It is made from a secret of the ledger, so that a device that crashed claims the same place and not a
        second.
        """
        if invite.token is not None:
            return invite.token
        named = f"privquant/open-link/1 {invite.campaign_id} {invite.link}".encode("ascii")
        return token_from_bytes(hmac.digest(self.ledger.secret(), named, hashlib.sha256)[:TOKEN_BYTES])

    def _check_resend(self, invite: Invite, rule: Rule, answer: Answer) -> None:
        """An answer that was drawn earlier goes out only under its own invite and if the policy still allows it."""
        if answer.token != self._token(invite):
            raise PolicyRefused(
                "one-answer", "an answer to this campaign was drawn under another invite; only that one can send it"
            )
        _check_coin(rule, answer.coin)
        if answer.threshold > rule.domain.size - 2:
            raise PolicyRefused("domain", "an answer was drawn in another domain than the policy has now")

    def _rule(self, measurement: str) -> Rule:
        rule = self.policy.measurements.get(measurement)
        if rule is None:
            raise PolicyRefused(
                "unknown-measurement", f"the policy has no measurement {measurement!r}, so nothing is said about it"
            )
        return rule

    def _receipt(self, rule: Rule, answer: Answer, status: str) -> Receipt:
        spent = sum(spending.cost(each.coin) for each in self.ledger.answers(answer.measurement))
        return Receipt(
            answer.measurement,
            answer.campaign,
            status,
            rule.domain.value(min(answer.threshold, rule.domain.size - 1)),
            answer.bit,
            Coin(answer.coin).epsilon,
            spending.shown(spent),
            spending.shown(rule.lifetime_units),
        )


def respond(coin: Coin, index: int, threshold: int) -> int:
    """The one place where the value takes part: is it at most the threshold, through the coin."""
    return coin.throw(int(index <= threshold))


def _ticket(campaign: str, manifest: Manifest, token: str, caller: Caller) -> Ticket:
    response = caller.call(QUERY, campaign, query_request(token))
    try:
        ticket = Ticket.parse(response.body)
    except WireError as error:
        raise QuestionRefused("question-malformed", f"the question cannot be read: {error}") from error
    # The last index is no threshold: everybody's value is at most the largest.
    if not 0 <= ticket.threshold <= manifest.domain.size - 2:
        raise QuestionRefused(
            "threshold",
            f"threshold {ticket.threshold} is outside the domain's 0 .. {manifest.domain.size - 2}",
        )
    return ticket


def _claim(invite: Invite, link: str, token: str, caller: Caller) -> None:
    """Take a place of an open link for `token`."""
    body = Claim(link, token_hash(token), invite.code).to_bytes()
    response = caller.call(CLAIMS, invite.campaign_id, body)
    try:
        parse_claim_receipt(response.body)
    except WireError as error:
        raise QuestionRefused("question-malformed", f"the answer to a claim cannot be read: {error}") from error


def _check_campaign(rule: Rule, manifest: Manifest) -> None:
    if not covers(rule.domain, manifest.domain):
        raise PolicyRefused(
            "domain",
            f"the campaign asks in the domain {manifest.domain!r:.200}, the policy has {rule.domain!r:.200}",
        )
    if rule.issuer_key is not None and rule.issuer_key not in (manifest.issuer, fingerprint(manifest.issuer)):
        raise PolicyRefused("issuer-key", f"the campaign's issuer {manifest.issuer} is not the one the policy pins")
    _check_coin(rule, manifest.flip_threshold)


def _check_coin(rule: Rule, flips: int) -> None:
    if not spending.keeps(rule.max_units, flips):
        raise PolicyRefused(
            "epsilon-per-answer",
            f"an answer would cost epsilon {spending.shown(spending.cost(flips))}, the policy allows "
            f"{spending.shown(rule.max_units)}",
        )


def _check_budget(rule: Rule, campaign: str, manifest: Manifest, so_far: Sequence[Answer]) -> None:
    """Refuse what would be one answer too many, or too dear with all that were given (or may have been)."""
    others = [answer for answer in so_far if answer.campaign != campaign]
    name = manifest.measurement
    if len(others) >= rule.answers:
        raise PolicyRefused(
            "one-answer",
            f"measurement {name!r} was answered for {len(others)} campaign(s) already and the policy allows "
            f"{rule.answers}",
        )
    spent = sum(spending.cost(answer.coin) for answer in others)
    cost = spending.cost(manifest.flip_threshold)
    if spent + cost > rule.lifetime_units:
        raise PolicyRefused(
            "epsilon-lifetime",
            f"measurement {name!r} has spent epsilon {spending.shown(spent)} of "
            f"{spending.shown(rule.lifetime_units)}; an answer would cost {spending.shown(cost)} more",
        )

"""The device: answers one question about one value with one bit, or says why not.

Whatever the server says, the device itself sees to it (each is a check below, before anything that depends on
the value exists) that

- the campaign is the one the invite names, signed by the key the invite and, if pinned, the policy name;
- the measurement, its domain and its noise are within the owner's policy, and so are the sums over all answers
  so far;
- in shuffle mode, the round it is asked in was announced by the issuer, keeps what the campaign promises, and the
  sealed bit goes to the campaign's shuffler alone;
- the question is about a whole-numbered threshold inside the domain;
- the bit is drawn once, is on disk before it leaves, and is resent, never redrawn.

The value takes part in one comparison, whose result goes through the coin at once. Nothing else depends on
it: not which requests are made, nor their size, nor their time.
"""

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from privquant import wire
from privquant.device import limits
from privquant.device.answer_states import Event, State
from privquant.device.invited import manifest_of, origin_of, read_invite, with_code
from privquant.device.ledger import Ledger
from privquant.device.ledger_format import Answer
from privquant.device.policy import Policy, Rule, default_ledger
from privquant.device.receipts import Receipt, receipt_of
from privquant.device.refusals import ManifestRefused, PolicyRefused, QuestionRefused, TryLater
from privquant.device.retries import Caller, Patience, reading
from privquant.device.transport import Transport
from privquant.device.trust_models import model_of
from privquant.privacy.coin import Coin


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

    def answer(self, invite: str | wire.Invite, value: float, *, code: str | None = None) -> Receipt:
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

    def _answer(self, invite: wire.Invite, caller: Caller, value: float) -> Receipt:
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

    def _draw(self, invite: wire.Invite, caller: Caller, value: float) -> Answer:
        """Check everything, get the question, throw the coin, write the answer down."""
        campaign = invite.campaign_id
        manifest = manifest_of(invite, caller)
        rule = self._rule(manifest.measurement)
        model = model_of(manifest)
        limits.check_campaign(rule, manifest)
        model.check_limits(rule)
        model.check_address(invite.base)
        so_far = self.ledger.answers(manifest.measurement)
        limits.check_budget(rule, campaign, manifest.measurement, model.most_spent(), so_far)
        index = manifest.domain.index(value)
        token = self._token(invite)
        if invite.link is not None:
            _claim(invite, invite.link, token, caller)
        question = model.ask(rule, campaign, token, caller, self.ledger)
        asked, costs = question[0], limits.spent_on(question[0])

        def throw(so_far: Sequence[Answer]) -> Answer:
            # Again, now under the lock: another process may have answered while this one was asking.
            limits.check_budget(rule, campaign, manifest.measurement, costs, so_far)
            return question[respond(Coin(asked.coin), index, asked.threshold)]

        return self.ledger.prepare(manifest.measurement, campaign, throw)

    def _send(self, rule: Rule, caller: Caller, answer: Answer) -> Receipt:
        response = caller.call(wire.REPORTS, answer.campaign, _report(answer))
        with reading(TryLater, "bad-acknowledgement", "the server's acknowledgement cannot be read"):
            status = (wire.COUNTED if answer.shuffled is None else wire.ACCEPTED).parse(response.body)
        return self._receipt(rule, self.ledger.advance(answer, Event.ACK), status)

    def _token(self, invite: wire.Invite) -> str:
        """The invite's token; for an open link, this device's own.

        It is made from a secret of the ledger, so that a device that crashed claims the same place and not a
        second.
        """
        if invite.token is not None:
            return invite.token
        named = f"privquant/open-link/1 {invite.campaign_id} {invite.link}".encode("ascii")
        return wire.token_from_bytes(hmac.digest(self.ledger.secret(), named, hashlib.sha256)[: wire.TOKEN_BYTES])

    def _check_resend(self, invite: wire.Invite, rule: Rule, answer: Answer) -> None:
        """An answer that was drawn earlier goes out only under its own invite and if the policy still allows it."""
        if answer.token != self._token(invite):
            raise PolicyRefused(
                "one-answer", "an answer to this campaign was drawn under another invite; only that one can send it"
            )
        if answer.shuffled is None:
            limits.check_coin(rule, answer.coin)
        else:
            limits.check_shuffled(rule, limits.shuffle_rule(rule), limits.spent_on(answer), answer.coin)
            if answer.shuffled.shuffler != invite.base:
                raise ManifestRefused(
                    "shuffler-address",
                    f"the answer was drawn for the shuffler at {answer.shuffled.shuffler} and goes to no other",
                )
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
        return receipt_of(rule, answer, status, limits.total(self.ledger.answers(answer.measurement)))


def respond(coin: Coin, index: int, threshold: int) -> int:
    """The one place where the value takes part: is it at most the threshold, through the coin."""
    return coin.throw(int(index <= threshold))


def _report(answer: Answer) -> bytes:
    """The same bytes whenever it is sent."""
    if answer.shuffled is None:
        return wire.WireReport(answer.token, answer.ticket, answer.bit).to_bytes()
    sealed = wire.sealed_from_wire(answer.shuffled.sealed)
    return wire.SealedReport(answer.token, answer.shuffled.round, sealed).to_bytes()


def _claim(invite: wire.Invite, link: str, token: str, caller: Caller) -> None:
    """Take a place of an open link for `token`."""
    body = wire.Claim(link, wire.token_hash(token), invite.code).to_bytes()
    response = caller.call(wire.CLAIMS, invite.campaign_id, body)
    with reading(QuestionRefused, "question-malformed", "the answer to a claim cannot be read"):
        wire.CLAIMED.parse(response.body)

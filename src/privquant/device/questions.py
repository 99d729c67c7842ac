"""Getting the question: what a token is asked, checked before the value takes part in anything.

A question knows what an answer to it costs and how a bit becomes the `Answer` that the ledger keeps: beside a
ticket in the local trust model, sealed to the aggregator in the shuffled one. Both bits take the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

from privquant import wire
from privquant.device import spending
from privquant.device.ledger import Ledger
from privquant.device.ledger_format import Answer, Shuffled
from privquant.device.limits import check_round, shuffle_rule
from privquant.device.policy import Rule
from privquant.device.refusals import ManifestRefused, QuestionRefused
from privquant.device.retries import Caller
from privquant.device.spending import Spent


@dataclass(frozen=True, slots=True)
class LocalQuestion:
    """A threshold and its ticket; the coin is the manifest's."""

    manifest: wire.Manifest
    campaign: str
    token: str
    ticket: wire.Ticket

    @property
    def threshold(self) -> int:
        return self.ticket.threshold

    @property
    def coin(self) -> int:
        return self.manifest.flip_threshold

    @property
    def costs(self) -> Spent:
        return spending.local(self.coin)

    def answer(self, bit: int) -> Answer:
        return Answer(
            self.manifest.measurement, self.campaign, self.coin, self.threshold, bit, self.token, self.ticket.ticket
        )


@dataclass(frozen=True, slots=True)
class ShuffledQuestion:
    """A round: its threshold by the announcement, its coin by the manifest.

    batch: the honest reports that it was checked with. sealed: a zero and a one, made before the coin is thrown, so
    that a key which cannot seal is found out in time; one of them is ever used.
    """

    manifest: wire.Manifest
    terms: wire.Shuffle
    campaign: str
    token: str
    round: int
    threshold: int
    batch: int
    sealed: tuple[str, str]

    @property
    def coin(self) -> int:
        return self.terms.rounds[self.round].coin

    @property
    def costs(self) -> Spent:
        return spending.shuffled(self.manifest.epsilon, self.terms.delta, self.coin)

    def answer(self, bit: int) -> Answer:
        costs, sealed = self.costs, self.sealed[bit]
        more = Shuffled(self.round, sealed, self.terms.address, costs.epsilon, costs.delta, self.batch)
        asked = (self.manifest.measurement, self.campaign, self.coin, self.threshold)
        return Answer(*asked, bit, self.token, "", shuffled=more)


Question = LocalQuestion | ShuffledQuestion


def ask(rule: Rule, manifest: wire.Manifest, campaign: str, token: str, caller: Caller, ledger: Ledger) -> Question:
    """The question for this token."""
    if manifest.shuffle is None:
        return LocalQuestion(manifest, campaign, token, _ticket(campaign, manifest, token, caller))
    return _round(rule, manifest, campaign, token, caller, ledger)


def _ticket(campaign: str, manifest: wire.Manifest, token: str, caller: Caller) -> wire.Ticket:
    response = caller.call(wire.QUERY, campaign, wire.query_request(token))
    try:
        ticket = wire.Ticket.parse(response.body)
    except wire.WireError as error:
        raise QuestionRefused("question-malformed", f"the question cannot be read: {error}") from error
    # The last index is no threshold: everybody's value is at most the largest.
    if not 0 <= ticket.threshold <= manifest.domain.size - 2:
        raise QuestionRefused(
            "threshold",
            f"threshold {ticket.threshold} is outside the domain's 0 .. {manifest.domain.size - 2}",
        )
    return ticket


def _round(
    rule: Rule, manifest: wire.Manifest, campaign: str, token: str, caller: Caller, ledger: Ledger
) -> ShuffledQuestion:
    terms = manifest.shuffle
    assert terms is not None
    response = caller.call(wire.ROUND_QUERY, campaign, wire.query_request(token))
    try:
        found = wire.RoundAnswer.parse(response.body, manifest)
    except wire.SignatureError as error:
        raise QuestionRefused(
            "announcement-forged", f"the round was not announced by the issuer like this: {error}"
        ) from error
    except wire.WireError as error:
        raise QuestionRefused("question-malformed", f"the question cannot be read: {error}") from error
    round, threshold = found.announcement.round, found.announcement.threshold
    other = ledger.note_round(campaign, (*found.earlier, threshold))
    if other is not None:
        raise QuestionRefused(
            "second-announcement",
            f"the issuer has signed two thresholds for round {other} of campaign {campaign}: it cheats; please "
            "tell who runs the shuffler",
        )
    batch = check_round(manifest, terms, round, shuffle_rule(rule).share)
    sealed = _sealed(terms, campaign, round, threshold)
    return ShuffledQuestion(manifest, terms, campaign, token, round, threshold, batch, sealed)


def _sealed(terms: wire.Shuffle, campaign: str, round: int, threshold: int) -> tuple[str, str]:
    """A zero and a one, sealed to the aggregator as answers to this question."""
    info = wire.report_info(campaign, round, threshold, terms.rounds[round].coin)
    try:
        zero, one = (wire.sealed_to_wire(wire.seal(bit, terms.seal, info)) for bit in (0, 1))
    except wire.WireError as error:
        raise ManifestRefused("manifest-malformed", f"nothing can be sealed to the campaign: {error}") from error
    return zero, one

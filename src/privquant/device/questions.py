"""Getting the question: what a token is asked, checked before the value takes part in anything.

A question knows what an answer to it costs, and the `Answer` that the ledger keeps of either bit: beside a ticket
in the local trust model, sealed to the aggregator in the shuffled one. Both bits take the same way.
"""

from __future__ import annotations

from typing import NamedTuple

from privquant import wire
from privquant.device import spending
from privquant.device.ledger import Ledger
from privquant.device.ledger_format import Answer, Shuffled
from privquant.device.limits import check_round, shuffle_rule
from privquant.device.policy import Rule
from privquant.device.refusals import ManifestRefused, QuestionRefused
from privquant.device.retries import Caller
from privquant.device.spending import Spent


class Question(NamedTuple):
    """A threshold, the coin for it, and what an answer costs.

    answers: what the ledger keeps of a zero and of a one. Both are made before the coin is thrown, so that a key
    which cannot seal is found out in time; one of them is ever used.
    """

    threshold: int
    coin: int
    costs: Spent
    answers: tuple[Answer, Answer]


def ask(rule: Rule, manifest: wire.Manifest, campaign: str, token: str, caller: Caller, ledger: Ledger) -> Question:
    """The question for this token."""
    if manifest.shuffle is None:
        return _ticket(manifest, campaign, token, caller)
    return _round(rule, manifest, manifest.shuffle, campaign, token, caller, ledger)


def _ticket(manifest: wire.Manifest, campaign: str, token: str, caller: Caller) -> Question:
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
    coin = manifest.flip_threshold
    asked = (manifest.measurement, campaign, coin, ticket.threshold)
    zero, one = (Answer(*asked, bit, token, ticket.ticket) for bit in (0, 1))
    return Question(ticket.threshold, coin, spending.local(coin), (zero, one))


def _round(
    rule: Rule,
    manifest: wire.Manifest,
    terms: wire.Shuffle,
    campaign: str,
    token: str,
    caller: Caller,
    ledger: Ledger,
) -> Question:
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
    coin = terms.rounds[round].coin
    costs = spending.shuffled(manifest.epsilon, terms.delta, coin)
    asked = (manifest.measurement, campaign, coin, threshold)
    more = (
        Shuffled(round, sealed, terms.address, costs.epsilon, costs.delta, batch)
        for sealed in _sealed(terms, campaign, round, threshold)
    )
    zero, one = (Answer(*asked, bit, token, "", shuffled=each) for bit, each in enumerate(more))
    return Question(threshold, coin, costs, (zero, one))


def _sealed(terms: wire.Shuffle, campaign: str, round: int, threshold: int) -> tuple[str, str]:
    """A zero and a one, sealed to the aggregator as answers to this question."""
    info = wire.report_info(campaign, round, threshold, terms.rounds[round].coin)
    try:
        zero, one = (wire.sealed_to_wire(wire.seal(bit, terms.seal, info)) for bit in (0, 1))
    except wire.WireError as error:
        raise ManifestRefused("manifest-malformed", f"nothing can be sealed to the campaign: {error}") from error
    return zero, one

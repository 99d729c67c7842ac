"""A partition of one: a person's device whose questions come by another carrier than HTTP.

Policy and ledger are the device's own, in the same file: the bit is drawn once, is on disk before it leaves, counts
towards the same sums, and a question for a campaign that was answered gets the same bit or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from privquant.device import spending
from privquant.device.answer_states import Event
from privquant.device.client import respond
from privquant.device.ledger import Ledger
from privquant.device.ledger_format import Answer
from privquant.device.limits import check_budget, check_coin
from privquant.device.policy import Policy
from privquant.device.refusals import PolicyRefused
from privquant.device.spending import Spent
from privquant.engines.partitions import Answered, Asked, PartitionRefused, Reply, check_threshold
from privquant.errors import InvalidInput
from privquant.messages import Query
from privquant.privacy.coin import Coin


class OneUser:
    """One person's value behind the person's own policy and ledger.

    value:       clamped to the domain of the policy's rule.
    measurement: what the value is, by the policy's name for it.
    """

    def __init__(self, value: float, policy: Policy, measurement: str) -> None:
        rule = policy.measurements.get(measurement)
        if rule is None:
            raise InvalidInput(f"the policy has no measurement {measurement!r}, so nothing is said about it")
        self._rule = rule
        self._name = measurement
        self._index = rule.domain.index(value)
        self._ledger = Ledger(policy.ledger)

    def open(self, campaign: str) -> int:
        """1 if this person will answer the campaign or has answered it, else 0."""
        so_far = self._ledger.answers(self._name)
        if any(answer.campaign == campaign for answer in so_far):
            return 1
        try:
            most = Spent(self._rule.max_units, 0, self._rule.max_units)
            check_budget(self._rule, campaign, self._name, most, so_far)
        except PolicyRefused:
            return 0
        return 1

    def answer(self, campaign: str, number: int, asked: Asked) -> list[Reply]:
        [(query, count)] = asked if len(asked) == 1 else [(None, 0)]
        if not isinstance(query, Query) or count != 1:
            raise PartitionRefused("one person is asked one threshold question at most")
        check_coin(self._rule, query.coin)
        check_threshold(query, self._rule.domain)

        def throw(so_far: Sequence[Answer]) -> Answer:
            check_budget(self._rule, campaign, self._name, spending.local(query.coin), so_far)
            bit = respond(Coin(query.coin), self._index, query.threshold)
            return Answer(self._name, campaign, query.coin, query.threshold, bit, "", str(number))

        drawn = self._ledger.prepare(self._name, campaign, throw)
        if (drawn.threshold, drawn.coin, drawn.ticket) != (query.threshold, query.coin, str(number)):
            raise PartitionRefused(
                f"campaign {campaign!r} was answered here before, to another question; nothing more is said"
            )
        self._ledger.advance(drawn, Event.SEND)  # synced: from here on this bit may have left
        return [Answered(query, 1, 1, drawn.bit)]

    def kept(self) -> list[dict[str, Any]]:
        return [
            {"campaign": answer.campaign, "round": int(answer.ticket), "threshold": answer.threshold}
            for answer in self._ledger.answers(self._name)
            if answer.ticket.isdecimal()
        ]

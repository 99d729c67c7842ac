"""What a device says it did: what left, and what it cost."""

from dataclasses import dataclass
from typing import Any

from privquant.device import spending
from privquant.device.ledger_format import Answer
from privquant.device.limits import local_limit
from privquant.device.policy import Rule
from privquant.device.spending import Spent
from privquant.messages import Guarantee
from privquant.privacy.coin import Coin


@dataclass(frozen=True, slots=True)
class ShuffledReceipt:
    """What a shuffled answer has besides: the round, and the two other sums, exact decimals.

    batch: honest reports that the promise counts on. local_epsilon: what is left if the shuffler works with the
    aggregator.
    """

    round: int
    batch: int
    delta: float
    local_epsilon: float
    spent_delta: str
    lifetime_delta: str
    spent_local_epsilon: str
    lifetime_local_epsilon: str


@dataclass(frozen=True, slots=True)
class Receipt:
    """What left this device, and what it cost.

    status:   "counted" now, "already counted" by the server before, or "answered before": nothing was sent now.
              From a shuffler "accepted" and "already accepted".
    asked:    the question was whether the value is at most this.
    bit:      the answer after the coin, the one thing about the value that left (sealed, where it was shuffled).
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
    shuffled: ShuffledReceipt | None = None

    @property
    def sent_now(self) -> bool:
        """Whether the answer reached the server for the first time now."""
        return self.status in ("counted", "accepted")

    @property
    def guarantee(self) -> Guarantee:
        if self.shuffled is None:
            return Guarantee("local", self.epsilon)
        more = self.shuffled
        return Guarantee("shuffle", self.epsilon, more.delta, more.local_epsilon, more.batch)

    def to_dict(self) -> dict[str, Any]:
        form = {name: getattr(self, name) for name in self.__slots__ if name != "shuffled"}
        if self.shuffled is not None:
            form |= {name: getattr(self.shuffled, name) for name in self.shuffled.__slots__}
        return form | {"guarantee": str(self.guarantee)}


def receipt_of(rule: Rule, answer: Answer, status: str, spent: Spent) -> Receipt:
    """The receipt of an answer; `spent` is what the measurement's answers cost together."""
    local = Coin(answer.coin).epsilon
    more, epsilon = None, local
    if answer.shuffled is not None:
        epsilon = answer.shuffled.epsilon / spending.UNITS
        more = ShuffledReceipt(
            answer.shuffled.round,
            answer.shuffled.batch,
            answer.shuffled.delta / spending.DELTA_UNITS,
            local,
            spending.shown_delta(spent.delta),
            spending.shown_delta(rule.shuffle.lifetime_delta_units if rule.shuffle else 0),
            spending.shown(spent.local),
            spending.shown(local_limit(rule)),
        )
    return Receipt(
        answer.measurement,
        answer.campaign,
        status,
        rule.domain.value(min(answer.threshold, rule.domain.size - 1)),
        answer.bit,
        epsilon,
        spending.shown(spent.epsilon),
        spending.shown(rule.lifetime_units),
        more,
    )

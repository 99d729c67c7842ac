"""From what an operator says to the table of rounds of a shuffled campaign.

The users who are expected to answer are divided into rounds as the lab divides them; every round gets the most
honest coin that keeps (epsilon, delta) with its own number of reports, the colluders among them counted out, and
never one above the cap. Those who are expected to drop out are left out of the plan: a round waits for its number,
so a plan for users who never come would end in a round that is dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from privquant.domain import Domain
from privquant.errors import InvalidInput
from privquant.planning.calibration import rounds_of
from privquant.privacy.coin import Coin, real_epsilon
from privquant.privacy.shuffle import local_epsilon
from privquant.validation import check_choice, check_count, check_epsilon, check_probability
from privquant.wire import MAX_ROUNDS, RoundTerms

PROTOCOLS = ("isotonic", "naive")
# A coin less than this many times as honest as the plain local one is not worth trusting a shuffler for.
_WORTH_IT = 1.01


@dataclass(frozen=True, slots=True)
class ShuffleDraft:
    """What an operator says about the shuffle model.

    cap:       the most that may be left if shuffler and aggregator work together; None: no limit.
    colluding: share of a round's reports that may be the aggregator's own.
    drop_outs: share of the users planned for who are expected not to answer.
    address, key: of the shuffler; `privquant shuffler key` shows both.
    """

    delta: float
    address: str
    key: str
    cap: float | None = None
    colluding: float = 0.0
    drop_outs: float = 0.0


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
    if protocol == "naive":
        allowed = dict.fromkeys(sizes, _local(min(sizes), e, d, draft))  # one coin, of the smallest round
    else:
        allowed = {size: _local(size, e, d, draft) for size in set(sizes)}
    if len(sizes) > MAX_ROUNDS:
        raise InvalidInput(f"a campaign has at most {MAX_ROUNDS} rounds, and this one would have {len(sizes)}")
    if max(allowed.values()) <= _WORTH_IT * e:
        raise InvalidInput(
            f"shuffling gains nothing here: rounds of {min(sizes):,} to {max(sizes):,} reports allow no coin "
            f"that is more honest than epsilon {e:g} alone; plan for more users, a larger delta or a "
            "higher cap, or leave --trust shuffle out"
        )
    return tuple(RoundTerms(size, Coin.of(allowed[size]).threshold) for size in sizes)


def _local(batch: int, epsilon: float, delta: float, draft: ShuffleDraft) -> float:
    return local_epsilon(epsilon=epsilon, delta=delta, batch=batch, cap=draft.cap, colluding=draft.colluding)


def plan_in_words(rounds: tuple[RoundTerms, ...]) -> str:
    """The table in one sentence, for who makes a campaign."""
    sizes, coins = [row.batch for row in rounds], [real_epsilon(row.coin) for row in rounds]
    return (
        f"{len(rounds)} rounds of {min(sizes):,} to {max(sizes):,} reports, {sum(sizes):,} in all; local epsilon "
        f"{min(coins):.3g} to {max(coins):.3g}, which is what is left if shuffler and aggregator work together"
    )

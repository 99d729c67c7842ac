"""Isotonic search in the shuffle model: rounds of one threshold each, every round with the coin its size allows.

Users of different rounds are different people and every round is shuffled by itself, so rounds do not add up:
each may throw the most honest coin whose shuffled batch keeps (epsilon, delta), by exact accounting for its own
size. A run starts with small rounds, to move fast, and ends with large ones, whose coins hardly flip; the counts
of different coins are combined in the fit. Where shuffling gains nothing the coin is the plain local one.
"""

import math

from privquant.domain import Domain, given_domain
from privquant.messages import Guarantee
from privquant.privacy.coin import Coin
from privquant.privacy.shuffle import guarantee_of_rounds, local_epsilon
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.rounds import equal_sizes, growing_sizes
from privquant.validation import check_count, check_epsilon, check_probability

# A coin less than this many times as honest is not worth trusting a shuffler for.
_WORTH_IT = 1.01


def round_sizes(users: int, epsilon: float, size: int) -> list[int]:
    """The users of each round.

    users * epsilon below 1,500: equal rounds, 1.25 log2(size) of them. Up to 10^5: users/500 or a tenth of those
    asked before, whichever is more. Above: users/2000 or a twentieth.
    """
    worth = users * epsilon
    if worth < 1500:
        return equal_sizes(users, max(1, math.ceil(1.25 * math.log2(max(size, 2)))))
    part, growth = (500, 0.1) if worth <= 1e5 else (2000, 0.05)
    return growing_sizes(users, max(users // part, 1), growth)


def shuffled_isotonic(
    domain: Domain,
    *,
    users: int,
    epsilon: float,
    delta: float,
    quantile: float | list[float] = 0.5,
    method: str = "exact",
    rtol: float = 1e-3,
    cap: float | None = None,
    lam: float = 0.5,
) -> Isotonic:
    """Isotonic search whose rounds are shuffled to (epsilon, delta).

    Parameters
    ----------
    domain, users, epsilon, delta
        As for `shuffled_settings`; the rounds follow from `users` (`round_sizes`).
    quantile : float or list of float
        One, or several in rising order.
    method, rtol
        Of `privquant.privacy.shuffle.local_epsilon`.
    cap : float, optional
        The largest local epsilon allowed, which is what is left if shuffler and aggregator work together.
    lam : float
        Of isotonic search.
    """
    size, count = given_domain(domain).size, check_count(users, "users", 1)
    e, d = check_epsilon(epsilon), check_probability(delta, "delta")
    sizes = round_sizes(count, e, size)
    allowed = {
        batch: local_epsilon(epsilon=e, delta=d, batch=batch, method=method, rtol=rtol, cap=cap)
        for batch in set(sizes)
    }
    gains = max(allowed.values()) > _WORTH_IT * e
    if not gains and max(allowed.values()) > e:
        allowed = dict.fromkeys(allowed, e)
    coins = {batch: Coin.of(local) for batch, local in allowed.items()}
    if gains:
        real = ((batch, coins[batch].epsilon) for batch in sizes)
        guarantee = guarantee_of_rounds(real, epsilon=e, delta=d, rtol=rtol)
    else:
        guarantee = Guarantee("local", max(coin.epsilon for coin in coins.values()))
    return Isotonic(
        domain,
        users=count,
        epsilon=max(allowed.values()),
        quantile=quantile,
        guarantee=guarantee,
        lam=lam,
        rounds=[(batch, coins[batch].threshold) for batch in sizes],
    )

"""The naive search in the shuffle model: which coin each round may use, and the promise that goes with it.

Each user answers in one round only and every round is shuffled by itself, so rounds do not add up and the guarantee
of the run is that of its worst round: the SMALLEST batch governs. Where shuffling gains nothing (the batch is small
or epsilon large) the coin is the plain local one, which is always allowed.
"""

import math
from typing import Any

from privquant.domain import Domain, given_domain
from privquant.errors import InvalidInput
from privquant.messages import Guarantee
from privquant.privacy.coin import Coin
from privquant.privacy.shuffle import METHODS, guarantee_of_rounds, local_epsilon
from privquant.protocols.naive.bracket import batch_sizes, rounds_for
from privquant.protocols.naive.search import NaiveSearch
from privquant.validation import check_choice, check_count, check_epsilon, check_probability

PUBLISHED = "published"


def published_local_epsilon(*, epsilon: float, delta: float, users: int, size: int) -> float:
    """The authors' program: ln(eps^2 n / (80 ln B ln(4/delta))), although its batches are n / log2 B.

    It is kept for the paper's figure. Since ln B < log2 B it allows a coin ln(log2 B / ln B) = 0.37 more honest
    than the lemma does for those batches; exact accounting shows that (epsilon, delta) holds all the same. Where
    it is not above 0 it says nothing.
    """
    e, d = check_epsilon(epsilon), check_probability(delta, "delta")
    found = math.log(e * e * users / (80.0 * math.log(size) * math.log(4.0 / d)))
    if found <= 0:
        needed = math.ceil(80.0 * math.log(size) * math.log(4.0 / d) / (e * e))
        raise InvalidInput(
            f"the published shuffle formula needs more than {needed} users at epsilon={e:g}, delta={d:g} and "
            f"{size} values, got {users}"
        )
    return found


def shuffled_settings(
    domain: Domain, *, users: int, epsilon: float, delta: float, method: str = "exact"
) -> dict[str, Any]:
    """`epsilon` and `guarantee` for a naive search whose rounds are shuffled to (epsilon, delta).

    They go to the protocol as they are, or to `lab.trials(..., protocol="naive", **shuffled_settings(...))`.

    Parameters
    ----------
    domain : Domain
        Which values exist.
    users : int
        How many users there are to ask.
    epsilon, delta : float
        What every round keeps once it is shuffled.
    method : str
        One of `privquant.privacy.shuffle.METHODS`, or "published" for the formula of the authors' program.
    """
    size, count = given_domain(domain).size, check_count(users, "users", 1)
    e, d = check_epsilon(epsilon), check_probability(delta, "delta")
    check_choice(method, "method", (*METHODS, PUBLISHED))
    if size == 1:
        return {"epsilon": e, "guarantee": Guarantee("local", Coin.of(e).epsilon)}
    asked = [batch for batch in batch_sizes(count, rounds_for(size)) if batch > 0]
    if method == PUBLISHED:
        local = published_local_epsilon(epsilon=e, delta=d, users=count, size=size)
    else:
        local = local_epsilon(epsilon=e, delta=d, batch=min(asked), method=method)
        if local <= e:
            return {"epsilon": e, "guarantee": Guarantee("local", Coin.of(e).epsilon)}
    real = Coin.of(local).epsilon
    rounds = ((batch, real) for batch in asked)
    return {"epsilon": local, "guarantee": guarantee_of_rounds(rounds, epsilon=e, delta=d)}


def shuffled_search(
    domain: Domain,
    *,
    users: int,
    epsilon: float,
    delta: float,
    quantile: float = 0.5,
    method: str = "exact",
    behaviour: str = "text",
) -> NaiveSearch:
    """A naive search whose every round, once shuffled, is (epsilon, delta)-differentially private.

    Parameters
    ----------
    domain, users, epsilon, delta, method
        As for `shuffled_settings`.
    quantile : float
        The quantile searched.
    behaviour : {"text", "published"}
        Of the naive search.
    """
    settings = shuffled_settings(domain, users=users, epsilon=epsilon, delta=delta, method=method)
    return NaiveSearch(domain, users=users, quantile=quantile, behaviour=behaviour, **settings)

"""The public face: `privquant.median` and `privquant.quantile` on a column you hold.

They simulate the whole collection: every value becomes a user, asked at most one question and answering with
one bit through the coin. What comes back is what the protocol would have said to an aggregator who never saw
the values.
"""

import numbers
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, overload

import numpy as np

from privquant.columns import Column, to_indices
from privquant.domain import Domain, given_domain
from privquant.errors import InvalidInput
from privquant.estimates import Estimates
from privquant.lab.data.outside import warned
from privquant.lab.engine import simulate_by_asking, simulator
from privquant.lab.populations import population_of
from privquant.lab.run import Progress, drive, generator
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED
from privquant.messages import Estimate
from privquant.planning.statement import stated, stated_estimates
from privquant.protocols.base import Protocol
from privquant.protocols.registry import (
    DEFAULT_PROTOCOL,
    check_options,
    check_trust,
    protocol_class,
    shuffled_protocol,
)
from privquant.protocols.registry import protocol as make_protocol
from privquant.validation import check_epsilon, check_quantiles, one_or_several

# Beyond this many users a protocol that must be asked one by one runs on its engine, where it has one.
ONE_BY_ONE = 20_000
# What other libraries call the argument that is `rng` here, as in numpy's own functions of today.
_OTHER_WORDS = ("seed", "random_state", "random_seed")


def median(
    values: Any,
    *,
    epsilon: float,
    domain: Domain | Sequence[int],
    protocol: str = DEFAULT_PROTOCOL,
    trust: str = "local",
    delta: float | None = None,
    rng: Any = None,
    **options: Any,
) -> Estimate:
    """The median of a column, as a private collection would have found it.

    Parameters
    ----------
    values : column of numbers
        A list, numpy array, or pandas, polars or arrow column; one value a user.
    epsilon, domain, protocol, trust, delta, rng
        As for `quantile`.
    **options
        `outside`, `missing`, `fractions` and `progress` of `quantile`, and the protocol's own options.

    Returns
    -------
    Estimate

    Examples
    --------
    >>> import privquant as pq
    >>> found = pq.median(range(5000), epsilon=2.0, domain=(0, 9_999), rng=1)
    >>> 2000 < found.value < 3000
    True
    """
    settings: dict[str, Any] = {"epsilon": epsilon, "domain": domain, "protocol": protocol, "rng": rng}
    return quantile(values, 0.5, trust=trust, delta=delta, **settings, **options)


@overload
def quantile(
    values: Any, q: float, *, epsilon: float, domain: Domain | Sequence[int], **settings: Any
) -> Estimate: ...


@overload
def quantile(
    values: Any, q: Sequence[float], *, epsilon: float, domain: Domain | Sequence[int], **settings: Any
) -> Estimates: ...


def quantile(
    values: Any,
    q: float | Sequence[float],
    *,
    epsilon: float,
    domain: Domain | Sequence[int],
    protocol: str = DEFAULT_PROTOCOL,
    trust: str = "local",
    delta: float | None = None,
    rng: Any = None,
    outside: str = "clamp",
    missing: str = "refuse",
    fractions: str = "refuse",
    progress: Progress | None = None,
    **options: Any,
) -> Estimate | Estimates:
    """One quantile, or several, of a column, as a private collection would have found them.

    Parameters
    ----------
    values : column of numbers
        A list, numpy array, or pandas, polars or arrow column; one value a user.
    q : float or sequence of float
        Strictly between 0 and 1; in any order.
    epsilon : float
        What each user is promised: of the coin, or with trust="shuffle" of a shuffled round.
    domain : Domain
        `Integers`, `Grid` or `LogGrid`, or a pair (low, high) for `Integers`; never inferred from the values.
    protocol : str
        One of `protocol_names()`. One that answers a single quantile a run gets the users divided at random between
        the quantiles.
    trust : {"local", "shuffle"}
        Nobody is trusted; or somebody mixes the answers of a round, which needs `delta` and a protocol with a
        shuffled form (isotonic, naive).
    delta : float, optional
        With trust="shuffle": the probability with which epsilon may fail, e.g. 1e-8.
    rng : seed or numpy Generator, optional
        Of the simulated coins and the order of users; a fresh one unless given. A seed gives the same answer with
        and without numba, except by bayeslearn and bayess above 20,000 users.
    outside : {"clamp", "refuse"}
        Values outside the domain: count them as the nearest end (a warning if the answer is that end), or refuse.
    missing : {"refuse", "drop"}
        None, NaN, NaT, NA.
    fractions : {"refuse", "round"}
        Numbers with a fraction under `Integers`.
    progress : callable, optional
        Called with (users heard, users planned) as the collection goes on.
    **options
        The protocol's own. Of isotonic search: `interval` (confidence of a certified interval, such as 0.95; it
        costs accuracy), `spread`, `lam`, `bulk`, `smooth`, `guard` (False believes every part of the run, whatever
        the others say); shuffled: `method`, `rtol`, `cap` (largest local epsilon), `lam`. docs/protocols.md lists
        those of the others.

    Returns
    -------
    Estimate or Estimates
        A sequence of quantiles gives a list, in the order asked for, that prints as a table.

    Warns
    -----
    UserWarning
        Where the answer is an end of the domain to which values were clamped.

    Examples
    --------
    >>> import privquant as pq
    >>> found = pq.quantile(range(5000), [0.9, 0.5], epsilon=2.0, domain=(0, 9_999), rng=1)
    >>> [estimate.quantile for estimate in found]
    [0.9, 0.5]
    """
    domain = given_domain(domain)
    check_epsilon(epsilon)
    asked = check_quantiles(q, rising=False)
    wanted = tuple(sorted(set(asked)))  # a protocol searches each once, in rising order
    for word in _OTHER_WORDS:
        if word in options:
            raise InvalidInput(f"{word} is called rng here: say rng={options[word]!r}")
    kind = protocol_class(protocol)
    check_options(protocol, options)
    coins = generator(rng)
    column = to_indices(values, domain, outside=outside, missing=missing, fractions=fractions)
    settings: dict[str, Any] = {"epsilon": epsilon, **options}
    build: Callable[..., Protocol] = make_protocol
    if check_trust(trust, delta) == "shuffle":
        build, settings = shuffled_protocol, {"delta": delta, **settings}
    if len(wanted) == 1 or kind.many_quantiles:
        made = build(protocol, domain, users=column.indices.size, quantile=one_or_several(wanted), **settings)
        found = _collect(made, Sample(column.indices, domain.size), coins, progress)
    else:
        found = []
        groups = np.array_split(coins.permutation(column.indices), len(wanted))
        for one, group in zip(wanted, groups, strict=True):
            if group.size:
                made = build(protocol, domain, users=group.size, quantile=one, **settings)
                found += _collect(made, Sample(group, domain.size), coins, progress)
            else:  # no users, no rounds to shuffle
                found += make_protocol(protocol, domain, users=0, epsilon=epsilon, quantile=one).estimates()
    noted = [warned(_with_notes(estimate, column), column, domain) for estimate in found]
    if isinstance(q, numbers.Real):
        return noted[0]
    return Estimates(noted[wanted.index(one)] for one in asked)


def _collect(
    protocol: Protocol, sample: Sample, rng: np.random.Generator, progress: Progress | None
) -> list[Estimate]:
    if not protocol.takes_counts and sample.n > ONE_BY_ONE:
        simulate = simulator(protocol)
        if simulate is not simulate_by_asking:
            answers = simulate(protocol, sample, 1, rng)[0]
            if progress is not None:
                progress(sample.n, sample.n)
            return [
                stated(protocol.estimate_at(int(index), q, users=sample.n), protocol)
                for index, q in zip(answers, protocol.quantiles, strict=True)
            ]
    drive(protocol, population_of(protocol, sample, rng, SUGGESTED), progress=progress)
    return stated_estimates(protocol)


def _with_notes(estimate: Estimate, column: Column) -> Estimate:
    notes = [
        f"{count} values were {what}"
        for count, what in (
            (column.clamped, "outside the domain and clamped to its ends"),
            (column.dropped, "missing and left out"),
            (column.rounded, "rounded to whole numbers"),
        )
        if count
    ]
    return replace(estimate, notes=(*estimate.notes, *notes)) if notes else estimate

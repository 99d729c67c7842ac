"""What a shuffled batch promises: (epsilon, delta) from the coin's own epsilon and the size of the batch.

    delta(epsilon=1.0, local_epsilon=7.6, batch=100_000)          the delta that holds at epsilon
    epsilon(local_epsilon=7.6, batch=100_000, delta=1e-8)         the epsilon that holds at delta
    local_epsilon(epsilon=1.0, delta=1e-8, batch=100_000)         the most honest coin that keeps (epsilon, delta)

Every number is an upper bound that holds: "exact" returns the certified upper end of a bracket no wider than
`rtol` (in delta) around the true value for randomized response; the other methods hold for any randomizer of
that local epsilon, so a shuffled tree can be accounted for with them. None is ever worse than plain local
privacy. epsilon(local_epsilon(e)) <= e at equal rtol.

`colluding` is the fraction of the batch's users who work with the aggregator or are fake: only the others hide
anybody. For drop-outs use the number who answered as `batch`, or calibrate at the smallest batch that is forwarded.
`guarantee` counts both at their worst: all colluders answer, and a random batch may hold more than its share.
`guarantee_of_rounds` is for a run whose rounds have sizes and coins of their own.
"""

import math
import numbers
from collections.abc import Callable, Iterable

from privquant.errors import InvalidInput
from privquant.messages import Guarantee, ShuffledRound
from privquant.privacy import shuffle_bounds, shuffle_exact
from privquant.privacy.binomial import check_colluding, last_float, most_colluders
from privquant.privacy.shuffle_exact import Bracket, log_extreme, stakes
from privquant.validation import check_choice, check_count, check_epsilon, check_probability

__all__ = ["METHODS", "bracket", "delta", "epsilon", "guarantee", "guarantee_of_rounds", "honest", "local_epsilon"]

METHODS = ("exact", "stronger", "clones", "theorem", "lemma")

# ln(2^64 - 1) rounded down: no coin of 64-bit draws is more honest.
LARGEST_LOCAL_EPSILON = 44.36
LARGEST_BATCH = 10**12
SMALLEST_RTOL = 1e-7

# The part of delta that is kept for a batch with more colluders than counted.
_FOR_THE_DRAW = 0.1


def delta(
    *,
    epsilon: float,
    local_epsilon: float,
    batch: int,
    method: str = "exact",
    rtol: float = 1e-3,
    colluding: float = 0.0,
) -> float:
    """The delta that holds at `epsilon`.

    Parameters
    ----------
    epsilon : float
        It may be 0: then delta is the total variation distance.
    local_epsilon : float
        Epsilon of the coin.
    batch : int
        Users whose answers are shuffled together.
    method : str
        One of `METHODS`.
    rtol : float
        Width of the certified bracket, relative to delta.
    colluding : float
        Fraction of the batch that works with the aggregator or is fake.
    """
    at, local = _check_at(epsilon), _check_local(local_epsilon)
    return _upper(check_choice(method, "method", METHODS), at, local, honest(batch, colluding), _check_rtol(rtol))


def bracket(*, epsilon: float, local_epsilon: float, batch: int, rtol: float = 1e-3) -> Bracket:
    """Both certified ends of the exact delta, and the worst number of ones among the others.

    Parameters
    ----------
    epsilon, local_epsilon, batch, rtol
        As for `delta`.
    """
    at, local = _check_at(epsilon), _check_local(local_epsilon)
    return shuffle_exact.bracket(at, local, honest(batch), _check_rtol(rtol))


def epsilon(
    *,
    local_epsilon: float,
    batch: int,
    delta: float,
    method: str = "exact",
    rtol: float = 1e-3,
    colluding: float = 0.0,
) -> float:
    """The epsilon that holds at `delta`: at most local_epsilon, and 0 where delta alone covers everything.

    Parameters
    ----------
    delta : float
        The probability with which epsilon may fail.
    local_epsilon, batch, method, rtol, colluding
        As for `delta`.
    """
    chosen = check_choice(method, "method", METHODS)
    local, d = _check_local(local_epsilon), check_probability(delta, "delta")
    others, tight = honest(batch, colluding), _check_rtol(rtol)
    if chosen in shuffle_bounds.EPSILON:
        return min(local, shuffle_bounds.EPSILON[chosen](local, others, d))
    return _edge(
        lambda at: _log(_upper(chosen, at, local, others, tight)),
        lambda at: log_extreme(at, local, others),
        good=local, bad=0.0, target=math.log(d), slack=tight,
    )  # fmt: skip


def local_epsilon(
    *,
    epsilon: float,
    delta: float,
    batch: int,
    method: str = "exact",
    rtol: float = 1e-3,
    cap: float | None = None,
    colluding: float = 0.0,
) -> float:
    """The largest local epsilon whose shuffled batch keeps (epsilon, delta); at least epsilon, at most cap.

    Parameters
    ----------
    epsilon, delta : float
        What the shuffled batch is to keep.
    cap : float, optional
        The most that may be left if shuffler and aggregator work together; it also wins over epsilon.
    batch, method, rtol, colluding
        As for `delta`.
    """
    chosen = check_choice(method, "method", METHODS)
    e, d = check_epsilon(epsilon), check_probability(delta, "delta")
    others, tight = honest(batch, colluding), _check_rtol(rtol)
    most = LARGEST_LOCAL_EPSILON if cap is None else min(check_epsilon(cap, "cap"), LARGEST_LOCAL_EPSILON)
    if most <= e:
        return most
    if chosen in shuffle_bounds.EPSILON:
        closed = shuffle_bounds.EPSILON[chosen]
        return last_float(lambda x: min(x, closed(x, others, d)) <= e, e, most)
    # epsilon() may come out where the true delta is d (1 - 2 rtol): one rtol more and it cannot pass e.
    target = math.log(d) + math.log1p(-3 * tight)
    return _edge(
        lambda at: _log(_upper(chosen, e, at, others, tight)),
        lambda at: log_extreme(e, at, others),
        good=e, bad=most, target=target, slack=tight,
    )  # fmt: skip


def guarantee(
    *,
    local_epsilon: float,
    batch: int,
    delta: float,
    method: str = "exact",
    rtol: float = 1e-3,
    colluding: float = 0.0,
    answered: int | None = None,
    population: int | None = None,
) -> Guarantee:
    """What a user of this coin was promised, with colluders and drop-outs at their worst.

    Parameters
    ----------
    local_epsilon, batch, method, rtol
        As for `delta`; the batch is the users asked together.
    delta : float
        The delta of the promise. With colluders a tenth of it is for a batch that holds more of them than counted.
    colluding : float
        Fraction of all users who work with the aggregator or are fake. The batch is a random part of the users and
        may hold more than its share.
    answered : int, optional
        What holds if only so many of the batch answered: every colluder did, those who did not are honest.
    population : int, optional
        How many users the batch was drawn from; the batch itself if everybody is in it. Unknown: any number.

    Returns
    -------
    Guarantee
        Its `batch` is the number of honest reports it counts on.
    """
    planned = check_count(batch, "batch", 1)
    real = planned if answered is None else check_count(answered, "answered", 1)
    if real > planned:
        raise InvalidInput(f"answered is at most the batch of {planned}, got {answered}")
    left, of_batch = at_worst(planned, colluding, delta, population)
    left = max(1, left - (planned - real))
    reached = epsilon(local_epsilon=local_epsilon, batch=left, delta=of_batch, method=method, rtol=rtol)
    return Guarantee("shuffle", reached, float(delta), float(local_epsilon), left)


def at_worst(batch: int, colluding: float, delta: float, population: int | None = None) -> tuple[int, float]:
    """The honest users a batch has at least, and the part of delta that is not spent on its having fewer."""
    d, size = check_probability(delta, "delta"), honest(batch)
    if population is not None:
        check_count(population, "population", 1)
    if not check_colluding(colluding):
        return size, d
    worst = most_colluders(size, colluding, miss=_FOR_THE_DRAW * d, population=population)
    return size - worst, (1.0 - _FOR_THE_DRAW) * d


def guarantee_of_rounds(
    rounds: Iterable[tuple[int, float]], *, epsilon: float, delta: float, rtol: float = 1e-3
) -> Guarantee:
    """The promise of a run whose every user answers in one round: a table of the rounds, and the worst of them.

    Parameters
    ----------
    rounds : iterable of (int, float)
        Honest reports of each round, and the epsilon of its coin.
    epsilon, delta : float
        What the coins were calibrated for. A round that does not keep epsilon by exact accounting raises it.
    rtol : float
        As for `epsilon`; that of the calibration.
    """
    pairs = [(check_count(size, "reports of a round", 1), _check_local(local)) for size, local in rounds]
    if not pairs:
        raise InvalidInput("there are no rounds to give a guarantee for")
    wanted = check_epsilon(epsilon)
    found = {pair: _epsilon_of_round(*pair, wanted, delta, rtol) for pair in set(pairs)}
    table = tuple(
        ShuffledRound(number, size, local, found[size, local]) for number, (size, local) in enumerate(pairs, 1)
    )
    return Guarantee(
        "shuffle",
        max(wanted, *found.values()),
        delta,
        max(local for _, local in pairs),
        min(size for size, _ in pairs),
        rounds=table if len(table) > 1 else (),
    )


def _epsilon_of_round(size: int, local: float, wanted: float, at: float, rtol: float) -> float:
    """The epsilon of a round; `wanted` where its coin is the one calibrated for it, found without a search."""
    reached = delta(epsilon=wanted, local_epsilon=local, batch=size, rtol=rtol)
    if (1.0 - 10.0 * rtol) * at <= reached <= at:
        return wanted
    return epsilon(local_epsilon=local, batch=size, delta=at, rtol=rtol)


def honest(batch: int, colluding: float = 0.0) -> int:
    """Users of a batch who hide each other when a part of it does not; at least the user alone.

    Parameters
    ----------
    batch, colluding
        As for `delta`.
    """
    size = check_count(batch, "batch", 1)
    if size > LARGEST_BATCH:
        raise InvalidInput(f"batch is at most {LARGEST_BATCH}, got {batch}")
    return max(1, size - math.ceil(check_colluding(colluding) * size))


def _upper(method: str, epsilon: float, local_epsilon: float, batch: int, rtol: float) -> float:
    if local_epsilon <= epsilon:
        return 0.0
    if method == "exact":
        return shuffle_exact.bracket(epsilon, local_epsilon, batch, rtol).upper
    if method in shuffle_bounds.DELTA:
        found = shuffle_bounds.DELTA[method](epsilon, local_epsilon, batch)
        return min(found, stakes(epsilon, local_epsilon).most)
    return shuffle_bounds.clones_bracket(method, epsilon, local_epsilon, batch, rtol).upper


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -1e4


def _root(curve: Callable[[float], float], low: float, high: float, target: float) -> float:
    """Where a monotone cheap curve crosses the target; the end returned is where it is above it."""
    under, over = low, high
    for _ in range(60):
        middle = 0.5 * (under + over)
        if abs(over - under) <= 1e-12 * middle:
            break
        under, over = (under, middle) if curve(middle) > target else (middle, over)
    return over


def _edge(
    curve: Callable[[float], float],
    shape: Callable[[float], float],
    *,
    good: float,
    bad: float,
    target: float,
    slack: float,
) -> float:
    """The x nearest to `bad` with curve(x) <= target, to within `slack` in the curve's value; `bad` if it is one.

    `shape` is a cheap curve below the other and of about its form: where it is above the target, so is the other.
    The search starts at its root, or at `bad`. The first step takes its slope from it; later ones are secants, kept
    inside (good, bad), with a midpoint now and then so that the interval must shrink.
    """
    if shape(bad) > target:
        bad = _root(shape, good, bad, target)
    elif curve(bad) <= target:
        return bad
    x, seen = bad, list[tuple[float, float]]()
    for turn in range(200):
        value = curve(x)
        if value <= target:
            good = x
            if value >= target - slack:
                break
        else:
            bad = x
        if abs(bad - good) <= 4e-16 * max(abs(bad), abs(good)):
            break
        seen.append((x, value))
        aim = target - 0.5 * slack
        if len(seen) == 1:
            aside = x + 1e-4 * (good - x)
            (x1, v1), (x2, v2) = (aside, shape(aside)), (x, shape(x))
        else:
            (x1, v1), (x2, v2) = seen[-2], seen[-1]
        following = math.nan
        if turn % 8 != 7 and math.isfinite(v2 - v1) and v1 != v2:
            following = x + (aim - value) * (x2 - x1) / (v2 - v1)
        if not min(good, bad) < following < max(good, bad):
            following = 0.5 * (good + bad)
        if following in (good, bad):
            break
        x = following
    return good


def _check_at(epsilon: float) -> float:
    return 0.0 if epsilon == 0 and not isinstance(epsilon, bool) else check_epsilon(epsilon)


def _check_local(value: float) -> float:
    found = check_epsilon(value, "local_epsilon")
    if found > 100:
        raise InvalidInput(f"local_epsilon is at most 100 (a coin of 64-bit draws reaches 44.36), got {value!r}")
    return found


def _check_rtol(rtol: float) -> float:
    if isinstance(rtol, bool) or not isinstance(rtol, numbers.Real) or not SMALLEST_RTOL <= rtol <= 0.1:
        raise InvalidInput(f"rtol is a number from {SMALLEST_RTOL:g} to 0.1, got {rtol!r}")
    return float(rtol)

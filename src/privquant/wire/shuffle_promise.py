"""What a campaign in the shuffle model promises: every round by exact accounting, with the colluders it names.

Aggregator and shuffler both read a manifest this way, each for itself; so does the device, in its own arithmetic.
"""

from functools import lru_cache

from privquant.errors import InvalidInput
from privquant.messages import Guarantee
from privquant.privacy import shuffle
from privquant.privacy.coin import Coin
from privquant.wire import Manifest, terms_of


@lru_cache(maxsize=64)
def promise(manifest: Manifest) -> Guarantee:
    """The guarantee with its table: round (from 1 in it), honest reports, local epsilon, epsilon."""
    terms = terms_of(manifest)
    return shuffle.guarantee_of_rounds(
        [(shuffle.honest(row.batch, terms.colluding), Coin(row.coin).epsilon) for row in terms.rounds],
        epsilon=manifest.epsilon,
        delta=terms.delta,
    )


def check_rounds(manifest: Manifest) -> None:
    """InvalidInput if a round does not keep what the manifest says."""
    terms = terms_of(manifest)
    reached = {
        row: shuffle.delta(
            epsilon=manifest.epsilon,
            local_epsilon=Coin(row.coin).epsilon,
            batch=row.batch,
            colluding=terms.colluding,
        )
        for row in set(terms.rounds)
    }
    for number, row in enumerate(terms.rounds):
        if reached[row] > terms.delta:
            raise InvalidInput(
                f"round {number} does not keep what the manifest says: {row.batch} reports through its coin have "
                f"delta {reached[row]:.3g} at epsilon {manifest.epsilon:g}, and {terms.delta:g} is promised"
            )

"""How a user says which node of a level they are in: unary symmetric, unary optimized, one-bit Hadamard.

    sue        the one-hot vector of the level, every bit through a coin of epsilon/2
    oue        the one-hot vector; the user's own bit is replaced by a fair one, every other bit goes through a
               coin of epsilon
    hadamard   a uniform row of the Hadamard matrix and that row's sign at the user's node, through a coin of
               epsilon: one index and one bit, whatever the level's size

The level is drawn uniformly by the user and does not depend on the value. Laws are exact fractions of the integer
coin, so that "the ratio is at most e^epsilon" is a statement about what is drawn, not about its rounding.

`encode` draws from a numpy Generator handed in: it is the simulator's user.
"""

from fractions import Fraction
from functools import lru_cache

import numpy as np

from privquant.arrays import Flags
from privquant.domain import MAX_SIZE
from privquant.errors import InvalidInput
from privquant.messages import TreeQuery, TreeReport
from privquant.privacy.coin import DRAW, Coin

ENCODINGS = ("oue", "sue", "hadamard")
UNARY = ("oue", "sue")

# A unary report beyond this would be more than 128 KiB a user.
MOST_UNARY_NODES = 2**20

_HALF = Fraction(1, 2)


def encoding_coin(encoding: str, epsilon: float) -> Coin:
    """The coin of the encoding's bits at the user's epsilon: a symmetric unary report differs in two bits."""
    return Coin.of(epsilon / 2 if encoding == "sue" else epsilon)


def real_epsilon(encoding: str, coin: Coin) -> float:
    """The epsilon a report with this coin really costs."""
    return coin.epsilon * 2 if encoding == "sue" else coin.epsilon


def node_count(query: TreeQuery, level: int) -> int:
    """Nodes a level has, of which those beyond the domain's end stay empty."""
    return int(query.branching**level)


def rows(query: TreeQuery, level: int) -> int:
    """Rows of the level's Hadamard matrix: a power of two that covers its nodes.

    No node number reaches 2^63, since a domain has at most 2^63 values; more rows would repeat.
    """
    return min(1 << (node_count(query, level) - 1).bit_length(), MAX_SIZE)


def check_unary_width(query: TreeQuery) -> None:
    """Refuse to build unary reports nobody could send."""
    widest = node_count(query, query.height)
    if query.encoding in UNARY and widest > MOST_UNARY_NODES:
        raise InvalidInput(
            f"unary encoding asks users one by one up to 2^20 nodes a level, and this tree has {widest}: "
            "use encoding='hadamard', or simulate by counts (lab.trials)"
        )


def encode(query: TreeQuery, index: int, rng: np.random.Generator) -> TreeReport:
    """What a user with this domain index reports."""
    level = int(rng.integers(1, query.height + 1))
    node = index // query.branching ** (query.height - level)
    if query.encoding == "hadamard":
        row = int(rng.integers(0, rows(query, level) - 1, endpoint=True, dtype=np.int64))
        flipped = int(_below(query.coin, 1, rng)[0])
        return TreeReport(query, level, index=row, bit=sign_bit(row, node) ^ flipped)
    check_unary_width(query)
    bits = _below(query.coin, node_count(query, level), rng)
    bits[node] = rng.integers(0, 2) if query.encoding == "oue" else not bits[node]
    return TreeReport(query, level, bits=np.packbits(bits).tobytes())


def _below(coin: int, count: int, rng: np.random.Generator) -> Flags:
    return np.asarray(rng.integers(0, DRAW, size=count, dtype=np.uint64) < np.uint64(coin))


def sign_bit(row: int, node: int) -> int:
    """1 where the Hadamard matrix has -1: the parity of the bits that row and node share."""
    return (row & node).bit_count() & 1


# -- exact laws ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def bit_law(encoding: str, coin: int) -> tuple[Fraction, Fraction]:
    """Unary: the probability of a one at the user's own node, and at any other."""
    flip = Fraction(coin, DRAW)
    return (_HALF, flip) if encoding == "oue" else (1 - flip, flip)


def gap(encoding: str, coin: Coin) -> float:
    """Own minus other rate of ones of a unary encoding; what estimates are divided by."""
    own, other = bit_law(encoding, coin.threshold)
    return float(own - other)

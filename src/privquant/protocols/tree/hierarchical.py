"""The hierarchical mechanism of Kulkarni et al.: one round, nothing adaptive, the whole CDF from the same reports.

Each user picks one level of a b-ary tree over the domain and says through a frequency encoding which of its nodes
they are in. The state is a sum over reports for each level, so their order cannot matter.

answer="descent" walks down the noisy tree to the quantile and needs only the children of visited nodes: the
domain may have 2^63 values. answer="argmin" is what the paper does, for comparison: the coin whose estimated
rate is closest to the quantile, over a whole CDF that noise keeps from rising.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from privquant.arrays import Flags, Floats, Ints
from privquant.errors import InvalidInput, ProtocolError
from privquant.messages import AnyQuery, AnyReport, Guarantee, TreeQuery, TreeReport
from privquant.protocols.base import Protocol
from privquant.protocols.tree import encodings
from privquant.protocols.tree.nodes import (
    Tree,
    closest_coin,
    consistent,
    descend,
    hadamard_transform,
    prefixes,
)
from privquant.validation import check_choice, check_count, check_flag

ANSWERS = ("descent", "argmin")

# The whole tree is built for the argmin and for consistency; at this size it takes 32 MiB a level.
MOST_LEAVES = 2**22

# Bits of unary reports held at once by a run that is free to choose its batches.
_BITS_AT_ONCE = 2**28


class Hierarchical(Protocol):
    """A b-ary tree of frequencies, one random level a user.

    encoding: "oue", "sue" or "hadamard"; left out, "oue" up to 2^20 leaves and "hadamard" beyond.
    consistency: post-process so that children sum to their parent (Hay et al.); needs the whole tree.
    """

    name: ClassVar[str] = "hierarchical"
    title: ClassVar[str] = "hierarchical mechanism"
    adaptive: ClassVar[bool] = False
    many_quantiles: ClassVar[bool] = True

    def __init__(
        self,
        *args: Any,
        branching: int = 4,
        encoding: str | None = None,
        answer: str = "descent",
        consistency: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(*args, **settings)
        self.tree = Tree(self.domain.size, check_count(branching, "branching", 2))
        if encoding is not None:
            check_choice(encoding, "encoding", encodings.ENCODINGS)
        self._encoding = encoding
        leaves = self.tree.branching**self.tree.height
        self.encoding = encoding or ("oue" if leaves <= encodings.MOST_UNARY_NODES else "hadamard")
        self.answer = check_choice(answer, "answer", ANSWERS)
        self.consistency = check_flag(consistency, "consistency")
        self.whole = self.consistency or self.answer == "argmin"
        if self.whole and self.domain.size > MOST_LEAVES:
            raise InvalidInput(
                f"answer='argmin' and consistency=True build the whole tree, of at most 2^22 values, got a domain "
                f"of {self.domain.size}: use answer='descent' without consistency"
            )
        self.coin = encodings.encoding_coin(self.encoding, self.epsilon)
        self._gap = encodings.gap(self.encoding, self.coin)
        if settings.get("guarantee") is None:
            real = min(self.epsilon, encodings.real_epsilon(self.encoding, self.coin))
            self.guarantee = Guarantee("local", real)
        self.query = TreeQuery(self.tree.branching, self.tree.height, self.encoding, self.coin.threshold)
        self.level_users = [0] * self.tree.height
        self._ones: list[Ints | None] = [None] * self.tree.height  # unary: ones at each node
        self._signs: list[dict[int, int]] = [{} for _ in range(self.tree.height)]  # Hadamard: sum at each row
        self._made: tuple[int, list[Floats]] | None = None

    def options(self) -> dict[str, Any]:
        return {
            "branching": self.tree.branching,
            "encoding": self._encoding,
            "answer": self.answer,
            "consistency": self.consistency,
        }

    # -- asking --------------------------------------------------------------------------------------------

    def can_ask(self) -> bool:
        return self.asked < self.users and self.tree.height > 0

    def batch_size(self) -> int:
        if self.encoding == "hadamard":
            return max(1, self.users)
        widest = encodings.node_count(self.query, self.tree.height)
        return max(1, min(self.users, _BITS_AT_ONCE // widest))

    def _next(self, k: int) -> list[tuple[AnyQuery, int]]:
        encodings.check_unary_width(self.query)
        return [(self.query, k)]

    # -- telling -------------------------------------------------------------------------------------------

    def _check(self, report: AnyReport) -> None:
        if not isinstance(report, TreeReport):
            raise ProtocolError(f"protocol {self.name!r} takes tree reports, got {type(report).__name__}")
        if report.query != self.query:
            raise ProtocolError(f"this run asked {self.query}, got a report to {report.query}")
        if not isinstance(report.level, int) or not 1 <= report.level <= self.tree.height:
            raise ProtocolError(f"a level lies in 1 .. {self.tree.height}, got {report.level!r}")
        if self.encoding == "hadamard":
            self._check_hadamard(report)
        else:
            self._check_unary(report)

    def _check_hadamard(self, report: TreeReport) -> None:
        rows = encodings.rows(self.query, report.level)
        if report.bits is not None or report.bit not in (0, 1):
            raise ProtocolError(f"a Hadamard report is an index and a bit of 0 or 1, got {report}")
        if not isinstance(report.index, int) or not 0 <= report.index < rows:
            raise ProtocolError(f"an index of level {report.level} lies in 0 .. {rows - 1}, got {report.index!r}")

    def _check_unary(self, report: TreeReport) -> None:
        nodes = encodings.node_count(self.query, report.level)
        encodings.check_unary_width(self.query)
        if not isinstance(report.bits, bytes) or len(report.bits) != -(-nodes // 8):
            got = "no bits" if report.bits is None else f"{len(report.bits)} bytes"
            raise ProtocolError(f"a report of level {report.level} has {-(-nodes // 8)} bytes of bits, got {got}")
        if nodes % 8 and report.bits[-1] & (0xFF >> nodes % 8):
            raise ProtocolError(f"a report of level {report.level} has {nodes} bits, got ones beyond them")

    def _use(self, report: AnyReport) -> bool:
        assert isinstance(report, TreeReport)
        k = report.level - 1
        self.level_users[k] += 1
        if self.encoding == "hadamard":
            assert report.index is not None
            signs = self._signs[k]
            total = signs.get(report.index, 0) + (-1 if report.bit else 1)
            if total:
                signs[report.index] = total
            else:
                del signs[report.index]
        else:
            assert report.bits is not None
            nodes = self.tree.nodes(report.level)
            bits = np.unpackbits(np.frombuffer(report.bits, np.uint8), count=nodes)
            ones = self._ones[k]
            if ones is None:
                ones = self._ones[k] = np.zeros(nodes, np.int64)
            ones += bits
        return True

    def tell_signs(
        self,
        query: TreeQuery,
        level_users: Sequence[int],
        rows: Sequence[Ints],
        sums: Sequence[Ints],
    ) -> None:
        """Many Hadamard reports at once: each level's users, and the sum of signs at each row that was drawn."""
        if self.encoding != "hadamard" or query != self.query:
            raise ProtocolError(f"this run asked {self.query}, got sums of signs for {query}")
        for k, (users, drawn, totals) in enumerate(zip(level_users, rows, sums, strict=True)):
            signs = self._signs[k]
            for row, total in zip(drawn.tolist(), totals.tolist(), strict=True):
                signs[row] = signs.get(row, 0) + total
                if not signs[row]:
                    del signs[row]
            self.level_users[k] += users
            self.heard += users
        self.asked = max(self.asked, self.heard + self.given_up)

    # -- estimates -----------------------------------------------------------------------------------------

    def node_estimates(self, level: int, first: int, count: int) -> Sequence[float] | None:
        """The estimated fraction of users in each of `count` nodes; None if nobody reported at that level."""
        users = self.level_users[level - 1]
        if users == 0:
            return None
        if self.encoding != "hadamard":
            ones = self._ones[level - 1]
            assert ones is not None
            found: list[float] = self.unary_estimates(ones[first : first + count], users).tolist()
            return found
        signs = self._signs[level - 1]
        rows = np.fromiter(signs.keys(), np.int64, len(signs))
        sums = np.fromiter(signs.values(), np.int64, len(signs))
        scale = 1.0 / (self.coin.kappa * users)
        return [
            scale * float(sums.sum() - 2 * sums[odd_bits(rows & node)].sum())
            for node in range(first, first + count)
        ]

    def unary_estimates(self, ones: Ints, users: int) -> Floats:
        """De-biased fractions from ones heard at nodes by a level's users."""
        scale = self._gap * users
        return np.asarray((ones - users * self.coin.flip) / scale)

    def level_estimates(self) -> list[Floats]:
        """The estimates of every node, level by level, post-processed if asked for."""
        if self.domain.size > MOST_LEAVES:
            raise InvalidInput(f"the whole tree is built up to 2^22 values, got a domain of {self.domain.size}")
        if self._made is None or self._made[0] != self.heard:
            raw = [self._raw_level(level) for level in range(1, self.tree.height + 1)]
            made = consistent(self.tree, raw, self.level_users) if self.consistency else raw
            self._made = (self.heard, made)
        return self._made[1]

    def _raw_level(self, level: int) -> Floats:
        nodes, users = self.tree.nodes(level), self.level_users[level - 1]
        if users == 0:
            return np.zeros(nodes)
        if self.encoding != "hadamard":
            ones = self._ones[level - 1]
            assert ones is not None
            return self.unary_estimates(ones, users)
        sums = np.zeros(encodings.rows(self.query, level))
        signs = self._signs[level - 1]
        sums[list(signs.keys())] = list(signs.values())
        return hadamard_transform(sums)[:nodes] / (self.coin.kappa * users)

    def _answer(self, quantile: float) -> int | None:
        if not self.whole:
            return descend(self.tree, quantile, self.node_estimates)
        return answer_from_levels(self, self.level_estimates(), self.level_users, quantile)

    def cdf(self, thresholds: Iterable[int]) -> Floats:
        """The estimated fraction of users at or below each threshold (domain indices 0 .. size-1): LDPemp-cdf.

        Unbiased, and therefore neither rising nor within 0 .. 1; the last index has 1.
        """
        wanted = [self.domain.check_index(int(t)) for t in thresholds]
        below = prefixes(self.tree, self.level_estimates()).__getitem__ if self.whole else self._below
        return np.array([1.0 if t == self.domain.size - 1 else below(t + 1) for t in wanted])

    def _below(self, index: int) -> float:
        """The estimated fraction of users below an index: the nodes left of its path."""
        total = 0.0
        for level in range(1, self.tree.height + 1):
            node = index // self.tree.width(level)
            left = node % self.tree.branching
            found = self.node_estimates(level, node - left, left) if left else None
            total += sum(found) if found is not None else 0.0
        return total

    # -- state ---------------------------------------------------------------------------------------------

    def _progress(self) -> dict[str, Any]:
        form: dict[str, Any] = {"level_users": list(self.level_users)}
        if self.encoding == "hadamard":
            form["signs"] = [sorted([row, total] for row, total in s.items()) for s in self._signs]
        else:
            form["ones"] = [None if ones is None else ones.tolist() for ones in self._ones]
        return form

    def _restore(self, progress: Mapping[str, Any]) -> None:
        self.level_users = [int(k) for k in progress["level_users"]]
        if self.encoding == "hadamard":
            self._signs = [{int(row): int(total) for row, total in s} for s in progress["signs"]]
        else:
            self._ones = [None if ones is None else np.array(ones, np.int64) for ones in progress["ones"]]


def answer_from_levels(
    protocol: Hierarchical, levels: Sequence[Floats], users: Sequence[int], quantile: float
) -> int:
    """The answer's index from the estimates of the whole tree and how many users each level heard."""
    if protocol.answer == "argmin":
        # The paper's coin m stands for the value m + 1; its last coin has no value above it.
        coin = closest_coin(prefixes(protocol.tree, levels), float(levels[0].sum()), quantile)
        return min(coin + 1, protocol.domain.size - 1)

    def children(level: int, first: int, count: int) -> Sequence[float] | None:
        if users[level - 1] == 0 and not protocol.consistency:
            return None
        found: list[float] = levels[level - 1][first : first + count].tolist()
        return found

    return descend(protocol.tree, quantile, children)


def odd_bits(values: Ints) -> Flags:
    """Whether a number has an odd count of bits, by folding it onto its last bit."""
    folded = values.copy()
    for shift in (32, 16, 8, 4, 2, 1):
        folded ^= folded >> shift
    return np.asarray(folded & 1, dtype=np.bool_)

"""A partition whose rows are users: keyed coins beside the data, and a ledger of who was asked.

The order in which users are taken and every coin are a keyed function (AES-256 in counter mode) of the folder's
secret, so a task that runs twice, on whatever worker, throws the same coin for the same user and question, and
nobody without the secret can tell the coins. A user's 64-bit draw flips the answer iff it is below the question's
flip threshold, as on a device. Draws are read at the user's place in the order, so a round is one slice.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant.columns import to_indices
from privquant.device import spending
from privquant.device.policy import Rule
from privquant.engines.partition_ledger import PartitionLedger, Round
from privquant.engines.partitions import Answered, Asked, PartitionRefused, Reply, Signs, check_threshold, summed
from privquant.errors import MissingDependency
from privquant.lab.data.files import read_column
from privquant.messages import AnyQuery, Query, TreeQuery, query_to_dict
from privquant.protocols.tree.encodings import rows as hadamard_rows
from privquant.protocols.tree.hierarchical import odd_bits

# Rows worked on at once: 8 MiB of draws.
_CHUNK = 1 << 20


class KeptPartition:
    """Rows of one column, in this process's memory, with their ledger in a folder.

    values:       gives the column; called once, when the first user is asked.
    rows, digest: what tells this data from other data.
    folder:       for the secret and the ledger; reachable from wherever this partition may be opened again.
    column:       its name: a ledger is about one column.
    rule:         what its owner allows: the domain, and the most one answer may reveal.
    missing:      "refuse" or "drop" rows without a value.
    """

    def __init__(
        self,
        values: Callable[[], Any],
        *,
        rows: int,
        digest: str,
        folder: str | os.PathLike[str],
        column: str,
        rule: Rule,
        missing: str = "refuse",
    ) -> None:
        self._values = values
        self._missing = missing
        self._rule = rule
        self._ledger = PartitionLedger(folder, column, {"rows": rows, "digest": digest})
        self._ordered: NDArray[np.int64] | None = None

    @classmethod
    def of_file(
        cls, path: str | os.PathLike[str], column: str, rule: Rule, missing: str = "refuse"
    ) -> KeptPartition:
        """A column of a Parquet or CSV file; the folder is FILE.privquant beside it."""
        place = Path(path)
        indices = to_indices(read_column(place, column), rule.domain, missing=missing).indices
        folder = place.with_name(place.name + ".privquant")
        with place.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return cls.of_indices(indices, digest=digest, folder=folder, column=column, rule=rule)

    @classmethod
    def of_indices(
        cls, indices: NDArray[np.int64], *, digest: str, folder: str | os.PathLike[str], column: str, rule: Rule
    ) -> KeptPartition:
        """A column whose domain indices are in memory already."""
        rows = int(indices.size)
        made = cls(lambda: (), rows=rows, digest=digest, folder=folder, column=column, rule=rule)
        made._ordered = made._in_order(indices)
        return made

    def open(self, campaign: str) -> int:
        return self._ledger.open(campaign)

    def answer(self, campaign: str, number: int, asked: Asked) -> list[Reply]:
        for query, _ in asked:
            self._check(query)
        found = self._ledger.take(campaign, number, asked)  # on disk before any coin is thrown
        return self._replies(campaign, found)

    def kept(self) -> list[dict[str, Any]]:
        return [
            {
                "campaign": campaign,
                "round": number,
                "start": entry.start,
                "stop": entry.stop,
                "asked": [(query_to_dict(query), taken) for (query, _), taken in zip(entry.asked, entry.taken)],
            }
            for (campaign, number), entry in self._ledger.book().rounds.items()
        ]

    def _check(self, query: AnyQuery) -> None:
        if not spending.keeps(self._rule.max_units, query.coin):
            raise PartitionRefused(
                f"an answer would cost epsilon {spending.shown(spending.cost(query.coin))}, this partition's owner "
                f"allows {spending.shown(self._rule.max_units)}"
            )
        if isinstance(query, Query):
            check_threshold(query, self._rule.domain)
        elif query.encoding != "hadamard":
            raise PartitionRefused(f"a partition answers trees by the Hadamard encoding, got {query.encoding!r}")

    def _replies(self, campaign: str, entry: Round) -> list[Reply]:
        place = entry.start
        replies: list[Reply] = []
        for (query, count), taken in zip(entry.asked, entry.taken, strict=True):
            spans = [(at, min(at + _CHUNK, place + taken)) for at in range(place, place + taken, _CHUNK)]
            if isinstance(query, Query):
                ones = sum(self._ones(campaign, query, start, stop) for start, stop in spans)
                replies.append(Answered(query, count, taken, ones))
            else:
                whole = Signs.none(query, count - taken)
                for start, stop in spans:
                    whole = whole.plus(self._signs(campaign, query, start, stop))
                replies.append(whole)
            place += taken
        return replies

    def _ones(self, campaign: str, query: Query, start: int, stop: int) -> int:
        flipped = self._draws(campaign, query, "coin", start, stop) < np.uint64(query.coin)
        return int(np.count_nonzero((self._users()[start:stop] <= query.threshold) ^ flipped))

    def _signs(self, campaign: str, query: TreeQuery, start: int, stop: int) -> Signs:
        """Each user's level, row and coin from draws of their own; levels by the high part of a product."""
        count = stop - start
        levels = 1 + _scaled(self._draws(campaign, query, "level", start, stop), query.height)
        picks = self._draws(campaign, query, "row", start, stop)
        flipped = self._draws(campaign, query, "coin", start, stop) < np.uint64(query.coin)
        users, rows, sums = [], [], []
        for level in range(1, query.height + 1):
            mine = np.flatnonzero(levels == level)
            nodes = self._users()[start:stop][mine] // query.branching ** (query.height - level)
            # the number of rows is a power of two: the low bits of a uniform draw are uniform
            row = (picks[mine] & np.uint64(hadamard_rows(query, level) - 1)).astype(np.int64)
            sign = 1 - 2 * (odd_bits(row & nodes) ^ flipped[mine]).astype(np.int64)
            found, total = summed(row, sign)
            users.append(int(mine.size))
            rows.append(found)
            sums.append(total)
        return Signs(query, count, tuple(users), tuple(rows), tuple(sums))

    def _users(self) -> NDArray[np.int64]:
        if self._ordered is None:
            self._ordered = self._in_order(
                to_indices(self._values(), self._rule.domain, missing=self._missing).indices
            )
        return self._ordered

    def _in_order(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """The users as they will be taken: an order that their values have no part in, the same for ever."""
        keys = draws(self._key("order"), 0, indices.size)
        return np.asarray(indices[np.argsort(keys, kind="stable")])

    def _draws(self, campaign: str, query: AnyQuery, use: str, start: int, stop: int) -> NDArray[np.uint64]:
        named = json.dumps([use, campaign, query_to_dict(query)], sort_keys=True)
        return draws(self._key(named), start, stop)

    def _key(self, use: str) -> bytes:
        named = f"privquant/partition/1 {self._ledger.path.name} {use}"
        return hmac.digest(self._ledger.secret, named.encode(), hashlib.sha256)


def draws(key: bytes, start: int, stop: int) -> NDArray[np.uint64]:
    """The 64-bit draws of places start .. stop - 1: the key's stream of AES-256 in counter mode, 8 bytes each."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        raise MissingDependency("a partition's coins", "cryptography", "device") from None
    first = start // 2
    blocks = -(-stop // 2) - first
    stream = Cipher(algorithms.AES(key), modes.CTR(first.to_bytes(16, "big"))).encryptor()
    raw = stream.update(bytes(16 * blocks))
    return np.frombuffer(raw, ">u8")[start - 2 * first :][: stop - start].astype(np.uint64)


def _scaled(draw: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """Uniform in 0 .. count - 1 up to 2^-58: the high half of draw times count, for count below 64."""
    return ((draw >> np.uint64(6)) * np.uint64(count) >> np.uint64(58)).astype(np.int64)

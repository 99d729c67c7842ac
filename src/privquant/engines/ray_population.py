"""Users in partitions on a Ray cluster: data stays with its holder, randomized counts travel.

    population = RayPopulation.parquet(paths, "ms", domain=(0, 60_000), epsilon=1.0, campaign="startup-48")
    found = pq.run(protocol, population, schedule=Schedule.growing(0.2))

A holder is a Ray actor with some of the partitions. One that is killed is started again by Ray, reads its
partitions' ledgers and gives the same answers; one that does not come back is left out, its users counted as not
answering. What Ray itself cannot promise is said in docs/engines.md: whoever may start tasks on a cluster can run
any code beside the data.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from privquant.columns import to_indices
from privquant.device.policy import Rule
from privquant.domain import Domain, given_domain
from privquant.engines.executors import ray_module
from privquant.engines.kept_partition import KeptPartition
from privquant.engines.partitions import Asked, Partition, PartitionedPopulation, PartitionRefused, Reply
from privquant.errors import InvalidInput, PrivquantError


class Holder:
    """Partitions of one process. As a Ray actor: what `RayPopulation` calls. Opened on first use."""

    def __init__(self, opens: tuple[Any, ...]) -> None:
        self.opens = opens
        self._opened: dict[int, Partition] = {}

    def _partition(self, k: int) -> Partition:
        if k not in self._opened:
            self._opened[k] = self.opens[k]()
        return self._opened[k]

    def open(self, campaign: str) -> list[int]:
        """How many users each partition has for this campaign."""
        return [self._partition(k).open(campaign) for k in range(len(self.opens))]

    def answer(self, campaign: str, number: int, asked: Mapping[int, Asked]) -> dict[int, list[Reply]]:
        """The answers of one round by partition."""
        return {k: self._partition(k).answer(campaign, number, questions) for k, questions in asked.items()}

    def kept(self) -> list[list[dict[str, Any]]]:
        """What each partition wrote down."""
        return [self._partition(k).kept() for k in range(len(self.opens))]


class RayPopulation(PartitionedPopulation):
    """Partitions held by Ray actors, as one population that answers in rounds.

    holders:  actors with the three methods of `Holder`. `parquet` and `dataset` make them.
    campaign: names this run in the partitions' ledgers.
    patience: seconds to wait for a holder, with all of Ray's restarts of it, before its users count as silent.
    """

    def __init__(self, holders: Sequence[Any], *, campaign: str, patience: float = 600.0) -> None:
        if not holders:
            raise InvalidInput("a population needs at least one holder of partitions")
        self._ray = ray_module()
        self._holders = list(holders)
        self._patience = patience
        self._of: list[tuple[int, int]] = []  # (holder, its own number of the partition)
        self.lost: list[str] = []
        super().__init__((), campaign=campaign)

    @classmethod
    def parquet(
        cls,
        paths: Iterable[str | os.PathLike[str]],
        column: str,
        *,
        domain: Domain | tuple[int, int],
        epsilon: float,
        campaign: str,
        holders: int | None = None,
        missing: str = "refuse",
        patience: float = 600.0,
    ) -> RayPopulation:
        """A column of files, each a partition; secret and ledger are kept in FILE.privquant beside each.

        paths:   Parquet (or CSV) files under the same path on every node: a shared file system, or one node.
        column:  of the values, one row a user.
        domain:  which values exist; a pair (low, high) is `Integers(low, high)`.
        epsilon: the most one answer may reveal; a question through a more honest coin is refused.
        holders: actors to spread the files over; as many as the cluster has processors unless given.
        missing: "refuse" or "drop" rows without a value.
        """
        rule = Rule(given_domain(domain), epsilon)
        files = sorted(Path(path).absolute() for path in paths)
        opens = [partial(KeptPartition.of_file, file, column, rule, missing) for file in files]
        return cls(_spread(opens, holders), campaign=campaign, patience=patience)

    @classmethod
    def dataset(
        cls,
        dataset: Any,
        column: str,
        *,
        domain: Domain | tuple[int, int],
        epsilon: float,
        campaign: str,
        folder: str | os.PathLike[str],
        holders: int | None = None,
        missing: str = "refuse",
        patience: float = 600.0,
    ) -> RayPopulation:
        """A column of a Ray Dataset, each block a partition; see `parquet`.

        dataset: materialized here. Its blocks must come out the same each time: a block is known by its content.
        folder:  where secrets and ledgers are kept, under the same path on every node.
        """
        rule = Rule(given_domain(domain), epsilon)
        blocks = dataset.select_columns([column]).materialize().to_arrow_refs()
        place = Path(folder).absolute()
        opens = [partial(_of_block, block, place, column, rule, missing) for block in blocks]
        return cls(_spread(opens, holders), campaign=campaign, patience=patience)

    def kept(self) -> list[list[dict[str, Any]]]:
        """What each partition wrote down, in the order of the partitions."""
        found = self._ray.get([holder.kept.remote() for holder in self._holders])
        return [found[holder][k] for holder, k in self._of]

    def close(self) -> None:
        """End the holders; their ledgers stay."""
        for holder in self._holders:
            self._ray.kill(holder)

    def _open_all(self) -> list[int]:
        waiting = [holder.open.remote(self.campaign) for holder in self._holders]
        left: dict[tuple[int, int], int] = {}
        for holder, ref in enumerate(waiting):
            left |= {(holder, k): users for k, users in enumerate(self._get(ref))}
        # Dealt out in turn, so this is the order of the partitions, however many holders there are.
        self._of = sorted(left, key=lambda place: place[::-1])
        return [left[place] for place in self._of]

    def _answer_all(self, number: int, asked: Mapping[int, Asked]) -> dict[int, list[Reply] | None]:
        by_holder: dict[int, dict[int, Asked]] = {}
        for place, questions in asked.items():
            holder, k = self._of[place]
            by_holder.setdefault(holder, {})[k] = questions
        waiting = {
            holder: self._holders[holder].answer.remote(self.campaign, number, parts)
            for holder, parts in by_holder.items()
        }
        found: dict[tuple[int, int], list[Reply]] = {}
        for holder, ref in waiting.items():
            try:
                replies = self._get(ref)
            except (self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError) as error:
                self._lose(holder, number, error)
                continue
            found |= {(holder, k): reply for k, reply in replies.items()}
        return {place: found.get(self._of[place]) for place in asked}

    def _get(self, ref: Any) -> Any:
        """What a holder gives; the error of a partition as it was raised there."""
        try:
            return self._ray.get(ref, timeout=self._patience)
        except self._ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, PrivquantError):
                raise error.cause from error
            raise PartitionRefused(f"a partition failed: {error.cause or error}") from error

    def _lose(self, holder: int, number: int, error: Exception) -> None:
        """Nobody of a lost holder is asked again in this run: whether they answered is not known here."""
        self.lost.append(f"holder {holder} in round {number}: {type(error).__name__}")
        for place, (mine, _) in enumerate(self._of):
            if mine == holder:
                self._left[place] = 0


def _spread(opens: Sequence[Any], holders: int | None) -> list[Any]:
    """Actors with the partitions dealt out in turn; Ray starts one that was killed again, and repeats its call."""
    ray = ray_module()
    if not opens:
        raise InvalidInput("there are no partitions: give at least one file or block")
    count = min(len(opens), holders or max(1, int(ray.cluster_resources().get("CPU", 1))))
    # No processor is held between rounds: two populations of one cluster must not wait for each other.
    actor = ray.remote(max_restarts=-1, max_task_retries=-1, num_cpus=0)(Holder)
    return [actor.remote(tuple(opens[k::count])) for k in range(count)]


def _of_block(block: Any, folder: Path, column: str, rule: Rule, missing: str) -> KeptPartition:
    """A block of a Dataset, known by its content."""
    table = ray_module().get(block)
    indices = to_indices(table.column(column), rule.domain, missing=missing).indices
    digest = hashlib.sha256(indices.tobytes()).hexdigest()
    place = folder / digest[:32]
    made = KeptPartition(indices, digest=digest, folder=place, column=column, rule=rule)
    # Held as long as this process lives: a second block of the same content would take the first one's users.
    lock = os.open(place / "held", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise PartitionRefused(
            "two blocks of this dataset have the same content, or another run holds it: a block is known by its "
            "content, so their users could not be told apart. Repartition the dataset, or wait"
        ) from None
    return made

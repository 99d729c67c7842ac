"""One cell of a sweep: one protocol with its options on one data set at one epsilon, quantile and schedule.

A cell's randomness comes from its own key and the sweep's root seed alone: adding, removing or reordering
cells changes no other cell, and `lab.trials(..., seed=cell.seed(root))` gives the same answers again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privquant.lab.data import DataSet
from privquant.lab.engine import simulate_by_asking, simulator
from privquant.lab.paper_problems import padded
from privquant.lab.sample import Sample
from privquant.lab.trials import BLOCK
from privquant.protocols.base import Protocol
from privquant.protocols.registry import check_options
from privquant.protocols.registry import protocol as make_protocol
from privquant.validation import check_choice, check_count, check_epsilon, check_quantile


@dataclass(frozen=True)
class Cell:
    """What to run. `options` are the protocol's own; `rounds` None means as the protocol suggests.

    padded: find the quantile as the median of twice as many users (the paper's padding lemma) instead of directly.
    label: what figures call it. notes: further columns of its row. Neither is part of the key.
    """

    data: DataSet
    protocol: str
    epsilon: float
    quantile: float = 0.5
    rounds: int | None = None
    options: tuple[tuple[str, Any], ...] = ()
    draw: str = "empirical"
    trials: int = 200
    padded: bool = False
    label: str = ""
    notes: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(
        cls,
        data: DataSet,
        protocol: str,
        epsilon: float,
        *,
        quantile: float = 0.5,
        rounds: int | None = None,
        options: Mapping[str, Any] | None = None,
        draw: str = "empirical",
        trials: int = 200,
        padded: bool = False,
        label: str = "",
        notes: Mapping[str, Any] | None = None,
    ) -> Cell:
        """A cell whose every setting was checked, the protocol's own options included."""
        check_options(protocol, options or {})
        cell = cls(
            data,
            protocol,
            check_epsilon(epsilon),
            check_quantile(quantile),
            None if rounds is None else check_count(rounds, "rounds", 1),
            tuple(sorted((options or {}).items())),
            check_choice(draw, "draw", ("empirical", "statistical")),
            check_count(trials, "trials", 1),
            padded,
            label or protocol,
            tuple((notes or {}).items()),
        )
        cell.template()  # an unknown protocol or option is refused before anything runs
        return cell

    @property
    def key(self) -> str:
        """Which cell this is, in one line. Trials are no part of it: more whole blocks extend a cell."""
        settings = {
            "data": self.data.key,
            "protocol": self.protocol,
            "options": dict(self.options),
            "epsilon": self.epsilon,
            "quantile": self.quantile,
            "rounds": self.rounds,
            "draw": self.draw,
            **({"padded": True} if self.padded else {}),
        }
        return json.dumps(settings, sort_keys=True, default=str)

    @property
    def run(self) -> tuple[str, int]:
        """Which run of which cell: outcomes are filed under the key and the number of trials.

        Engines draw a block's trials together, so a shorter block is no part of a longer one.
        """
        return self.key, self.trials

    def seed(self, root: int) -> int:
        """The seed of this cell's trials under a sweep's root seed; fits a signed 64-bit integer."""
        words = np.frombuffer(hashlib.sha256(self.key.encode()).digest(), "<u4").tolist()
        return int(np.random.SeedSequence(root, spawn_key=words).generate_state(1, np.uint64)[0] >> 1)

    def template(self) -> Protocol:
        """The protocol object that has asked nobody."""
        return make_protocol(
            self.protocol,
            self.data.domain,
            users=2 * self.data.n if self.padded else self.data.n,
            epsilon=self.epsilon,
            quantile=0.5 if self.padded else self.quantile,
            **dict(self.options),
        )

    def blocks(self) -> list[int]:
        """The trials in blocks, each with its own seed: the unit of work handed to a process."""
        return [min(BLOCK, self.trials - start) for start in range(0, self.trials, BLOCK)]


@dataclass(frozen=True)
class Outcome:
    """A cell's trials: each answer v as an index, with how many users are below it and at or below it.

    Every measure follows from these counts exactly. `truth` and `truth_rank` are the true quantile's index and
    how many users are at or below it.
    """

    answers: NDArray[np.int64]
    below: NDArray[np.int64]
    upto: NDArray[np.int64]
    truth: int
    truth_rank: int
    n: int

    def success(self, quantile: float, alpha: float) -> float:
        """Share of trials with F(v-1) < q + alpha and F(v) > q - alpha."""
        good = (self.below / self.n < quantile + alpha) & (self.upto / self.n > quantile - alpha)
        return float(good.mean())

    def rank_errors(self, quantile: float) -> NDArray[np.float64]:
        """Distance of q to [F(v-1), F(v)]."""
        below, upto = self.below / self.n, self.upto / self.n
        return np.asarray(np.maximum(0.0, np.maximum(below - quantile, quantile - upto)))

    def abs_errors(self) -> NDArray[np.float64]:
        """The paper's error |F(m) - F(true m)| of the coin m = v - 1."""
        return np.asarray(np.abs(self.below - self.truth_rank) / self.n)


def success_sd(rate: float, trials: int) -> float:
    """The paper's error bar: standard deviation of the success rate over that many trials."""
    return float(np.sqrt(rate * (1.0 - rate) / trials))


@lru_cache(maxsize=4)
def _sample_of(data: DataSet) -> Sample:
    return data.sample()


def run_block(cell: Cell, size: int, seed: np.random.SeedSequence) -> Outcome:
    """One block of a cell's trials. Runs in a worker process; data sets made there are kept for the next."""
    sample, template = _sample_of(cell.data), cell.template()
    asked = padded(sample, cell.quantile) if cell.padded else sample
    rng = np.random.Generator(np.random.PCG64(seed))
    if cell.rounds is None:
        found = simulator(template, cell.draw)(template, asked, size, rng, draw=cell.draw)
    else:
        found = simulate_by_asking(template, asked, size, rng, draw=cell.draw, rounds=cell.rounds)
    answers = np.ascontiguousarray(found[:, 0])
    truth = sample.quantile(cell.quantile)
    return Outcome(
        answers, sample.at_most(answers - 1), sample.at_most(answers), truth, int(sample.at_most(truth)), sample.n
    )


def joined(parts: list[Outcome]) -> Outcome:
    """The blocks of one cell, in their order, as one outcome."""
    first = parts[0]
    return Outcome(
        np.concatenate([p.answers for p in parts]),
        np.concatenate([p.below for p in parts]),
        np.concatenate([p.upto for p in parts]),
        first.truth,
        first.truth_rank,
        first.n,
    )

"""One cell of an experiment: a protocol on users of one source, on one schedule, many times.

A cell's randomness comes from its own key and the root seed alone: adding, removing or reordering cells changes no
other cell, and `lab.trials(..., seed=cell.seed(root))` gives the same answers again. Trials run in blocks of fixed
size, each with its own child of the cell's seed, so the answers are the same for any number of workers.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from typing import Protocol as Interface

import numpy as np

from privquant.arrays import Ints
from privquant.domain import Domain
from privquant.errors import InvalidInput
from privquant.lab.engine import Attack, Setting, simulate_by_asking, simulator
from privquant.lab.engine.isotonic import outcomes
from privquant.lab.experiment.outcome import Outcome, joined, measured
from privquant.lab.experiment.source import Source
from privquant.lab.sample import Draw, Sample, padded
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.protocols.base import Protocol
from privquant.protocols.isotonic.contradiction import ALARM, beyond
from privquant.protocols.registry import SHUFFLED, check_options, shuffled_protocol
from privquant.protocols.registry import protocol as make_protocol
from privquant.validation import (
    check_choice,
    check_count,
    check_epsilon,
    check_probability,
    check_quantiles,
    one_or_several,
)

# Engines draw a block's trials together, so a shorter block is no part of a longer one.
BLOCK = 50

CLAIMS = ("", "certified", "likelihood-ratio", "alarm")
# The 95 % point of chi-square with one degree of freedom: what a likelihood-ratio set would use.
LIKELIHOOD_RATIO_CUT = 3.8415


class Template(Interface):
    """How a cell makes its protocol: `Registered`, `Shuffled`, or anything else with these attributes and call.

    protocol, epsilon, quantiles: what is run. settings: all of it as JSON, for the key of a cell.
    """

    @property
    def protocol(self) -> str: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def quantiles(self) -> tuple[float, ...]: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...

    def __call__(self, domain: Domain, users: int) -> Protocol:
        """The protocol object that has asked nobody."""


def what_is_run(template: Template) -> dict[str, Any]:
    """The part of the settings that all templates have."""
    quantile = one_or_several(template.quantiles)
    return {"protocol": template.protocol, "epsilon": template.epsilon, "quantile": quantile}


@dataclass(frozen=True)
class Registered:
    """Any registered protocol in the local model, by its name and with its own options."""

    protocol: str
    epsilon: float
    quantiles: tuple[float, ...] = (0.5,)
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def settings(self) -> Mapping[str, Any]:
        return what_is_run(self) | {"options": dict(self.options)}

    def __call__(self, domain: Domain, users: int) -> Protocol:
        named = what_is_run(self)
        return make_protocol(named.pop("protocol"), domain, users=users, **named, **dict(self.options))


@dataclass(frozen=True)
class Shuffled:
    """A search in rounds shuffled to (epsilon, delta); their sizes give the coins. method: of the accounting."""

    protocol: str
    epsilon: float
    delta: float
    quantiles: tuple[float, ...] = (0.5,)
    method: str = "exact"

    def __post_init__(self) -> None:
        check_choice(self.protocol, "protocol with a shuffled form", tuple(SHUFFLED))
        check_epsilon(self.epsilon)
        check_probability(self.delta, "delta")

    @property
    def settings(self) -> Mapping[str, Any]:
        return what_is_run(self) | {"delta": self.delta, "method": self.method}

    def __call__(self, domain: Domain, users: int) -> Protocol:
        return _shuffled(self, domain, users).fresh()


# Accounting for a hundred rounds takes longer than a block of trials, and every block makes its template.
@lru_cache(maxsize=256)
def _shuffled(template: Shuffled, domain: Domain, users: int) -> Protocol:
    named = dict(template.settings)
    return shuffled_protocol(named.pop("protocol"), domain, users=users, **named)


@dataclass(frozen=True)
class Cell:
    """What to run.

    data:      where the users come from; a source that draws gives new users every `redraw` trials.
    template:  makes the protocol.
    schedule:  how many users are asked before feedback.
    users:     how many of the data's users are asked; None is all.
    padded:    find the quantile as the median of twice as many users (the paper's padding lemma), not directly.
    claim:     what is kept beside the answers: the ends of "certified" intervals, or of "likelihood-ratio" sets,
               which do not cover and are a negative control, or whether an "alarm" about liars was raised.
    attack:    liars among the users.
    label:     what figures call it. notes: further columns of its row. Neither is part of the key.
    """

    data: Source
    template: Template
    schedule: Schedule = SUGGESTED
    trials: int = 200
    draw: str = "empirical"
    users: int | None = None
    redraw: int = BLOCK
    padded: bool = False
    claim: str = ""
    attack: Attack | None = None
    label: str = ""
    notes: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        check_count(self.trials, "trials", 1)
        check_count(self.redraw, "redraw", 1)
        check_choice(self.draw, "draw", ("empirical", "statistical"))
        check_choice(self.claim, "claim", CLAIMS)
        if self.claim and self.protocol != "isotonic":
            raise InvalidInput(f"intervals and alarms are claimed by isotonic search only, got {self.protocol!r}")
        if self.attack is not None and self.draw != "empirical":
            raise InvalidInput(
                f"liars are some of the users who are asked once: draw is 'empirical', got {self.draw!r}"
            )

    @classmethod
    def of(
        cls,
        data: Source,
        protocol: str,
        epsilon: float,
        *,
        quantile: Any = 0.5,
        options: Mapping[str, Any] | None = None,
        label: str = "",
        notes: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Cell:
        """A cell of a registered protocol; an option it does not have is refused before anything runs."""
        check_options(protocol, options or {})
        given = tuple(sorted((options or {}).items()))
        made = Registered(protocol, check_epsilon(epsilon), check_quantiles(quantile), given)
        cell = cls(data, made, label=label or protocol, notes=tuple((notes or {}).items()), **settings)
        cell.schedule.check(cell.made())
        return cell

    @property
    def protocol(self) -> str:
        return self.template.protocol

    @property
    def epsilon(self) -> float:
        return self.template.epsilon

    @property
    def quantile(self) -> float:
        return self.template.quantiles[0]

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.template.settings.get("options", {}))

    @property
    def key(self) -> str:
        """Which cell this is, in one line. Trials are no part of it: more whole blocks extend a cell."""
        settings = {"data": self.data.key, **self.template.settings, "rounds": None, "draw": self.draw}
        further = {
            "schedule": str(self.schedule) if self.schedule != SUGGESTED else None,
            "users": self.users,
            "redraw": self.redraw if self.redraw != BLOCK else None,
            "padded": self.padded or None,
            "claim": self.claim or None,
            "attack": None if self.attack is None else str(self.attack),
        }
        settings |= {name: value for name, value in further.items() if value is not None}
        return json.dumps(settings, sort_keys=True, default=str)

    @property
    def run(self) -> tuple[str, int]:
        """Which run of which cell: outcomes are filed under the key and the number of trials."""
        return self.key, self.trials

    def seed(self, root: int) -> int:
        """The seed of this cell's trials under a root seed; fits a signed 64-bit integer."""
        words = np.frombuffer(hashlib.sha256(self.key.encode()).digest(), "<u4").tolist()
        return int(np.random.SeedSequence(root, spawn_key=words).generate_state(1, np.uint64)[0] >> 1)

    def made(self) -> Protocol:
        """The protocol object that has asked nobody."""
        if not self.padded:
            return self.template(self.data.domain, self.users or self.data.n)
        found = self.template
        if not isinstance(found, Registered) or len(found.quantiles) > 1 or self.users is not None:
            raise InvalidInput("padding is for one quantile of a registered protocol with all users of the data")
        return Registered(found.protocol, found.epsilon, (0.5,), found.options)(self.data.domain, 2 * self.data.n)

    def blocks(self) -> list[int]:
        """The trials in blocks, each with its own seed: the unit of work handed to a process."""
        return [min(BLOCK, self.trials - start) for start in range(0, self.trials, BLOCK)]


def run_block(cell: Cell, size: int, seed: np.random.SeedSequence) -> Outcome:
    """One block of a cell's trials. Runs in a worker process."""
    rng = np.random.Generator(np.random.PCG64(seed))
    template = cell.made()
    parts = []
    for start in range(0, size, cell.redraw):
        users = cell.data.draw(rng)
        count = min(cell.redraw, size - start)
        started = time.process_time()
        seen = _trials(cell, template, users, count, rng)
        parts.append(measured(users, cell.template.quantiles, *seen, time.process_time() - started))
    return joined(parts)


def _trials(
    cell: Cell, template: Protocol, users: Draw, count: int, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints]:
    """The answers, the ends of what is claimed beside them, and which runs raised an alarm or left a part out."""
    sample: Sample = padded(users.sample, cell.quantile) if cell.padded else users.sample
    none, quiet = np.empty((count, 0, 2), np.int64), np.empty((count, 0), np.int64)
    setting = Setting(cell.draw, cell.schedule, cell.attack)
    if not cell.claim and cell.attack is None:
        return simulator(template, cell.schedule)(template, sample, count, rng, setting), none, quiet
    if cell.protocol != "isotonic":
        return simulate_by_asking(template, sample, count, rng, setting), none, quiet
    cut = LIKELIHOOD_RATIO_CUT if cell.claim == "likelihood-ratio" else None
    seen = outcomes(template, sample, count, rng, setting, likelihood_ratio=cut)
    if cell.claim == "alarm":
        raised = seen.evidence > beyond(ALARM, template.users, len(template.quantiles))
        return seen.answers, none, np.stack([raised, seen.dropped > 0.0], axis=1).astype(np.int64)
    return seen.answers, seen.ends, quiet

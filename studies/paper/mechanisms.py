"""The mechanisms the figures compare.

`PAPER` are the paper's three in the behaviour of the authors' program, which is what the recorded runs show, and
`OWN` is the search that stands beside them;
`every_protocol()` are all registered ones as the package runs them, so a new protocol is in the figures by being
registered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from privquant.lab.data import DataSet
from privquant.lab.experiment.cell import Cell
from privquant.protocols.registry import protocol_names
from studies.published import BEHAVIOURS
from studies.style import Look, look, title


@dataclass(frozen=True)
class Mechanism:
    """A mechanism as a figure shows it."""

    label: str
    protocol: str
    look: Look
    options: dict[str, Any] = field(default_factory=dict)

    def cell(self, data: DataSet, epsilon: float, **more: Any) -> Cell:
        options = self.options | more.pop("options", {})
        return Cell.of(data, self.protocol, epsilon, label=self.label, options=options, **more)


PAPER = tuple(Mechanism(label, name, look(name), as_run) for label, (name, as_run, _) in BEHAVIOURS.items())
BAYESS, NAIVE, TREE = PAPER
OWN = Mechanism(title("isotonic"), "isotonic", look("isotonic"))


def every_protocol() -> tuple[Mechanism, ...]:
    """All registered protocols with their own defaults."""
    return tuple(Mechanism(title(name), name, look(name, place)) for place, name in enumerate(protocol_names()))


def look_of(label: str, mechanisms: Sequence[Mechanism]) -> Look:
    return next(mechanism.look for mechanism in mechanisms if mechanism.label == label)

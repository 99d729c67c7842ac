"""Any quantile directly against the paper's padding: success against q, and against epsilon at q = 0.9.

Padding adds n virtual users at the ends of the domain and asks for the median of all 2n; searching for the target
report rate of q needs no virtual users and does not double the error.
"""

from __future__ import annotations

from dataclasses import replace

from privquant.lab.data import dataset
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.protocols.registry import protocol_class
from studies import style
from studies.paper.draw import error_bars
from studies.paper.figure import Drawing, Effort, Figure
from studies.paper.mechanisms import Mechanism, every_protocol

QUANTILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
EPSILON = 0.879
HIGH = 0.9
PADDED = ", padded"


def _mechanisms() -> tuple[Mechanism, ...]:
    both = []
    for mechanism in every_protocol():
        if not protocol_class(mechanism.protocol).adaptive:
            continue  # a tree has the whole distribution anyway
        dashed = replace(mechanism.look, dash=(0, (3, 1.5)), width=1.1)
        both += [mechanism, replace(mechanism, label=mechanism.label + PADDED, look=dashed)]
    return tuple(both)


def _cells(effort: Effort) -> list[Cell]:
    data = dataset("pareto", n=2500, size=4**9)
    made = []
    for mechanism in _mechanisms():
        padded = mechanism.label.endswith(PADDED)
        asked = [("quantile", EPSILON, q) for q in effort.thin(QUANTILES)]
        asked += [("epsilon", epsilon, HIGH) for epsilon in effort.epsilons]
        made += [
            mechanism.cell(data, e, quantile=q, trials=effort.trials, padded=padded, notes={"panel": panel})
            for panel, e, q in asked
        ]
    return made


def _draw(found: Results) -> Drawing:
    figure, (left, right) = style.panels(2, height=1.1)
    mechanisms = _mechanisms()
    error_bars(left, found.where(lambda c: ("panel", "quantile") in c.notes), mechanisms, lambda c: c.quantile)
    left.set_xlabel("quantile q")
    style.success_axis(left)
    left.set_title(f"Pareto data, n = 2500, B = 4$^9$, ε = {EPSILON:g}")
    error_bars(right, found.where(lambda c: ("panel", "epsilon") in c.notes), mechanisms, lambda c: c.epsilon)
    style.epsilon_axis(right)
    style.success_axis(right)
    right.set_title(f"q = {HIGH:g}")
    style.legend_below(figure, left, columns=4)
    return Drawing(figure, found.rows)


FIGURES = (
    Figure(
        "padding",
        "Any quantile directly against the padding reduction: Pareto data, n = 2500, B = 4^9",
        _cells,
        _draw,
    ),
)

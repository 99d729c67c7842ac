"""How far liars who choose their moment move the answer: isotonic search without and with its guard, and others.

Every figure is the 95 % point of the rank error, the worst of three shapes: what is left of the liars and the
chance of the answer together. The bound is that for liars spread at random over the run.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.outcome import Outcome
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.source import Drawn
from privquant.privacy.poisoning import shift
from studies.attack import Attack
from studies.table import Runs, markdown, name

EPSILON = 1.0
SIZE = 10**6
SHAPES = ("pareto", "normal", "uniform")
USERS = (2_000, 5_000, 50_000)
THREE = (0.25, 0.5, 0.75)


class Row(NamedTuple):
    label: str
    attack: Attack
    quantiles: tuple[float, ...] = (0.5,)


ROWS = (
    Row("nobody lies", Attack(0.0)),
    Row("last 5 %", Attack(0.05, "last")),
    Row("5 % in the middle", Attack(0.05, "middle")),
    Row("first 5 %", Attack(0.05, "first")),
    Row("nobody lies", Attack(0.0), (0.9,)),
    Row("first 2 %", Attack(0.02, "first"), (0.9,)),
    Row("first 5 %", Attack(0.05, "first"), (0.9,)),
    Row("last 5 %, fake value of rank .99", Attack(0.05, "last", rank=0.99)),
    Row("5 % in the middle, fake value of rank .6", Attack(0.05, "middle", rank=0.6)),
    Row("first 5 %, heard after all others", Attack(0.05, "first", withheld=True)),
    Row("5 % in the middle, heard after all others", Attack(0.05, "middle", withheld=True)),
    Row("5 % in the middle, three quantiles", Attack(0.05, "middle"), THREE),
    Row("last 5 %, three quantiles", Attack(0.05, "last"), THREE),
    Row("a quarter of the last fifth", Attack(0.05, "thin")),
    Row("5 % at random", Attack(0.05, "spread")),
)
OTHERS = ("naive", "bayess", "bayeslearn", "hierarchical")
OTHER_USERS = 5_000
OTHER_SIZE = 4**6
OTHER_ROWS = (ROWS[0], ROWS[1], ROWS[2], ROWS[3], ROWS[-1])


def _name(row: Row, users: int, shape: str, who: str) -> str:
    return name("liars", row.label, row.quantiles, users, shape, who)


def _cell(row: Row, data: Drawn, protocol: str, who: str, **settings: Any) -> Cell:
    notes = {"cell": _name(row, data.n, data.name, who)}
    return Cell.of(data, protocol, EPSILON, attack=row.attack, redraw=1, notes=notes, **settings)


def cells(runs: Runs) -> list[Cell]:
    own = [
        _cell(
            row,
            Drawn(shape, users, SIZE),
            "isotonic",
            str(guard),
            quantile=row.quantiles,
            options={"guard": guard},
            claim="alarm",
            trials=max(runs.trials // 20, 1),
        )
        for row in ROWS
        for users in USERS
        for shape in SHAPES
        for guard in (False, True)
    ]
    others = [
        _cell(row, Drawn(shape, OTHER_USERS, OTHER_SIZE), other, other, trials=max(runs.trials // 200, 1))
        for row in OTHER_ROWS
        for shape in SHAPES
        for other in OTHERS
    ]
    return own + others


def moved(found: Outcome) -> float:
    """The 95 % point of the rank error, of the quantile for which it is largest."""
    return max(float(np.quantile(found.rank_errors(k), 0.95)) for k in range(len(found.quantiles)))


def bound(row: Row) -> float:
    """What as many liars could do, spread at random."""
    return max(max(map(abs, shift(row.attack.share, epsilon=EPSILON, quantile=q))) for q in row.quantiles)


def report(results: Results) -> str:
    found = results.by_note("cell")
    rows = []
    for row in ROWS:
        line: list[object] = [row.label, "/".join(f"{q:g}" for q in row.quantiles), f"{bound(row):.3f}"]
        for users in USERS:
            both = [[found[_name(row, users, shape, str(guard))] for shape in SHAPES] for guard in (False, True)]
            before, after = (max(moved(outcome) for outcome in outcomes) for outcomes in both)
            raised = np.mean([outcome.alarms[:, 0].mean() for outcome in both[1]])
            line.append(f"{before:.3f} -> {after:.3f}, {raised:.2f}")
        rows.append(line)
    head = ("liars", "q", "bound if spread", *(f"{users:,} users" for users in USERS))
    own = (
        f"95 % point of the rank error at epsilon {EPSILON:g}, worst of {', '.join(SHAPES)}: without the guard -> "
        "with it, and the share of guarded runs that raise an alarm\n\n" + markdown(head, rows)
    )
    lines = [
        [
            row.label,
            *(
                f"{max(moved(found[_name(row, OTHER_USERS, shape, other)]) for shape in SHAPES):.3f}"
                for other in OTHERS
            ),
        ]
        for row in OTHER_ROWS
    ]
    kappa = math.tanh(EPSILON / 2.0)
    return (
        f"{own}\nOther protocols, the median, {OTHER_USERS:,} users, {OTHER_SIZE:,} values (kappa {kappa:.2f})\n\n"
        + markdown(("liars", *OTHERS), lines)
    )

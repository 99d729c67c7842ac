"""Accuracy against the number of rounds, equal and growing ones, and against users in flight."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.source import Drawn
from privquant.lab.schedule import SUGGESTED, Schedule
from studies import style
from studies.search.success import ALPHA, USERS
from studies.table import Runs, markdown, name, size_text

# shape, size, epsilon
COLUMNS = (
    ("pareto", 4**9, 0.569),
    ("pareto", 4**9, 0.879),
    ("tiny", 2**32, 0.879),
    ("uniform", 10**6, 0.879),
    ("ties", 10**6, 1.357),
)
SPREAD = 0.25


class Row(NamedTuple):
    """number: of rounds, or of users in flight; 0 where there is none."""

    kind: str
    number: int
    spread: float
    schedule: Schedule


def _growing(kind: str, share: float) -> Row:
    schedule = Schedule.growing(share)
    return Row(kind, len(schedule.sizes(USERS) or ()), SPREAD, schedule)


SEQUENTIAL = Row("sequential", 0, 0.0, SUGGESTED)
EQUAL = tuple(Row("equal rounds", r, s, Schedule.equal(r)) for r in (8, 16, 32, 64, 128) for s in (0.0, SPREAD))
BEST = tuple(Row("growing rounds", r, SPREAD, Schedule.rounds(r)) for r in (8, 16, 32, 64, 128))
SHARES = (_growing("a fifth of those heard", 0.2), _growing("a tenth of those heard", 0.1))
IN_FLIGHT = tuple(Row("in flight", k, s, Schedule.in_flight(k)) for k in (10, 100, 250, 500) for s in (0.0, SPREAD))
ROWS = (SEQUENTIAL, *EQUAL, *BEST, *SHARES, *IN_FLIGHT)

# Two schedules are compared to a hundredth in this column, so their runs are not cut down as those of others are.
CLOSELY = ("pareto", 0.879)

_TICKS = (10, 20, 50, 100, 200, 500)
_LINES = (
    ("equal rounds, one threshold each", EQUAL, 0.0, style.Look("#0072B2", "s", "--")),
    ("equal rounds, spread", EQUAL, SPREAD, style.Look("#0072B2", "o")),
    ("growing rounds, spread", BEST, SPREAD, style.Look("#009E73", "^")),
    ("a fifth, a tenth of those heard, spread", SHARES, SPREAD, style.Look("#009E73", "*", "none")),
    ("in flight", IN_FLIGHT, 0.0, style.Look("#D55E00", "s", "--")),
    ("in flight, spread", IN_FLIGHT, SPREAD, style.Look("#D55E00", "o")),
)


def cell_name(row: Row, shape: str, epsilon: float) -> str:
    return name("rounds", row.kind, row.number, row.spread, shape, epsilon)


def _trials(row: Row, shape: str, epsilon: float, trials: int) -> int:
    """Users in flight are decided on one by one, and spread asks many thresholds: fewer runs of them."""
    if (shape, epsilon) == CLOSELY and (row is SEQUENTIAL or (row.number, row.spread) == (32, SPREAD)):
        return trials
    return max(trials // (20 if row in IN_FLIGHT else 4), 1)


def cells(runs: Runs) -> list[Cell]:
    return [
        Cell.of(
            Drawn(shape, USERS, size),
            "isotonic",
            epsilon,
            options={"spread": row.spread} if row.spread else {},
            schedule=row.schedule,
            trials=_trials(row, shape, epsilon, runs.trials),
            redraw=runs.redraw,
            notes={"cell": cell_name(row, shape, epsilon)},
        )
        for row in ROWS
        for shape, size, epsilon in COLUMNS
    ]


def report(results: Results) -> str:
    found = results.by_note("cell")
    rows = []
    for row in ROWS:
        rates = [found[cell_name(row, shape, epsilon)].success(ALPHA) for shape, _, epsilon in COLUMNS]
        rows.append([row.kind, row.number or "-", row.spread or "-", *(f"{rate:.3f}" for rate in rates)])
    head = ("schedule", "number", "spread", *(f"{shape} {epsilon}" for shape, _, epsilon in COLUMNS))
    return f"Success against rounds and users in flight, n = {USERS}\n\n" + markdown(head, rows)


def draw(results: Results, path: Path) -> None:
    """A panel a data set, with bars of one standard error."""
    found = results.by_note("cell")
    with style.styled():
        figure, panels = style.panels(3, 2)
        panels[-1].set_axis_off()
        for panel, (shape, size, epsilon) in zip(panels, COLUMNS, strict=False):
            for label, rows, spread, look in _LINES:
                shown = [row for row in rows if row.spread == spread]
                rates = [found[cell_name(row, shape, epsilon)].success_rate(ALPHA) for row in shown]
                values, errors = zip(*rates, strict=True)
                style.bars(panel, [row.number for row in shown], values, errors, **look.line(label=label))
            sequential = found[cell_name(SEQUENTIAL, shape, epsilon)].success(ALPHA)
            panel.axhline(sequential, label="growing batches", **style.LIMIT.bare())
            panel.set_xscale("log")
            panel.set_xticks(_TICKS, [str(tick) for tick in _TICKS])
            panel.minorticks_off()
            panel.set_xlabel("rounds, or users in flight")
            style.success_axis(panel, alpha=ALPHA)
            size_shown = size_text(size).replace("^", "$^{") + "}$"
            panel.set_title(f"{shape}, n = {USERS}, B = {size_shown}, ε = {epsilon}")
        style.legend_below(figure, panels[0], columns=4)
        figure.savefig(path, dpi=160, metadata={"Software": "privquant"} if path.suffix == ".png" else None)

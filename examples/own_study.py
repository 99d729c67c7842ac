"""A study of your own: say which cells to run and what to say about them; seeds, processes and resuming are there.

This one asks how much of isotonic search's accuracy is left when its users are asked in few rounds, on two shapes
of data drawn anew every five trials, and draws the answer.

    python examples/own_study.py [figure.png]
"""

import sys

from matplotlib.figure import Figure

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.runner import run_cells
from privquant.lab.experiment.source import Drawn
from privquant.lab.schedule import Schedule

SHAPES = {"salary": 10**6, "lognormal": 2**32}
ROUNDS = (4, 8, 16, 32)
KINDS = {"equal": Schedule.equal, "growing": Schedule.rounds}
ALPHA = 0.05


def cells(trials: int = 100) -> list[Cell]:
    return [
        Cell.of(
            Drawn(shape, 1000, size),
            "isotonic",
            1.0,
            options={"spread": 0.25},
            schedule=schedule(rounds),
            trials=trials,
            redraw=5,
            notes={"cell": (shape, kind, rounds)},
        )
        for shape, size in SHAPES.items()
        for kind, schedule in KINDS.items()
        for rounds in ROUNDS
    ]


def report(results: Results, path: str) -> None:
    found = results.by_note("cell")
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for axes, shape in zip(figure.subplots(1, len(SHAPES), sharey=True), SHAPES, strict=True):
        for kind in KINDS:
            rates = [found[shape, kind, rounds].success_rate(ALPHA) for rounds in ROUNDS]
            print(f"{shape:10} {kind:8}", *(f"{rate.value:.2f}" for rate in rates))
            axes.errorbar(ROUNDS, [r.value for r in rates], [r.error for r in rates], marker="o", label=kind)
        axes.set(title=shape, xlabel="rounds", xscale="log")
        axes.legend(title="rounds are")
    figure.axes[0].set_ylabel(f"success within {ALPHA}")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    report(run_cells(cells(), seed=1), sys.argv[1] if len(sys.argv) > 1 else "own_study.png")

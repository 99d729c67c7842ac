"""A study of your own: say which cells to run and what to say about them; seeds, processes and resuming are there.

This one asks how many people a survey needs, for two shapes of data drawn anew every five trials, and how much of
the answer is left if all of them are asked in eight rounds.

    python examples/own_study.py [figure.png]
"""

import sys

from matplotlib.figure import Figure

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.runner import run_cells
from privquant.lab.experiment.source import Drawn
from privquant.lab.schedule import SUGGESTED, Schedule

SHAPES = {"salary": 10**6, "heavy": 2**32}
USERS = (250, 500, 1000, 2000)
WAYS = {
    "naive": ("naive", SUGGESTED, {}),
    "isotonic": ("isotonic", SUGGESTED, {}),
    "isotonic, 8 rounds": ("isotonic", Schedule.rounds(8), {"spread": 0.25}),
}
ALPHA = 0.05


def cells(trials: int = 100) -> list[Cell]:
    return [
        Cell.of(Drawn(shape, n, size), protocol, 1.0, options=options, schedule=schedule, trials=trials, redraw=5,
                notes={"cell": (shape, way, n)})
        for shape, size in SHAPES.items()
        for way, (protocol, schedule, options) in WAYS.items()
        for n in USERS
    ]  # fmt: skip


def report(results: Results, path: str) -> None:
    found = results.by_note("cell")
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    for axes, shape in zip(figure.subplots(1, len(SHAPES), sharey=True), SHAPES, strict=True):
        for way in WAYS:
            rates = [found[shape, way, n].success_rate(ALPHA) for n in USERS]
            print(f"{shape:8} {way:20}", *(f"{rate.value:.2f}" for rate in rates))
            axes.errorbar(
                range(len(USERS)), [r.value for r in rates], [r.error for r in rates], marker="o", label=way
            )
        axes.set_xticks(range(len(USERS)), USERS)
        axes.set(title=shape, xlabel="people asked, epsilon 1")
    axes.legend()
    figure.axes[0].set_ylabel(f"success within {ALPHA}")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    report(run_cells(cells(), seed=1), sys.argv[1] if len(sys.argv) > 1 else "own_study.png")

"""Mean rank error in the shuffle model: isotonic search against naive search, by the lemma and exactly."""

from __future__ import annotations

from privquant.lab.experiment.cell import Cell, Shuffled
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.source import Drawn
from studies.table import Runs, markdown, name, ratio_text

USERS = 100_000
SIZE = 4**9
EPSILON = 1.0
DELTA = 1e-8
SHAPES = ("pareto", "uniform", "lognormal", "tiny", "ties")
RIVALS = (("naive", "lemma"), ("naive", "exact"), ("isotonic", "exact"))


def cells(runs: Runs) -> list[Cell]:
    return [
        Cell(
            Drawn(shape, USERS, SIZE),
            Shuffled(protocol, EPSILON, DELTA, method=method),
            notes=(("cell", name("shuffle", shape, protocol, method)),),
            **runs._asdict(),
        )
        for shape in SHAPES
        for protocol, method in RIVALS
    ]


def errors(results: Results) -> dict[str, tuple[float, ...]]:
    """By shape, mean rank errors in the order of `RIVALS`."""
    found = results.by_note("cell")
    return {
        shape: tuple(float(found[name("shuffle", shape, *rival)].rank_errors().mean()) for rival in RIVALS)
        for shape in SHAPES
    }


def report(results: Results) -> str:
    rows = [
        [
            shape,
            *(f"{e:.2e}" for e in (lemma, exact, ours)),
            *(ratio_text(theirs, ours) for theirs in (exact, lemma)),
        ]
        for shape, (lemma, exact, ours) in errors(results).items()
    ]
    head = ("data", "naive, lemma", "naive, exact", "isotonic", "exact : ours", "lemma : ours")
    return "Mean rank error, shuffled, n = 10^5, epsilon 1, delta 1e-8, 4^9 values\n\n" + markdown(head, rows)

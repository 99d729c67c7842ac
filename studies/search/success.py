"""Success of isotonic search against DpBayeSS, naive search and the limit, on every shape the docs show."""

from __future__ import annotations

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.source import Drawn
from studies.limits import success_limit
from studies.table import Runs, markdown, name, size_text

USERS = 2500
ALPHA = 0.04
RIVALS = ("naive", "bayess", "isotonic")

# shape, size, quantile, epsilon
ROWS = (
    ("pareto", 4**9, 0.5, 0.569),
    ("pareto", 4**9, 0.5, 0.879),
    ("pareto", 4**9, 0.5, 1.357),
    ("pareto", 2**32, 0.5, 0.879),
    ("uniform", 10**6, 0.5, 0.879),
    ("lognormal", 2**62, 0.5, 0.879),
    ("tiny", 2**32, 0.5, 0.879),
    ("ties", 10**6, 0.5, 1.357),
    ("pareto", 4**9, 0.9, 0.879),
    ("tiny", 2**32, 0.9, 1.357),
    ("heavy", 2**62, 0.5, 0.879),
    ("flat", 2**32, 0.5, 0.879),
    ("gap", 10**6, 0.5, 0.879),
    ("gap48", 10**6, 0.5, 0.879),
    ("hard", 10**6, 0.5, 1.357),
    ("atom", 2**32, 0.5, 0.879),
    ("atom", 2**32, 0.5, 1.357),
    ("const", 2**32, 0.5, 0.879),
    ("kink", 10**6, 0.5, 0.879),
)


def cells(runs: Runs) -> list[Cell]:
    return [
        Cell.of(
            Drawn(shape, USERS, size),
            rival,
            epsilon,
            quantile=q,
            notes={"cell": name("search", shape, size, q, epsilon, rival)},
            **runs._asdict(),
        )
        for shape, size, q, epsilon in ROWS
        for rival in RIVALS
    ]


def report(results: Results) -> str:
    found = results.by_note("cell")
    rows = []
    for shape, size, q, epsilon in ROWS:
        outcomes = [found[name("search", shape, size, q, epsilon, rival)] for rival in RIVALS]
        rates = [f"{outcome.success(ALPHA):.3f}" for outcome in outcomes]
        limit = success_limit(epsilon, q, USERS, ALPHA)
        rows.append([f"{shape} {size_text(size)}", q, epsilon, *rates, f"{limit:.3f}"])
    head = ("data", "q", "epsilon", "naive", "DpBayeSS", "isotonic", "limit")
    return f"Success within {ALPHA} of the quantile's rank, n = {USERS}\n\n" + markdown(head, rows)

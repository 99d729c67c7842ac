"""What the curve through the rates adds to the posterior's median, on shapes and quantiles of all kinds."""

from __future__ import annotations

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.source import Drawn
from studies.search.success import USERS
from studies.table import Runs, markdown, name, ratio_text, size_text

_MIDDLE = (
    ("normal", 10**6),
    ("gamma", 2**32),
    ("bimodal", 10**6),
    ("salary", 10**6),
    ("zeros", 10**6),
    ("heavy", 2**62),
    ("flat", 2**32),
    ("tiny", 2**32),
    ("ties", 10**6),
    ("gap48", 10**6),
    ("kink", 10**6),
)
_ENDS = (
    ("normal", 10**6),
    ("gamma", 2**32),
    ("bimodal", 10**6),
    ("salary", 10**6),
    ("lognormal", 2**62),
    ("uniform", 10**6),
    ("tiny", 2**32),
)

# shape, size, quantile, epsilon, alpha
ROWS = (
    *((shape, size, q, 0.879, 0.04) for q in (0.5, 0.9) for shape, size in _MIDDLE),
    *((shape, size, q, 3.0, 0.008) for q in (0.99, 0.01) for shape, size in _ENDS),
)


def cells(runs: Runs) -> list[Cell]:
    return [
        Cell.of(
            Drawn(shape, USERS, size),
            "isotonic",
            epsilon,
            quantile=q,
            options={} if smooth else {"smooth": False},
            notes={"cell": name("curve", shape, size, q, epsilon, smooth)},
            **runs._asdict(),
        )
        for shape, size, q, epsilon, _ in ROWS
        for smooth in (False, True)
    ]


def report(results: Results) -> str:
    found = results.by_note("cell")
    rows = []
    for shape, size, q, epsilon, alpha in ROWS:
        both = [found[name("curve", shape, size, q, epsilon, smooth)] for smooth in (False, True)]
        errors = [float(outcome.rank_errors().mean()) for outcome in both]
        rates = [f"{outcome.success(alpha):.3f}" for outcome in both]
        shown = [f"{error:.4f}" for error in errors]
        rows.append([f"{shape} {size_text(size)}", q, epsilon, alpha, *rates, *shown, ratio_text(*errors)])
    measures = ("success: median", "with curve", "rank error: median", "with curve", "ratio")
    head = ("data", "q", "epsilon", "within", *measures)
    return f"The answer with and without a curve through the rates, n = {USERS}\n\n" + markdown(head, rows)

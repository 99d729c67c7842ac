"""Several quantiles in one run against separate runs with the users divided, on the same population."""

from __future__ import annotations

from collections.abc import Iterator

from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.lab.experiment.source import Drawn
from studies.table import Runs, markdown, name, ratio_text, size_text

USERS = 9000
EPSILON = 0.879
SHAPES = (("pareto", 4**9), ("tiny", 2**32), ("lognormal", 2**62))
QUANTILES = ((0.25, 0.5, 0.75), (0.5, 0.9, 0.99), tuple(k / 10 for k in range(1, 10)))


def cells(runs: Runs) -> list[Cell]:
    return [
        Cell.of(
            Drawn(shape, USERS, size),
            "isotonic",
            EPSILON,
            quantile=asked,
            users=users,
            notes={"cell": name("several", shape, users, asked)},
            **runs._asdict(),
        )
        for shape, size in SHAPES
        for quantiles in QUANTILES
        for asked, users in ((quantiles, USERS), *((q, USERS // len(quantiles)) for q in quantiles))
    ]


def errors(results: Results) -> Iterator[tuple[str, int, tuple[float, ...], float, float]]:
    """Shape, size, quantiles, and the mean rank error over them in one run and in separate ones."""
    found = results.by_note("cell")
    for shape, size in SHAPES:
        for quantiles in QUANTILES:
            count = len(quantiles)
            one = found[name("several", shape, USERS, quantiles)]
            alone = [found[name("several", shape, USERS // count, q)] for q in quantiles]
            together = sum(float(one.rank_errors(k).mean()) for k in range(count)) / count
            yield shape, size, quantiles, together, sum(float(o.rank_errors().mean()) for o in alone) / count


def report(results: Results) -> str:
    rows = [
        [
            f"{shape} {size_text(size)}",
            ", ".join(f"{q:g}" for q in quantiles),
            f"{together:.4f}",
            f"{alone:.4f}",
            ratio_text(alone, together),
        ]
        for shape, size, quantiles, together, alone in errors(results)
    ]
    head = ("data", "quantiles", "one run", "separate runs", "ratio")
    return f"Mean rank error over the quantiles, n = {USERS}, epsilon {EPSILON}\n\n" + markdown(head, rows)

"""What compiling every kernel of the engines costs, in seconds of processor: a new process, no cache.

    python benchmarks/compiling.py
    python benchmarks/compiling.py --before CHECKOUT     beside the code of another checkout, turn by turn

Each engine runs once in every way it can (batches, rounds, users in flight, shuffled rounds, intervals, several
quantiles, both ways to draw), and then again: the difference is compiling.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib import import_module
from typing import Any

from measure import processor_seconds

FRESH = "PRIVQUANT_COMPILING"
TURNS = 2


def everything() -> None:
    """One trial of every engine in every way."""
    import numpy as np

    from privquant.domain import Integers
    from privquant.lab.sample import Sample
    from privquant.protocols.registry import protocol

    domain = Integers(0, 4**9 - 1)
    sample = Sample(np.random.default_rng(1).integers(0, domain.size, 400), domain.size)
    plan = {"users": sample.n, "epsilon": 1.0}
    spread = protocol("isotonic", domain, spread=0.25, **plan)
    ways: list[tuple[Any, dict[str, int]]] = [
        (protocol("isotonic", domain, **plan), {}),
        (protocol("isotonic", domain, quantile=[0.1, 0.5, 0.99], **plan), {}),
        (protocol("isotonic", domain, interval=0.9, **plan), {}),
        (spread, {"rounds": 8}),
        (spread, {"in_flight": 20}),
        (_shuffled()(domain, delta=1e-6, quantile=0.9, **plan), {}),
        *((protocol(name, domain, **plan), {}) for name in ("bayeslearn", "bayess", "naive")),
        (protocol("hierarchical", domain, **plan), {}),
        (protocol("hierarchical", domain, encoding="oue", answer="argmin", **plan), {}),
    ]
    for draw in ("empirical", "statistical"):
        for template, pace in ways:
            _simulate(template, sample, np.random.default_rng(7), draw, pace)


def _shuffled() -> Any:
    """Isotonic search in shuffled rounds, where this version has it or where an older one does."""
    try:
        return import_module("privquant.protocols.isotonic.shuffled").shuffled_isotonic
    except ModuleNotFoundError:
        return import_module("privquant.protocols.isotonic_shuffle").shuffled_isotonic


def _simulate(template: Any, sample: Any, rng: Any, draw: str, pace: dict[str, int]) -> None:
    """One trial; versions before schedules take the pace of isotonic search by itself."""
    engine = import_module("privquant.lab.engine")
    try:
        schedules = import_module("privquant.lab.schedule")
    except ModuleNotFoundError:
        if pace:
            import_module("privquant.lab.engine.isotonic").outcomes(template, sample, 1, rng, draw=draw, **pace)
        else:
            engine.simulator(template, draw)(template, sample, 1, rng, draw=draw)
        return
    schedule = schedules.SUGGESTED
    for name, number in pace.items():
        schedule = getattr(schedules.Schedule, name)(number)
    engine.simulator(template, draw, schedule)(template, sample, 1, rng, draw=draw, schedule=schedule)


def fresh(source: str | None) -> float:
    """Seconds of processor in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, FRESH: "1", "NUMBA_CACHE_DIR": cache}
        if source is not None:
            environment["PYTHONPATH"] = os.path.join(source, "src")
        command = [sys.executable, __file__]
        return float(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def main() -> None:
    if FRESH in os.environ:
        first = processor_seconds(everything)
        print(first - processor_seconds(everything))
        return
    if sys.argv[1:2] != ["--before"]:
        print(f"compiling every kernel: {fresh(None):.1f} s of processor")
        return
    pairs = [(fresh(sys.argv[2]), fresh(None)) for _ in range(TURNS)]
    before, now = (min(turns) for turns in zip(*pairs, strict=True))
    print(
        f"compiling every kernel: {now:.1f} s of processor; before {before:.1f}, {before / now:.2f} times as much"
    )


if __name__ == "__main__":
    main()

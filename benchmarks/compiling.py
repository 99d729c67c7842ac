"""What compiling every kernel of the engines costs, in seconds of processor: a new process, no cache.

    python benchmarks/compiling.py

Each engine runs once in every way it can (batches, rounds, users in flight, shuffled rounds, intervals, several
quantiles, both ways to draw), and then again: the difference is compiling.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from measure import processor_seconds

FRESH = "PRIVQUANT_COMPILING"


def everything() -> None:
    """One trial of every engine in every way."""
    import numpy as np

    from privquant.domain import Integers
    from privquant.lab.engine import simulator
    from privquant.lab.sample import Sample
    from privquant.lab.schedule import SUGGESTED, Schedule
    from privquant.protocols.isotonic.shuffled import shuffled_isotonic
    from privquant.protocols.registry import protocol

    domain = Integers(0, 4**9 - 1)
    sample = Sample(np.random.default_rng(1).integers(0, domain.size, 400), domain.size)
    plan = {"users": sample.n, "epsilon": 1.0}
    spread = protocol("isotonic", domain, spread=0.25, **plan)
    ways = [
        (protocol("isotonic", domain, **plan), SUGGESTED),
        (protocol("isotonic", domain, quantile=[0.1, 0.5, 0.99], **plan), SUGGESTED),
        (protocol("isotonic", domain, interval=0.9, **plan), SUGGESTED),
        (spread, Schedule.rounds(8)),
        (spread, Schedule.in_flight(20)),
        (shuffled_isotonic(domain, delta=1e-6, quantile=0.9, **plan), SUGGESTED),
        *((protocol(name, domain, **plan), SUGGESTED) for name in ("bayeslearn", "bayess", "naive")),
        (protocol("hierarchical", domain, **plan), SUGGESTED),
        (protocol("hierarchical", domain, encoding="oue", answer="argmin", **plan), SUGGESTED),
    ]
    for draw in ("empirical", "statistical"):
        for template, schedule in ways:
            simulate = simulator(template, draw, schedule)
            simulate(template, sample, 1, np.random.default_rng(7), draw=draw, schedule=schedule)


def main() -> None:
    if FRESH not in os.environ:
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, FRESH: "1", "NUMBA_CACHE_DIR": cache}
            sys.exit(subprocess.run([sys.executable, __file__], env=environment, check=False).returncode)
    first = processor_seconds(everything)
    print(f"compiling every kernel: {first - processor_seconds(everything):.1f} s of processor")


if __name__ == "__main__":
    main()

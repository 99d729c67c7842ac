"""Simulated populations, the fast engine, sweeps, metrics and the paper's figures.

`lab.trials(...)`, `lab.sweep(...)` and `lab.run(...)` are the calls; each lives in the module of its name. They are
imported here at once, so that the name stays the call whichever of those modules is imported later.
"""

from __future__ import annotations

from privquant.lab.run import run as run
from privquant.lab.sweep import sweep as sweep
from privquant.lab.trials import trials as trials

__all__ = ["run", "sweep", "trials"]

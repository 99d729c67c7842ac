"""Simulated populations, the fast engine, sweeps, metrics and the paper's figures.

`lab.run`, `lab.trials` and `lab.sweep` are the functions, not the modules of the same names: they are bound here,
after their modules have been loaded, and so stay bound.
"""

from __future__ import annotations

from privquant.lab.run import run as run
from privquant.lab.sweep import sweep as sweep
from privquant.lab.trials import trials as trials

__all__ = ["run", "sweep", "trials"]

"""Simulated populations, the fast engine, sweeps, metrics and the paper's figures.

`lab.run` and `lab.trials` are the functions, not the modules of the same names: they are bound here, after their
modules have been loaded, and so stay bound.
"""

from privquant.lab.run import run as run
from privquant.lab.trials import sweep as sweep
from privquant.lab.trials import trials as trials

__all__ = ["run", "sweep", "trials"]

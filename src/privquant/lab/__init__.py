"""Simulated populations, the fast engine, sweeps, metrics and the paper's figures."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privquant.lab.run import run as run
    from privquant.lab.trials import trials as trials

_WHERE = {"trials": "privquant.lab.trials", "run": "privquant.lab.run", "sweep": "privquant.lab.sweep"}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    # Functions, not submodules: `lab.trials(...)` is the call, `privquant.lab.trials` the module it lives in.
    if name in _WHERE:
        found = getattr(import_module(_WHERE[name]), name)
        globals()[name] = found
        return found
    raise AttributeError(f"module 'privquant.lab' has no attribute {name!r}")

"""privquant: quantiles of data that never leaves its owner.

Everything here is loaded on first use: importing the package alone needs no numpy, so that
`privquant.device` can run where numpy cannot.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

try:
    __version__ = version("privquant")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

_WHERE = {
    "median": "privquant.quantiles",
    "quantile": "privquant.quantiles",
    "run": "privquant.lab.run",
    "plan": "privquant.planning.plan",
    "Integers": "privquant.domain",
    "Grid": "privquant.domain",
    "LogGrid": "privquant.domain",
    "Query": "privquant.messages",
    "Report": "privquant.messages",
    "Estimate": "privquant.messages",
    "Guarantee": "privquant.messages",
    "PrivquantError": "privquant.errors",
    "protocol": "privquant.protocols.registry",
    "protocol_names": "privquant.protocols.registry",
}

# Subpackages that `import privquant` makes reachable without importing them.
_FOLDERS = ("device", "lab", "privacy", "protocols", "testing")

__all__ = ["__version__", *_WHERE]

if TYPE_CHECKING:
    from privquant.domain import Grid as Grid
    from privquant.domain import Integers as Integers
    from privquant.domain import LogGrid as LogGrid
    from privquant.errors import PrivquantError as PrivquantError
    from privquant.lab.run import run as run
    from privquant.messages import Estimate as Estimate
    from privquant.messages import Guarantee as Guarantee
    from privquant.messages import Query as Query
    from privquant.messages import Report as Report
    from privquant.planning.plan import plan as plan
    from privquant.protocols.registry import protocol as protocol
    from privquant.protocols.registry import protocol_names as protocol_names
    from privquant.quantiles import median as median
    from privquant.quantiles import quantile as quantile


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name in _FOLDERS:
        return import_module(f"privquant.{name}")
    raise AttributeError(f"module 'privquant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""privquant: quantiles of data that never leaves its owner.

Everything here is loaded on first use: importing the package alone needs no numpy, so that
`privquant.device` can run where numpy cannot.

The names that are stable are those of `__all__`, and of the modules that docs/names.md lists; whatever else can be
imported is internal.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

try:
    __version__ = version("privquant")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

_NAMES = {
    # A column you hold, and plans
    "privquant.quantiles": ("median", "quantile"),
    "privquant.plans": ("plan",),
    "privquant.planning.plan": ("Plan",),
    # Which values exist
    "privquant.domain": ("Domain", "Integers", "Grid", "LogGrid"),
    # What is asked and told, and what comes back
    "privquant.messages": (
        *("Estimate", "Guarantee", "ShuffledRound"),
        *("Query", "Report", "TreeQuery", "TreeReport", "AnyQuery", "AnyReport"),
    ),
    "privquant.error_words": ("Interval", "Rank"),
    "privquant.estimates": ("Estimates",),
    "privquant.planning.statement": ("stated",),
    # Protocols to ask and tell; for one's own too
    "privquant.protocols.registry": ("protocol", "protocol_names", "from_state", "register"),
    "privquant.protocols.isotonic.shuffled": ("shuffled_isotonic",),
    "privquant.protocols.naive.shuffled": ("shuffled_search", "shuffled_settings"),
    "privquant.protocols.base": ("Protocol", "ThresholdProtocol"),
    "privquant.privacy.coin": ("Coin",),
    # Simulated users
    "privquant.lab.run": ("run",),
    "privquant.lab.sample": ("Sample",),
    "privquant.lab.populations": ("Users", "CountUsers", "Coins"),
    # What is raised
    "privquant.errors": ("PrivquantError", "InvalidInput", "ProtocolError", "MissingDependency"),
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names}

# Subpackages that `import privquant` makes reachable without importing them.
_FOLDERS = ("device", "lab", "planning", "privacy", "protocols", "testing")

__all__ = ["__version__", *_WHERE]

if TYPE_CHECKING:
    from privquant.domain import Domain as Domain
    from privquant.domain import Grid as Grid
    from privquant.domain import Integers as Integers
    from privquant.domain import LogGrid as LogGrid
    from privquant.error_words import Interval as Interval
    from privquant.error_words import Rank as Rank
    from privquant.errors import InvalidInput as InvalidInput
    from privquant.errors import MissingDependency as MissingDependency
    from privquant.errors import PrivquantError as PrivquantError
    from privquant.errors import ProtocolError as ProtocolError
    from privquant.estimates import Estimates as Estimates
    from privquant.lab.populations import Coins as Coins
    from privquant.lab.populations import CountUsers as CountUsers
    from privquant.lab.populations import Users as Users
    from privquant.lab.run import run as run
    from privquant.lab.sample import Sample as Sample
    from privquant.messages import AnyQuery as AnyQuery
    from privquant.messages import AnyReport as AnyReport
    from privquant.messages import Estimate as Estimate
    from privquant.messages import Guarantee as Guarantee
    from privquant.messages import Query as Query
    from privquant.messages import Report as Report
    from privquant.messages import ShuffledRound as ShuffledRound
    from privquant.messages import TreeQuery as TreeQuery
    from privquant.messages import TreeReport as TreeReport
    from privquant.planning.plan import Plan as Plan
    from privquant.planning.statement import stated as stated
    from privquant.plans import plan as plan
    from privquant.privacy.coin import Coin as Coin
    from privquant.protocols.base import Protocol as Protocol
    from privquant.protocols.base import ThresholdProtocol as ThresholdProtocol
    from privquant.protocols.isotonic.shuffled import shuffled_isotonic as shuffled_isotonic
    from privquant.protocols.naive.shuffled import shuffled_search as shuffled_search
    from privquant.protocols.naive.shuffled import shuffled_settings as shuffled_settings
    from privquant.protocols.registry import from_state as from_state
    from privquant.protocols.registry import protocol as protocol
    from privquant.protocols.registry import protocol_names as protocol_names
    from privquant.protocols.registry import register as register
    from privquant.quantiles import median as median
    from privquant.quantiles import quantile as quantile


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name in _FOLDERS:
        return import_module(f"privquant.{name}")
    raise AttributeError(f"module 'privquant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*__all__, *_FOLDERS))

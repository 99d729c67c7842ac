"""The protocols there are. A new one is one new file and one line here.

`protocol(name, ...)` builds one; `protocol_class(name)` gives the class; `from_state` reads any state back.
`register(cls)` makes a protocol of your own known by its name, for the life of the process. An installed package
makes its own known with an entry point in the group "privquant.protocols", NAME = "module:class"; the class is
loaded when its name is asked for, and a name that is taken here stays ours.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any

from privquant.domain import Domain
from privquant.errors import InvalidInput, ProtocolError
from privquant.protocols.base import Protocol
from privquant.validation import check_choice, check_probability

# name -> module:class, loaded on first use.
_PROTOCOLS = {
    "naive": "privquant.protocols.naive.search:NaiveSearch",
    "bayess": "privquant.protocols.bayes.bayess:BayeSS",
    "bayeslearn": "privquant.protocols.bayes.bayeslearn:BayesLearn",
    "hierarchical": "privquant.protocols.tree.hierarchical:Hierarchical",
    "isotonic": "privquant.protocols.isotonic.protocol:Isotonic",
}

DEFAULT_PROTOCOL = "isotonic"

# The form of a protocol whose rounds are shuffled to (epsilon, delta): name -> module:function.
SHUFFLED = {
    "naive": "privquant.protocols.naive.shuffled:shuffled_search",
    "isotonic": "privquant.protocols.isotonic.shuffled:shuffled_isotonic",
}

TRUSTS = ("local", "shuffle")

# What every protocol is made with, and so none has as an option of its own.
_GIVEN = ("domain", "users", "epsilon", "delta", "quantile", "guarantee")

_OWN: dict[str, type[Protocol]] = {}

ENTRY_POINTS = "privquant.protocols"


@cache
def _installed() -> dict[str, EntryPoint]:
    """The protocols of installed packages, by name."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS) if point.name not in _PROTOCOLS}


def register(made: type[Protocol]) -> type[Protocol]:
    """Make a protocol of your own known by its name, also as a decorator; a name stands for one class.

    Parameters
    ----------
    made : type
        A subclass of `Protocol` with a `name`.
    """
    if not (isinstance(made, type) and issubclass(made, Protocol)):
        raise InvalidInput(f"a protocol is a subclass of privquant.protocols.base.Protocol, got {made!r}")
    if made.name in _PROTOCOLS or _OWN.get(made.name, made) is not made:
        raise InvalidInput(f"there is a protocol {made.name!r} already; give yours another name")
    _OWN[made.name] = made
    return made


def protocol_names() -> tuple[str, ...]:
    """The registered names, in the order the docs present them."""
    return tuple(dict.fromkeys((*_PROTOCOLS, *_OWN, *_installed())))


def protocol_class(name: str) -> type[Protocol]:
    """The class behind a name."""
    if not isinstance(name, str) or name not in protocol_names():
        raise InvalidInput(f"unknown protocol {name!r}; there are {', '.join(protocol_names())}")
    if name in _PROTOCOLS:
        found: type[Protocol] = resolve_name(_PROTOCOLS[name])
        return found
    return _OWN[name] if name in _OWN else _of_package(_installed()[name])


def _of_package(point: EntryPoint) -> type[Protocol]:
    """The class behind an entry point, which is registered from then on."""
    try:
        made = point.load()
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"the protocol {point.name!r} of {point.value} cannot be loaded: {error}") from error
    if getattr(made, "name", None) != point.name:
        raise InvalidInput(
            f"the entry point {point.name!r} of {point.value} must be a protocol of that name, got {made!r}"
        )
    return register(made)


def protocol(name: str, domain: Domain, *, users: int, epsilon: float, **options: Any) -> Protocol:
    """A protocol ready to ask.

    Parameters
    ----------
    name : str
        One of `protocol_names()`.
    domain, users, epsilon
        As for `Protocol`.
    **options
        `quantile` (one, or several in rising order for the protocols that can), `guarantee`, and the protocol's own
        options, which docs/protocols.md lists.
    """
    made = protocol_class(name)
    return _made(made, f"protocol {name!r}", domain, users=users, epsilon=epsilon, **options)


def shuffled_protocol(
    name: str, domain: Domain, *, users: int, epsilon: float, delta: float, **options: Any
) -> Protocol:
    """The form of a protocol whose every round, once shuffled, keeps (epsilon, delta)."""
    protocol_class(name)
    if name not in SHUFFLED:
        raise InvalidInput(
            f"protocol {name!r} has no shuffled form; {' and '.join(sorted(SHUFFLED))} have one, "
            "or say trust='local'"
        )
    said = f"in the shuffle model protocol {name!r}"
    return _made(resolve_name(SHUFFLED[name]), said, domain, users=users, epsilon=epsilon, delta=delta, **options)


def check_trust(trust: object, delta: object) -> str:
    """Whom users trust; a delta goes with the shuffle model and with no other."""
    found = check_choice(trust, "trust", TRUSTS)
    if found == "local" and delta is not None:
        raise InvalidInput(
            f"delta goes with trust='shuffle', got delta={delta!r} with trust='local': a coin alone has no delta"
        )
    if found == "shuffle":
        if delta is None:
            raise InvalidInput("trust='shuffle' needs a delta, e.g. delta=1e-8")
        check_probability(delta, "delta")
    return found


def _made(made: Callable[..., Protocol], said: str, domain: Domain, **settings: Any) -> Protocol:
    try:
        return made(domain, **settings)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        wrong = str(error).split("argument ")[-1]
        raise InvalidInput(f"{said} has no option {wrong}; it has {_options(made)}") from error


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """For who passes options on beside the settings all protocols have: none of them may be one of those."""
    for wrong in _GIVEN:
        if wrong in options:
            raise InvalidInput(
                f"protocol {name!r} has no option {wrong!r}; it has {_options(protocol_class(name))}"
            )


def _options(made: Callable[..., Protocol]) -> str:
    """The names a protocol's constructor takes beyond what all of them do."""
    given = inspect.signature(made).parameters.values()
    return ", ".join(p.name for p in given if p.kind is p.KEYWORD_ONLY and p.name not in _GIVEN) or "none"


def from_state(state: Mapping[str, Any]) -> Protocol:
    """The protocol whose `state()` this is.

    Parameters
    ----------
    state : mapping
        As `Protocol.state()` gave it, also after a way through JSON.
    """
    name = state.get("protocol")
    if name not in protocol_names():
        raise ProtocolError(
            f"not a protocol's state: protocol is {name!r}; there are {', '.join(protocol_names())}"
        )
    return protocol_class(name).from_state(state)

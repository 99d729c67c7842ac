"""How a cell makes its protocol: small frozen objects that build a template for a domain and a number of users.

    Registered("naive", 1.0, options=...)      any registered protocol in the local model
    Shuffled("isotonic", 1.0, delta=1e-8)      a search whose rounds are shuffled to (epsilon, delta)

Anything else with the same four attributes and the same call will do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from typing import Protocol as Interface

from privquant.domain import Domain
from privquant.protocols.base import Protocol
from privquant.protocols.registry import SHUFFLED, check_options, shuffled_protocol
from privquant.protocols.registry import protocol as make_protocol
from privquant.validation import check_choice, check_epsilon, check_probability, check_quantiles, one_or_several

Options = tuple[tuple[str, Any], ...]


class Template(Interface):
    """protocol, epsilon, quantiles: what is run. settings: all of it as JSON, for the key of a cell."""

    @property
    def protocol(self) -> str: ...
    @property
    def epsilon(self) -> float: ...
    @property
    def quantiles(self) -> tuple[float, ...]: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...

    def __call__(self, domain: Domain, users: int) -> Protocol:
        """The protocol object that has asked nobody."""


def what_is_run(template: Template) -> dict[str, Any]:
    """The part of the settings that all templates have."""
    quantile = one_or_several(template.quantiles)
    return {"protocol": template.protocol, "epsilon": template.epsilon, "quantile": quantile}


@dataclass(frozen=True)
class Registered:
    """A registered protocol by its name, with its own options."""

    protocol: str
    epsilon: float
    quantiles: tuple[float, ...] = (0.5,)
    options: Options = ()

    @classmethod
    def of(
        cls, protocol: str, epsilon: float, *, quantile: Any = 0.5, options: Mapping[str, Any] | None = None
    ) -> Registered:
        """Checked, the names of the options included."""
        check_options(protocol, options or {})
        return cls(
            protocol, check_epsilon(epsilon), check_quantiles(quantile), tuple(sorted((options or {}).items()))
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        return what_is_run(self) | {"options": dict(self.options)}

    def __call__(self, domain: Domain, users: int) -> Protocol:
        named = what_is_run(self)
        return make_protocol(named.pop("protocol"), domain, users=users, **named, **dict(self.options))


@dataclass(frozen=True)
class Shuffled:
    """A search in the shuffle model; the coin of each round follows from its size. method: of the accounting."""

    protocol: str
    epsilon: float
    delta: float
    quantiles: tuple[float, ...] = (0.5,)
    method: str = "exact"

    def __post_init__(self) -> None:
        check_choice(self.protocol, "protocol with a shuffled form", tuple(SHUFFLED))
        check_epsilon(self.epsilon)
        check_probability(self.delta, "delta")

    @property
    def settings(self) -> Mapping[str, Any]:
        return what_is_run(self) | {"delta": self.delta, "method": self.method}

    def __call__(self, domain: Domain, users: int) -> Protocol:
        return _shuffled(self, domain, users).fresh()


# Accounting for a hundred rounds takes longer than a block of trials, and every block makes its template.
@lru_cache(maxsize=256)
def _shuffled(template: Shuffled, domain: Domain, users: int) -> Protocol:
    named = dict(template.settings)
    return shuffled_protocol(named.pop("protocol"), domain, users=users, **named)

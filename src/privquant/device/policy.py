"""The owner's policy: what this device may be asked, and how much may ever be learned from its answers.

A measurement that is not in the policy is refused. For one that is, the policy fixes

- the domain: the campaign must ask about exactly this one. A grid of equal ratios may be given by its ends, as
  {kind = "log", low, high, bins}; its edges then need to agree to 10^-12 of each, since machines differ in the last
  digits of a logarithm, and the campaign's own edges are used;
- max_epsilon: the most one answer may reveal;
- lifetime_epsilon: the most all answers about this measurement may ever reveal together (default:
  max_epsilon);
- answers: how many campaigns may be answered about it at all (default: 1);
- issuer_key: optionally, the only key whose campaigns are answered: the public key in hex or its fingerprint;
- shuffle: optionally, a table of limits for shuffled campaigns (`ShuffleRule`). Without it they are refused. For
  these, max_epsilon and lifetime_epsilon are about the epsilon that holds if the shuffler is honest. If it works
  with the aggregator, what is left is the epsilon of the coin alone, and that has limits of its own; so has delta.

A policy is this dataclass, or a TOML or JSON file of the same shape; an unknown field or version is refused,
because a limit that was misspelt is a limit that does not hold.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from privquant.device import spending
from privquant.domain import Domain, Grid, LogGrid, check_domain, domain_from_dict
from privquant.errors import InvalidInput
from privquant.validation import check_count
from privquant.wire import is_hex

VERSION = 1
LARGEST_FILE = 1 << 20
EDGES_AGREE = 1e-12
"""How far an edge of a campaign may lie from the policy's log grid, as a share of it."""

Number = int | float | str | Decimal


def default_ledger() -> Path:
    """Where the ledger lies unless told otherwise: in the user's state directory."""
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not home.is_absolute():
        home = Path.home() / ".local" / "state"
    return home / "privquant" / "ledger"


@dataclass(frozen=True, slots=True)
class ShuffleRule:
    """The limits for shuffled answers about one measurement.

    max_local_epsilon, lifetime_local_epsilon: of the coin; local answers count in the second too.
    colluding:    the share of a round that may be fake or on the aggregator's side and the promise still hold.
    shuffler_key: optionally, the only shuffler that is trusted: its public key in hex or the key's fingerprint.
    """

    max_local_epsilon: Number
    max_delta: Number
    lifetime_local_epsilon: Number | None = None
    lifetime_delta: Number | None = None
    colluding: Number = 0.0
    shuffler_key: str | None = None
    max_local_units: int = field(init=False, repr=False, compare=False)
    lifetime_local_units: int = field(init=False, repr=False, compare=False)
    max_delta_units: int = field(init=False, repr=False, compare=False)
    lifetime_delta_units: int = field(init=False, repr=False, compare=False)
    share: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        local = self.max_local_epsilon if self.lifetime_local_epsilon is None else self.lifetime_local_epsilon
        delta = self.max_delta if self.lifetime_delta is None else self.lifetime_delta
        for name, units in (
            ("max_local_units", spending.limit(self.max_local_epsilon, "max_local_epsilon")),
            ("lifetime_local_units", spending.limit(local, "lifetime_local_epsilon")),
            ("max_delta_units", spending.delta_limit(self.max_delta, "max_delta")),
            ("lifetime_delta_units", spending.delta_limit(delta, "lifetime_delta")),
            ("share", _share(self.colluding)),
        ):
            object.__setattr__(self, name, units)
        _check_pinned(self.shuffler_key, "shuffler_key")


@dataclass(frozen=True, slots=True)
class Rule:
    """The limits for one measurement."""

    domain: Domain
    max_epsilon: Number
    lifetime_epsilon: Number | None = None
    answers: int = 1
    issuer_key: str | None = None
    shuffle: ShuffleRule | None = None
    max_units: int = field(init=False, repr=False, compare=False)
    lifetime_units: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_domain(self.domain)
        check_count(self.answers, "answers", least=1)
        lifetime = self.max_epsilon if self.lifetime_epsilon is None else self.lifetime_epsilon
        object.__setattr__(self, "max_units", spending.limit(self.max_epsilon, "max_epsilon"))
        object.__setattr__(self, "lifetime_units", spending.limit(lifetime, "lifetime_epsilon"))
        _check_pinned(self.issuer_key, "issuer_key")
        if self.shuffle is not None and not isinstance(self.shuffle, ShuffleRule):
            raise InvalidInput(f"shuffle must be a ShuffleRule, got {self.shuffle!r}")


@dataclass(frozen=True, slots=True)
class Policy:
    """What this device may be asked: a rule for each measurement by name, and where its ledger lies.

    allow_http: plain http is refused except to this machine itself; True allows it anywhere.
    """

    measurements: Mapping[str, Rule]
    ledger: Path = field(default_factory=default_ledger)
    allow_http: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.measurements, Mapping) or not self.measurements:
            raise InvalidInput("a policy needs at least one measurement; without one every question is refused")
        for name, rule in self.measurements.items():
            if not isinstance(name, str) or not name:
                raise InvalidInput(f"a measurement is named by a text that is not empty, got {name!r}")
            if not isinstance(rule, Rule):
                raise InvalidInput(f"the rule of measurement {name!r} must be a Rule, got {rule!r}")
        if not isinstance(self.allow_http, bool):
            raise InvalidInput(f"allow_http must be true or false, got {self.allow_http!r}")
        object.__setattr__(self, "ledger", Path(self.ledger))


def policy_from_dict(form: Any) -> Policy:
    """The policy a TOML or JSON file spells out."""
    _check_fields(form, "policy", needed={"version", "measurements"}, allowed={"ledger", "allow_http"})
    if form["version"] != VERSION or isinstance(form["version"], bool):
        raise InvalidInput(f"policy: version must be {VERSION}, got {form['version']!r}")
    if not isinstance(form["measurements"], Mapping):
        raise InvalidInput("policy: measurements must be a table of rules by name")
    rules = {name: _rule_from_dict(name, rule) for name, rule in form["measurements"].items()}
    ledger = form.get("ledger")
    if ledger is not None and (not isinstance(ledger, str) or not ledger):
        raise InvalidInput(f"policy: ledger must be a path, got {ledger!r}")
    path = default_ledger() if ledger is None else Path(ledger).expanduser()
    return Policy(rules, path, form.get("allow_http", False))


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """The policy in a file: JSON if its name ends in .json, TOML otherwise. Paths in it are relative to it."""
    place = Path(path)
    try:
        with place.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InvalidInput(f"policy {place}: cannot be read: {error.strerror or error}") from error
    if len(raw) > LARGEST_FILE:
        raise InvalidInput(f"policy {place}: larger than {LARGEST_FILE} bytes")
    try:
        text = raw.decode("utf-8")
        if place.suffix == ".json":
            form = json.loads(text, object_pairs_hook=_no_repeats, parse_float=Decimal)
        else:
            form = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"policy {place}: {error}") from error
    policy = policy_from_dict(form)
    # Relative to the file, not to where the program happens to run: another ledger would be a second answer.
    return replace(policy, ledger=place.absolute().parent / policy.ledger)


def covers(allowed: Domain, asked: Domain) -> bool:
    """Whether a campaign's domain is the one a policy allows."""
    if not isinstance(allowed, LogGrid):
        return asked.to_dict() == allowed.to_dict()
    return (
        isinstance(asked, Grid)
        and len(asked.edges) == len(allowed.edges)
        and all(abs(its - ours) <= EDGES_AGREE * ours for its, ours in zip(asked.edges, allowed.edges))
    )


def _domain_of(form: Mapping[str, Any]) -> Domain:
    if form.get("kind") in ("integers", "grid"):
        return domain_from_dict(form)
    if form.get("kind") != "log":
        raise InvalidInput(f"not a domain: {dict(form)!r}; allowed kinds are 'integers', 'grid' and 'log'")
    if set(form) != {"kind", "low", "high", "bins"}:
        raise InvalidInput(f"not a domain: {dict(form)!r}; a log grid has low, high and bins")
    ends = []
    for name in ("low", "high"):
        try:
            ends.append(float("" if isinstance(form[name], bool) else form[name]))
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"a log grid's {name} must be a number, got {form[name]!r}") from error
    return LogGrid(ends[0], ends[1], form["bins"])


def _rule_from_dict(name: str, form: Any) -> Rule:
    what = f"policy: measurement {name!r}"
    _check_fields(form, what, *_fields_of(Rule))
    if not isinstance(form["domain"], Mapping):
        raise InvalidInput(f"{what}: domain must be a table, e.g. {{kind = 'integers', low = 0, high = 100}}")
    try:
        shuffle = None
        if "shuffle" in form:
            _check_fields(form["shuffle"], f"{what}, shuffle", *_fields_of(ShuffleRule))
            shuffle = ShuffleRule(**form["shuffle"])
        return Rule(**{**form, "domain": _domain_of(form["domain"]), "shuffle": shuffle})
    except InvalidInput as error:
        raise InvalidInput(f"{what}: {error}") from error


def _fields_of(rule: type[Rule | ShuffleRule]) -> tuple[set[str], set[str]]:
    """What a rule needs, and what it may have besides."""
    given = [each for each in fields(rule) if each.init]
    needed = {each.name for each in given if each.default is MISSING}
    return needed, {each.name for each in given} - needed


def _check_pinned(key: object, name: str) -> None:
    """A pinned key is left out, a public key or a fingerprint."""
    if key is not None and not is_hex(key, 64) and not is_hex(key, 32):
        raise InvalidInput(
            f"{name} must be a public key (64 lower-case hex digits) or its fingerprint (32), got {key!r}"
        )


def _share(colluding: object) -> float:
    try:
        share = float("" if isinstance(colluding, bool) else colluding)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = -1.0
    if not 0.0 <= share < 1.0:
        raise InvalidInput(f"colluding must be a share from 0 to below 1, got {colluding!r}")
    return share


def _check_fields(form: Any, what: str, needed: set[str], allowed: set[str]) -> None:
    if not isinstance(form, Mapping):
        raise InvalidInput(f"{what}: a table is needed, got {form!r}")
    missing = sorted(needed - set(form))
    unknown = sorted(set(form) - needed - allowed)
    if missing:
        raise InvalidInput(f"{what}: {', '.join(missing)} missing")
    if unknown:
        raise InvalidInput(
            f"{what}: unknown field {', '.join(unknown)}; allowed are {', '.join(sorted(needed | allowed))}"
        )


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    form = dict(pairs)
    if len(form) != len(pairs):
        raise ValueError("a field stands twice")
    return form

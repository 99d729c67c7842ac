"""What our protocols need, as measured: reads the fitted laws and answers from them.

The document (`calibration.json`, made by `python -m studies calibration`) holds, for every protocol and trust
model, the law of rank error (`privquant.planning.law`) on three families of data:

    typical   smooth: no value near the quantile is shared by many, and there is no gap
    lumpy     rounded, crowded on some values, with gaps, or filling a tiny part of the domain
    hardest   a cliff: all hangs on one value that may be anywhere

Harder is never easier: what is said of lumpy data is the worse of the first two laws, of the hardest that of all. A
file of one's own takes the place of the shipped one by name, or by the environment variable PRIVQUANT_CALIBRATION.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NotRequired, TypedDict, Unpack

from privquant.errors import InvalidInput
from privquant.planning.asking import PLAIN, AskingSchedule, halved, width_within
from privquant.planning.law import CLIFF, COMPANY, FEW, FORM, SMOOTH, Law, Run
from privquant.planning.limits import kappa_of
from privquant.privacy.shuffle import local_epsilon
from privquant.protocols.isotonic.shuffled import round_sizes
from privquant.protocols.naive.bracket import batch_sizes, rounds_for

PRODUCTS = {"smooth": SMOOTH, "few": FEW, "cliff": CLIFF, "company": COMPANY}
"""What the features of a law can be made of, by the name it has in the document."""

KINDS = ("typical", "lumpy", "hardest")
ENVIRONMENT = "PRIVQUANT_CALIBRATION"
CALIBRATED_DELTA = 1e-8
"""What delta is unless a plan names one."""

_LARGEST = 24  # log2 of the largest round that is accounted for
_PRECISION = 1e-2


class Setting(TypedDict):
    """What a law is asked about. delta: of the shuffle model. schedule: `PLAIN` unless given."""

    users: float
    epsilon: float
    quantile: float
    size: int
    delta: NotRequired[float]
    schedule: NotRequired[AskingSchedule]


@dataclass(frozen=True)
class Calibration:
    """The laws of one protocol in one trust model."""

    name: str
    stretch: float
    laws: Mapping[str, Law]
    costs: Mapping[str, Any]
    width: Law

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of data it was measured on."""
        return tuple(self.laws)

    def kappa(self, setting: Setting) -> float:
        """Of the coin users throw; in the shuffle model of the one that tells as much as all rounds' coins."""
        protocol, trust = self.name.split("/")
        epsilon, size = setting["epsilon"], setting["size"]
        if trust == "local":
            return kappa_of(epsilon)
        method, delta = trust.partition("-")[2] or "exact", setting.get("delta", CALIBRATED_DELTA)
        return shuffled_kappa(protocol, float(math.floor(setting["users"])), epsilon, delta, size, method)

    def failure(
        self,
        kind: str,
        below: float,
        above: float,
        *,
        ties: bool = True,
        population: bool = False,
        **setting: Unpack[Setting],
    ) -> float:
        """The share of runs whose rank is below q - below or above q + above.

        ties:       whether to count on the ties that a small domain forces on any data.
        population: the rank in a population that the people were drawn from, instead of among themselves.
        """
        run = self._run(setting)
        if population:
            run = run._replace(share=0.0)
        laws = [self.laws[name] for name in KINDS[: KINDS.index(kind) + 1] if name in self.laws]
        if setting.get("schedule", PLAIN).quantiles:
            laws = [replace(law, company=tuple(self.costs["quantiles"]["company"]["coefficients"])) for law in laws]
        return max(law.failure(below, above, run, ties=ties) for law in laws)

    def error(self, *, confidence: float, kind: str = "typical", **setting: Unpack[Setting]) -> float:
        """The rank error that a share `confidence` of runs stays within."""

        def passed(alpha: float) -> bool:
            return self.failure(kind, alpha, alpha, **setting) > 1.0 - confidence

        return halved(passed, max(setting["quantile"], 1.0 - setting["quantile"]))

    def interval_width(self, chance: float, interval: float, **setting: Unpack[Setting]) -> float | None:
        """The width of rank that intervals certified at `interval` stay within with this chance; None: all."""
        return width_within(self.width, self._run(setting), interval, chance)

    def _run(self, setting: Setting) -> Run:
        users, schedule = setting["users"], setting.get("schedule", PLAIN)
        bits = math.log2(max(setting["size"], 2))
        stretch = max(bits, 1.0) ** self.stretch
        run = Run(users, self.kappa(setting), setting["quantile"], bits, stretch, schedule.share)
        return run if schedule.plain else run._replace(users=schedule.own_users(run, self.costs))


def law_of(form: Mapping[str, Any]) -> Law:
    """A law from its part of the document."""
    coefficients = tuple(float(c) for c in form["coefficients"])
    products = PRODUCTS[form["features"]]
    if len(coefficients) != 3 * len(products):
        raise InvalidInput(f"such a law has {3 * len(products)} coefficients, got {len(coefficients)}")
    return Law(coefficients, products, products is CLIFF, float(form.get("tie_credit", 0.0)))


def calibrated(source: str | Path | None = None) -> tuple[str, ...]:
    """The names in the document: "protocol/local" or "protocol/shuffle[-method]"."""
    return tuple(_document(_place(source)))


def calibration(name: str, source: str | Path | None = None) -> Calibration:
    """One protocol's laws, from a file of one's own, the one the environment names, or the shipped one."""
    found = _document(_place(source))
    if name not in found:
        raise InvalidInput(f"nothing was measured for {name!r}; there is {', '.join(found)}")
    return found[name]


def _place(source: str | Path | None) -> str:
    return str(source) if source is not None else os.environ.get(ENVIRONMENT, "")


@lru_cache(maxsize=8)
def _document(place: str) -> dict[str, Calibration]:
    try:
        if place:
            text = Path(place).read_text(encoding="utf-8")
        else:
            text = resources.files("privquant.planning").joinpath("calibration.json").read_text(encoding="utf-8")
        form = json.loads(text)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise InvalidInput(f"the calibration {place!r} cannot be read: {error}") from error
    again = f"make one with `python -m studies calibration --out {place or 'FILE'}`"
    if not isinstance(form, dict) or form.get("form") != FORM:
        raise InvalidInput(f"{place!r} is no calibration of this version; {again}")
    try:
        width = law_of(form["paces"]["width"])
        found = {}
        for name, entry in form["laws"].items():
            laws = {kind: law_of(entry[kind]) for kind in KINDS if kind in entry}
            found[name] = Calibration(name, float(entry["stretch"]), laws, form["paces"], width)
        return found
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"the calibration {place!r} is damaged ({error!r}); {again}") from error


# -- the coins of shuffled rounds ----------------------------------------------------------------------------

# A round's coin follows from its size by exact accounting, some 0.1 s each. A plan tries many numbers of users, so
# the local epsilon is accounted for on a grid of round sizes (a factor of two apart) and read between them: linear
# in the logarithm of the size, within 7 % of the exact one. Beyond the largest it grows as the logarithm itself.


@lru_cache(maxsize=4096)
def _on_grid(power: int, epsilon: float, delta: float, method: str) -> float:
    found = local_epsilon(epsilon=epsilon, delta=delta, batch=2**power, method=method, rtol=_PRECISION)
    return max(found, epsilon)


def coin_of_round(batch: float, epsilon: float, delta: float, method: str = "exact") -> float:
    """The local epsilon of the coin that a round of `batch` users may throw."""
    place = math.log2(max(batch, 1.0))
    if place >= _LARGEST:
        return _on_grid(_LARGEST, epsilon, delta, method) + (place - _LARGEST) * math.log(2.0)
    low = math.floor(place)
    below, above = (_on_grid(power, epsilon, delta, method) for power in (low, low + 1))
    return below + (place - low) * (above - below)


def rounds_of(protocol: str, users: float, epsilon: float, size: int) -> list[int]:
    """The users of each round of a shuffled run."""
    count = max(int(users), 1)
    if protocol == "naive":
        return [batch for batch in batch_sizes(count, rounds_for(size)) if batch > 0]
    return round_sizes(count, epsilon, size)


@lru_cache(maxsize=4096)
def shuffled_kappa(protocol: str, users: float, epsilon: float, delta: float, size: int, method: str) -> float:
    """kappa of the one coin that would tell as much as those of all rounds: the root of the mean of kappa^2."""
    rounds = rounds_of(protocol, users, epsilon, size)
    if not rounds:
        return kappa_of(epsilon)
    told = math.fsum(n * kappa_of(coin_of_round(n, epsilon, delta, method)) ** 2 for n in rounds)
    return math.sqrt(told / math.fsum(rounds))


@lru_cache(maxsize=256)
def liars_face(users: float, epsilon: float, delta: float, size: int) -> float:
    """The epsilon of the one coin under which liars could do as much as in isotonic search's shuffled rounds.

    A round's shift of rank is in proportion to 1/kappa, and its weight in the fit to users * kappa^2.
    """
    rounds = rounds_of("isotonic", users, epsilon, size)
    kappas = [kappa_of(coin_of_round(n, epsilon, delta)) for n in rounds]
    told = math.fsum(n * k * k for n, k in zip(rounds, kappas, strict=True))
    moved = math.fsum(n * k for n, k in zip(rounds, kappas, strict=True))
    return 2.0 * math.atanh(min(told / moved, 1.0 - 1e-12))

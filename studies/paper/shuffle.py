"""The paper's shuffle comparison at n = 10^7, B = 4^8, delta = 10^-8, and what exact accounting makes of it.

`shuffle` is the paper's Figure 4 (naive search, local against shuffled) with the same search under the lemma as
printed, the authors' program, and exact accounting. `shuffle-all` adds the peer the paper names, the non-adaptive
tree under shuffling, accounted for by a bound that holds for any randomizer, and isotonic search in rounds.
"""

from __future__ import annotations

from typing import Any

from privquant.domain import Integers
from privquant.lab.data import dataset
from privquant.lab.experiment.cell import Cell
from privquant.lab.experiment.results import Results
from privquant.privacy.shuffle import local_epsilon
from privquant.protocols.isotonic.shuffled import shuffled_isotonic
from privquant.protocols.naive.shuffled import shuffled_settings
from studies import style
from studies.paper.draw import error_bars, error_cdf, mean_errors
from studies.paper.figure import CDF_EPSILON, Drawing, Effort, Figure, note
from studies.paper.mechanisms import NAIVE, TREE, Mechanism
from studies.style import Look

USERS = 10**7
SIZE = 4**8
DELTA = 1e-8

LOCAL = Mechanism("naive, local", "naive", Look(NAIVE.look.color, "s"))
PUBLISHED = Mechanism("naive, shuffled: authors' formula", "naive", Look("#56B4E9", "v", "--"))
LEMMA = Mechanism("naive, shuffled: the lemma", "naive", Look("#E69F00", "D", "--"))
EXACT = Mechanism("naive, shuffled: exact accounting", "naive", Look("#D55E00", "o"))
TREE_LOCAL = Mechanism("tree, local", "hierarchical", Look(TREE.look.color, "^", ":"))
TREE_SHUFFLED = Mechanism("tree, shuffled: general bound", "hierarchical", Look(TREE.look.color, "^"))
ISOTONIC_LOCAL = Mechanism("isotonic, local", "isotonic", Look(style.look("isotonic").color, "P", ":"))
ISOTONIC = Mechanism("isotonic rounds, shuffled: exact", "isotonic", style.look("isotonic"))

IN_PAPER = (LOCAL, PUBLISHED, LEMMA, EXACT)
ALL = (LOCAL, LEMMA, EXACT, TREE_LOCAL, TREE_SHUFFLED, ISOTONIC_LOCAL, ISOTONIC)

_METHODS = {PUBLISHED.label: "published", LEMMA.label: "lemma", EXACT.label: "exact"}


def _coin(mechanism: Mechanism, epsilon: float) -> tuple[float, dict[str, Any]]:
    """The epsilon of the coin for a promised one, and further options of the protocol."""
    domain = Integers(0, SIZE - 1)
    promised: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    if mechanism.label in _METHODS:
        settings = shuffled_settings(domain, users=USERS, **promised, method=_METHODS[mechanism.label])
        return settings["epsilon"], {}
    if mechanism is TREE_SHUFFLED:
        # All reports of the one round form one batch; a level and its bits are one message of that local epsilon.
        return local_epsilon(**promised, batch=USERS, method="stronger"), {}
    if mechanism is ISOTONIC:
        made = shuffled_isotonic(domain, users=USERS, **promised, rtol=1e-2)
        return made.epsilon, {"rounds": tuple((int(size), int(coin)) for size, coin in made.options()["rounds"])}
    return epsilon, {}


def _cells(mechanisms: tuple[Mechanism, ...], effort: Effort) -> list[Cell]:
    data = dataset("pareto", n=USERS, size=SIZE)
    made = []
    for mechanism in mechanisms:
        # Accounting for each of a hundred rounds takes longer than the trials.
        for epsilon in effort.thin(effort.epsilons) if mechanism is ISOTONIC else effort.epsilons:
            coin, options = _coin(mechanism, epsilon)
            trials = effort.trials if mechanism.protocol != "isotonic" else effort.some(100, 10)
            notes = {"promised_epsilon": epsilon, "delta": 0.0 if mechanism.label.endswith("local") else DELTA}
            made.append(mechanism.cell(data, coin, options=options, trials=trials, notes=notes))
    return made


def _promised(cell: Cell) -> float:
    return float(note(cell, "promised_epsilon"))


def _draw(mechanisms: tuple[Mechanism, ...], found: Results) -> Drawing:
    figure, (left, middle, right) = style.panels(3)
    error_bars(left, found, mechanisms, _promised, SMALL_ALPHA)
    style.epsilon_axis(left, label="promised ε")
    style.success_axis(left, alpha=SMALL_ALPHA)
    left.set_title("Pareto data, n = 10$^7$, B = 4$^8$")
    error_cdf(middle, found.where(lambda cell: _promised(cell) == CDF_EPSILON), mechanisms)
    middle.set_xscale("symlog", linthresh=1e-5)
    style.cdf_axis(middle, most=0.1)
    middle.set_title(f"error at ε = {CDF_EPSILON:.2f}")
    mean_errors(right, found, mechanisms, _promised)
    style.epsilon_axis(right, label="promised ε (δ = 10$^{-8}$ where shuffled)")
    right.set_title("mean rank error")
    style.legend_below(figure, left, columns=4)
    return Drawing(figure, found.rows)


# At n = 10^7 every mechanism is within the paper's 0.04 at once; a hundred times finer tells them apart.
SMALL_ALPHA = 4e-4

FIGURES = (
    Figure(
        "shuffle",
        "Naive search at n = 10^7, B = 4^8: local, shuffled by the lemma, by the authors' formula, exactly",
        lambda effort: _cells(IN_PAPER, effort),
        lambda found: _draw(IN_PAPER, found),
        "Figure 4",
    ),
    Figure(
        "shuffle-all",
        "Under shuffling at n = 10^7: naive search, the non-adaptive tree, isotonic search in rounds",
        lambda effort: _cells(ALL, effort),
        lambda found: _draw(ALL, found),
    ),
)

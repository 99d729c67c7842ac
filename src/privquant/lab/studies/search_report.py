"""The tables of `search_table` as Markdown, each with the goal it is held to, and the figure of the schedules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from privquant.lab.studies.paper import style
from privquant.lab.studies.search_cell import Setting, users_for_90
from privquant.lab.studies.search_table import (
    CONTROL_SHAPES,
    COVERAGE_EPSILONS,
    COVERAGE_SHAPES,
    COVERAGE_USERS,
    CURVE_CELLS,
    LARGEST_ONE_BY_ONE,
    RIVALS,
    SCHEDULE_CELLS,
    SEARCH_CELLS,
    SEVERAL,
    SEVERAL_SHAPES,
    SPEED_USERS,
    USERS_CELLS,
)

_SCHEDULES = (
    ("rounds, one threshold each", "rounds", 0.0, style.Look("#0072B2", "s", "--")),
    ("rounds, spread", "rounds", 0.25, style.Look("#0072B2", "o")),
    ("in flight", "in flight", 0.0, style.Look("#D55E00", "s", "--")),
    ("in flight, spread", "in flight", 0.25, style.Look("#D55E00", "o")),
)

Results = dict[tuple[Any, ...], Any]
FEWER = 2.8
HELD_USERS = ("pareto", 4**9, 0.879, "bayess")
RIVAL_TITLES = {"bayess": "DpBayeSS", "published": "DpBayeSS, authors' program"}
SMOOTH = ("pareto", "uniform", "lognormal")
SLOWEST = {10**7: 0.025, 10**9: 0.060}
WIDEST = {2500: 21.0, 10_000: 17.5}


def _size(size: int) -> str:
    return {4**9: "4^9", 10**6: "10^6"}.get(size, f"2^{size.bit_length() - 1}")


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = list(head)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _ratio(other: float, ours: float) -> str:
    """With few runs an error can be 0."""
    return f"{other / ours:.2f}" if ours > 0 else "-"


def _mark(good: bool) -> str:
    return "met" if good else "missed"


def search(results: Results) -> tuple[str, bool]:
    rows, met = [], True
    for name, size, q, epsilon, least in SEARCH_CELLS:
        rates = {
            rival: results[key].success
            for rival in RIVALS
            if (key := ("search", name, size, q, epsilon, rival)) in results
        }
        good = least is None or rates["isotonic"] >= least
        met = met and good
        rows.append(
            [
                f"{name} {_size(size)}",
                q,
                epsilon,
                *(f"{rates[r]:.3f}" if r in rates else "-" for r in reversed(RIVALS)),
                f"{Setting(name, size, epsilon, quantile=q).limit:.3f}",
                "-" if least is None else f"{least} {_mark(good)}",
            ]
        )
    head = ("data", "q", "epsilon", "naive", "DpBayeSS", "isotonic", "limit", "goal")
    return "Success within 0.04 of the quantile's rank, n = 2500\n\n" + _table(head, rows), met


def users(results: Results) -> tuple[str, bool]:
    rows, met = [], True
    for name, size, epsilon, grids in USERS_CELLS:
        found = {
            protocol: {n: results["users", name, size, epsilon, protocol, n] for n in grid}
            for protocol, grid in grids.items()
        }
        needed = {protocol: users_for_90(cells) for protocol, cells in found.items()}
        shown = {
            protocol: " ".join(f"{m.success:.3f}@{n}" for n, m in cells.items())
            for protocol, cells in found.items()
        }
        ours, our_error = needed.pop("isotonic")
        for rival, (theirs, their_error) in needed.items():
            ratio = theirs / ours
            wobble = ratio * math.hypot(our_error / ours, their_error / theirs)
            held = (name, size, epsilon, rival) == HELD_USERS
            good = not held or ratio >= FEWER
            met = met and good
            rows.append(
                [
                    f"{name} {_size(size)}",
                    epsilon,
                    RIVAL_TITLES[rival],
                    f"{theirs:.0f}",
                    f"{ours:.0f}",
                    f"{ratio:.2f} +- {wobble:.2f}",
                    f"{FEWER} {_mark(good)}" if held else "-",
                    shown[rival],
                    shown["isotonic"],
                ]
            )
    head = (
        "data",
        "epsilon",
        "rival",
        "its users",
        "isotonic's",
        "ratio",
        "goal",
        "success: rival",
        "success: isotonic",
    )
    return "Users for 90 % success within 0.04 (ratio with its standard error)\n\n" + _table(head, rows), met


def curve(results: Results) -> tuple[str, bool]:
    rows = []
    for name, size, q, epsilon, alpha in CURVE_CELLS:
        plain, curved = (results["curve", name, size, q, epsilon, smooth] for smooth in (False, True))
        rows.append(
            [
                f"{name} {_size(size)}",
                q,
                epsilon,
                alpha,
                f"{plain.success:.3f}",
                f"{curved.success:.3f}",
                f"{plain.error[0]:.4f}",
                f"{curved.error[0]:.4f}",
                _ratio(plain.error[0], curved.error[0]),
            ]
        )
    head = (
        "data",
        "q",
        "epsilon",
        "within",
        "success: median",
        "with curve",
        "rank error: median",
        "with curve",
        "ratio",
    )
    return "The answer with and without a curve through the rates, n = 2500\n\n" + _table(head, rows), True


def shuffle(results: Results) -> tuple[str, bool]:
    rows, met = [], True
    for name in dict.fromkeys(key[1] for key in results):
        ours = results["shuffle", name, "isotonic", "exact"].error[0]
        exact = results["shuffle", name, "naive", "exact"].error[0]
        lemma = results["shuffle", name, "naive", "lemma"].error[0]
        good = name != "pareto" or lemma >= 6 * ours
        met = met and good
        asked = f"6 {_mark(good)}" if name == "pareto" else "-"
        rows.append(
            [name, *(f"{e:.2e}" for e in (lemma, exact, ours)), _ratio(exact, ours), _ratio(lemma, ours), asked]
        )
    head = ("data", "naive, lemma", "naive, exact", "isotonic", "exact : ours", "lemma : ours", "goal")
    return "Mean rank error, shuffled, n = 10^5, epsilon 1, delta 1e-8, 4^9 values\n\n" + _table(head, rows), met


def rounds(results: Results) -> tuple[str, bool]:
    rows = []
    for kind, number, spread in dict.fromkeys(key[1:4] for key in results):
        rates = [results["rounds", kind, number, spread, n, e].success for n, _, e in SCHEDULE_CELLS]
        rows.append([kind, number or "-", spread or "-", *(f"{rate:.3f}" for rate in rates)])
    head = ("schedule", "number", "spread", *(f"{n} {e}" for n, _, e in SCHEDULE_CELLS))
    one = results["rounds", "sequential", 0, 0.0, "pareto", 0.879].success
    other = results["rounds", "rounds", 32, 0.25, "pareto", 0.879].success
    good = other >= one - 0.03
    text = "Success against rounds and users in flight, n = 2500\n\n" + _table(head, rows)
    return (
        text + f"\n32 rounds with spread: {one - other:.3f} below sequential (goal: 0.03, {_mark(good)})\n",
        good,
    )


def several(results: Results) -> tuple[str, bool]:
    rows, met = [], True
    for name, size in SEVERAL_SHAPES:
        for quantiles in SEVERAL:
            together = sum(results["several", name, quantiles].error) / len(quantiles)
            alone = sum(results["alone", name, quantiles, q].error[0] for q in quantiles) / len(quantiles)
            met = met and alone >= together
            shown = ", ".join(f"{q:g}" for q in quantiles)
            rows.append(
                [f"{name} {_size(size)}", shown, f"{together:.4f}", f"{alone:.4f}", _ratio(alone, together)]
            )
    head = ("data", "quantiles", "one run", "separate runs", "ratio")
    return "Mean rank error over the quantiles, n = 9000, epsilon 0.879\n\n" + _table(head, rows), met


def coverage(results: Results) -> tuple[str, bool]:
    rows, met, fails = [], True, False
    for n in COVERAGE_USERS:
        for name, size in COVERAGE_SHAPES:
            found = [results["coverage", name, size, e, n] for e in COVERAGE_EPSILONS]
            good = all(f.certified >= 0.95 for f in found)
            if name in SMOOTH:
                good = good and all(f.width <= WIDEST[n] for f in found)
            met = met and good
            fails = fails or any(f.likelihood_ratio < 0.9 for f in found)
            rows.append(
                [
                    f"{name} {_size(size)}",
                    n,
                    *(f"{f.certified:.3f}" for f in found),
                    *(f"{f.width:.1f}" for f in found),
                    *(f"{f.no_bound:.2f}" for f in found),
                    *(f"{f.error:.2f}" for f in found),
                    *(f"{f.likelihood_ratio:.2f}" if name in CONTROL_SHAPES else "-" for f in found),
                    _mark(good),
                ]
            )
    parts = ("coverage", "width", "no bound", "error", "control")
    head = ("data", "n", *(f"{part} {e}" for part in parts for e in COVERAGE_EPSILONS), "goal")
    text = "Certified 95 % intervals; widths and errors in units of sd / (kappa sqrt n) of rank\n\n"
    return text + _table(head, rows) + f"\nThe negative control fails: {'yes' if fails else 'NO'}\n", met and fails


def speed(results: Results) -> tuple[str, bool]:
    per_user = results["speed", LARGEST_ONE_BY_ONE].one_by_one / LARGEST_ONE_BY_ONE
    rows, met = [], True
    for users in SPEED_USERS:
        found = results["speed", users]
        slow = f"{found.one_by_one:.2f}" if found.one_by_one else f"{per_user * users:.3g} (by the user)"
        good = found.by_count <= SLOWEST.get(users, math.inf)
        met = met and good
        asked = f"{SLOWEST[users] * 1e3:.0f} ms {_mark(good)}" if users in SLOWEST else "-"
        rows.append([f"{users:,}", f"{found.by_count * 1e3:.1f}", slow, asked])
    head = ("users", "by count, ms", "one by one, s", "goal")
    return "Processor time of a trial after start-up, pareto 4^9, epsilon 0.879\n\n" + _table(head, rows), met


REPORTS: dict[str, Callable[[Results], tuple[str, bool]]] = {
    "search": search,
    "users": users,
    "curve": curve,
    "shuffle": shuffle,
    "rounds": rounds,
    "several": several,
    "coverage": coverage,
    "speed": speed,
}


def draw_rounds(results: Results, path: Path) -> None:
    """Success against rounds and users in flight: a panel a data set, with bars of one standard error."""
    with style.styled():
        figure, panels = style.panels(3, 2)
        panels[-1].set_axis_off()
        for panel, (name, size, epsilon) in zip(panels, SCHEDULE_CELLS, strict=False):
            cells = {key[1:4]: found for key, found in results.items() if key[4:] == (name, epsilon)}
            for label, kind, spread, look in _SCHEDULES:
                points = sorted(
                    (key[1], found) for key, found in cells.items() if (key[0], key[2]) == (kind, spread)
                )
                panel.errorbar(
                    [number for number, _ in points],
                    [found.success for _, found in points],
                    [math.sqrt(found.success * (1.0 - found.success) / found.trials) for _, found in points],
                    label=label,
                    elinewidth=0.8,
                    **look.line(),
                )
            panel.axhline(cells["sequential", 0, 0.0].success, label="growing batches", **style.LIMIT.bare())
            panel.set_xscale("log")
            panel.set_ylim(-0.02, 1.02)
            panel.set_title(f"{name}, {_size(size)} values, ε = {epsilon}")
            panel.set_xlabel("rounds, or users in flight, of 2500")
            panel.set_ylabel("success within 0.04")
        style.legend_below(figure, panels[0], columns=5)
        figure.savefig(path, dpi=160, metadata={"Software": "privquant"} if path.suffix == ".png" else None)

"""`privquant account`: what a shuffled batch promises, by every method side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privquant.cli._options import AsJson, option
from privquant.cli._out import print_table
from privquant.errors import InvalidInput

if TYPE_CHECKING:
    from privquant.privacy.comparison import Saving


def account(
    epsilon: float | None = option("Privacy after shuffling.", show_default="1, unless --local-epsilon is given"),
    delta: float = option("Probability with which that may fail.", 1e-8),
    batch: int | None = option("Users whose answers are shuffled together.", show_default="100000"),
    local_epsilon: float | None = option("Account for this coin instead of finding the most honest one."),
    cap: float | None = option("Largest local epsilon users accept."),
    colluding: float = option("Fraction of all users who work with the aggregator.", 0.0),
    answered: int | None = option("Also say what holds if only so many of the batch answered."),
    rtol: float = option("Width of the certified bracket, relative to delta.", 1e-3),
    compare: bool = option(
        "Users needed by exact accounting and by the paper's lemma, at a grid of both.", False, "--compare"
    ),
    plot: Path | None = option("Draw the curves into this file (png, svg, pdf)."),
    as_json: AsJson = False,
) -> None:
    """Show what a shuffled batch of one-bit answers promises, by every method of accounting.

    Without --local-epsilon: the most honest coin that keeps (epsilon, delta). With it: the epsilon of that coin.
    "exact" is for the coin; the others hold for any randomizer of that local epsilon.
    """
    if local_epsilon is not None and (epsilon is not None or cap is not None):
        raise InvalidInput("give --local-epsilon, or --epsilon (with --cap), not both: one follows from the other")
    if compare:
        if any(given is not None for given in (epsilon, batch, local_epsilon, cap, answered)) or colluding:
            raise InvalidInput("--compare has its own grid of epsilons and batches: it goes with --delta only")
        _compare(delta, plot, as_json)
        return
    from privquant.privacy import comparison, shuffle

    batch = 100_000 if batch is None else batch
    given: dict[str, Any] = {"batch": batch, "delta": delta, "colluding": colluding, "rtol": rtol}
    chosen = 1.0 if epsilon is None else epsilon
    if local_epsilon is None:
        results = comparison.coins_by_method(epsilon=chosen, cap=cap, **given)
        title = f"The most honest coin for epsilon {chosen:g}, delta {delta:g} in a batch of {batch:,}"
        title += "" if cap is None else f", local epsilon at most {cap:g}"
    else:
        results = comparison.epsilons_by_method(local_epsilon=local_epsilon, **given)
        title = f"What a coin of local epsilon {local_epsilon:g} promises in a batch of {batch:,}, delta {delta:g}"
    exact = results[0]
    statement = shuffle.guarantee(local_epsilon=exact.local_epsilon, answered=answered, **given)
    if plot is not None:
        _plot_methods(plot, delta=delta, epsilon=exact.epsilon, batch=batch)
    if as_json:
        found = {
            "delta": delta,
            "batch": batch,
            "honest": shuffle.at_worst(batch, colluding, delta)[0],
            "methods": [asdict(result) for result in results],
            "guarantee": statement.to_dict(),
        }
        print(json.dumps(found, indent=2))
        return
    shown = {
        "method": [result.method for result in results],
        "epsilon": [f"{result.epsilon:.6g}" for result in results],
        "local epsilon": [f"{result.local_epsilon:.6g}" for result in results],
        "coin noise, users": [f"{result.noise_users:.4g}" for result in results],
        "coin noise, points": [f"{100 * result.noise:.3g}" for result in results],
    }
    below = []
    if colluding:
        most = batch - shuffle.at_worst(batch, colluding, delta)[0]
        below.append(
            f"If {colluding:.4g} of all users collude, up to {most:,} of a batch of {batch:,} do; "
            "the chance of more is part of delta."
        )
    if answered is not None:
        below.append(f"If only {answered:,} of {batch:,} answer:")
    print_table(title, shown, [*below, str(statement)], texts=("method",))


def _compare(delta: float, plot: Path | None, as_json: bool) -> None:
    from privquant.privacy.comparison import savings

    rows = savings(delta=delta)
    if plot is not None:
        _plot_savings(plot, rows, delta=delta)
    if as_json:
        print(json.dumps([row.to_dict() for row in rows], indent=2))
        return
    shown = {
        "epsilon": [f"{row.epsilon:g}" for row in rows],
        "exact: users": [f"{row.batch:,}" for row in rows],
        "local epsilon": [f"{row.local_epsilon:.4g}" for row in rows],
        "noise, points": [f"{100 * row.noise:.3g}" for row in rows],
        "lemma: users": [f"{row.needed:,}" for row in rows],
        "times fewer": [f"{row.ratio:.1f}" for row in rows],
        "of a sample": [f"{row.ratio_of_a_sample:.2f}" for row in rows],
    }
    title = f"Users needed for the same coin noise, delta {delta:g}; last column: coins and drawing"
    print_table(title, shown)


@contextmanager
def _figure(panels: int, file: Path) -> Iterator[tuple[Any, list[Any]]]:
    """Panels to draw on, written to the file at the end. matplotlib is loaded only when a figure is asked for."""
    from privquant.lab import style

    with style.styled():
        figure, axes = style.panels(panels)
        # Refuse before the curves are computed, not after.
        kinds = figure.canvas.get_supported_filetypes()
        if file.suffix[1:] not in kinds or not file.parent.is_dir():
            raise InvalidInput(
                f"the figure cannot be written to {file}: give a file in an existing folder that ends in one of "
                f"{', '.join(sorted(kinds))}"
            )
        yield figure, axes
        try:
            figure.savefig(file, dpi=160)
        except (OSError, ValueError) as error:
            raise InvalidInput(f"the figure cannot be written to {file}: {error}") from error


def _plot_methods(file: Path, *, epsilon: float, delta: float, batch: int, points: int = 17) -> None:
    """Local epsilon and coin noise against the size of the batch, one curve a method."""
    from privquant.lab import style
    from privquant.privacy.comparison import coins_by_method
    from privquant.privacy.shuffle import METHODS

    with _figure(2, file) as (figure, (left, right)):
        top = max(batch, 10_000) * 100
        sizes = sorted({round(100 * (top / 100) ** (k / (points - 1))) for k in range(points)})
        found = {
            size: {r.method: r for r in coins_by_method(epsilon=epsilon, delta=delta, batch=size)} for size in sizes
        }
        for method in METHODS:
            results = [found[size][method] for size in sizes]
            label, look = style.METHODS[method]
            left.plot(sizes, [r.local_epsilon for r in results], label=label, **look.line())
            right.plot(sizes, [r.noise_users for r in results], label=label, **look.line())
        right.set_yscale("log")
        for axes, label in ((left, "largest local ε allowed"), (right, "coin noise (sd, users)")):
            axes.set(xscale="log", xlabel="users in the batch", ylabel=label)
            style.log_axis(axes.xaxis)
            axes.axvline(batch, **style.LIMIT.bare())
        style.log_axis(right.yaxis)
        left.set_title(f"One shuffled batch, ε = {epsilon:.4g}, δ = {delta:g}")
        right.set_title("what it costs in accuracy")
        style.legend_below(figure, left, columns=3)


def _plot_savings(file: Path, rows: Sequence[Saving], *, delta: float) -> None:
    """How many times fewer users exact accounting needs, against the batch, one curve an epsilon."""
    from privquant.lab import style

    with _figure(1, file) as (figure, (axes,)):
        for place, epsilon in enumerate(sorted({row.epsilon for row in rows})):
            mine = [row for row in rows if row.epsilon == epsilon]
            look = style.SPARE[place % len(style.SPARE)]
            axes.plot(
                [row.batch for row in mine], [row.ratio for row in mine], label=f"ε = {epsilon:g}", **look.line()
            )
        axes.set(xscale="log", yscale="log")
        axes.set(xlabel="users with exact accounting", ylabel="times as many with the lemma")
        axes.set_title(f"Users for the same coin noise, δ = {delta:g}")
        style.log_axis(axes.xaxis)
        axes.set_yticks([4, 6, 8, 10, 20, 40], labels=["4", "6", "8", "10", "20", "40"])
        axes.minorticks_off()
        style.legend_below(figure, axes, columns=4)

"""`privquant audit`: throw a randomizer and bound its epsilon from below."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from privquant.cli._options import AsJson, option
from privquant.cli._out import print_table
from privquant.errors import InvalidInput

if TYPE_CHECKING:
    from privquant.privacy.randomizers import Randomizer


def audit(
    epsilon: float = option("The epsilon the randomizer is sold with.", 1.0),
    coin: float | None = option(
        "Make our randomizer with this epsilon instead.", show_default="the one it is sold with"
    ),
    tree: str | None = option("Throw a tree report (oue, sue or hadamard; 4 nodes) instead of the coin; slower."),
    shipped: bool = option("Throw the device's own function, one call a draw (slower).", False, "--shipped"),
    function: str | None = option(
        "Throw a Python function instead: module:name, value -> output.", None, "--callable"
    ),
    command: str | None = option(
        "Throw a program instead: arguments with {input} and {draws}; it prints a line a draw."
    ),
    inputs: str | None = option(
        "Inputs for --callable (whole numbers) or --command, by commas.", show_default="0,1"
    ),
    draws: int = option("Throws at each input.", 2_000_000),
    confidence: float = option("An honest randomizer is accused at most 1 - this often.", 0.999),
    as_json: AsJson = False,
) -> None:
    """Audit a randomizer: a lower bound on its true epsilon that holds with the stated confidence.

    Exit code 1 if the randomizer is caught breaking the epsilon it is sold with, 0 if not, 2 if it fails.
    """
    ours = coin is not None or tree is not None or shipped
    if sum((ours, function is not None, command is not None)) > 1:
        raise InvalidInput(
            "an audit throws one randomizer: --callable, or --command, or ours (--coin, --tree, --shipped)"
        )
    if tree is not None and shipped:
        raise InvalidInput("--shipped is for the coin: devices send no tree reports")
    if inputs is not None and function is None and command is None:
        raise InvalidInput(f"--inputs goes with --callable or --command: ours has its own, got {inputs!r}")

    from privquant.privacy.audit import audit as throw

    made = epsilon if coin is None else coin
    randomizer = (
        _tree(tree, made) if tree is not None else _randomizer(made, shipped, function, command, inputs or "0,1")
    )
    found = throw(randomizer, epsilon=epsilon, draws=draws, confidence=confidence)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        shown = {
            "input": [str(value) for value in found.inputs],
            "outputs in the event": [f"{hits:,}" for hits in found.successes],
            "throws": [f"{found.trials:,}"] * len(found.inputs),
            "rate": [f"{hits / found.trials:.6f}" for hits in found.successes],
        }
        print_table("Audit", shown, [str(found)])
    if found.caught:
        raise typer.Exit(1)


def _randomizer(
    epsilon: float, shipped: bool, function: str | None, command: str | None, inputs: str
) -> Randomizer:
    from privquant.privacy.randomizers import CallableRandomizer, CommandRandomizer, coin_randomizer

    values = tuple(part.strip() for part in inputs.split(",") if part.strip())
    if command is not None:
        return CommandRandomizer(command, values)
    if function is None:
        return coin_randomizer(epsilon, shipped=shipped)
    module, _, name = function.partition(":")
    # A function under audit usually lies where the command is run.
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"--callable is module:name of a function, got {function!r}: {error}") from error
    try:
        numbers = tuple(int(value) for value in values)
    except ValueError:
        raise InvalidInput(f"--inputs for a callable are whole numbers by commas, got {inputs!r}") from None
    return CallableRandomizer(found, numbers)


def _tree(encoding: str, epsilon: float) -> Randomizer:
    import numpy as np

    from privquant.messages import TreeQuery
    from privquant.privacy.randomizers import CallableRandomizer
    from privquant.protocols.tree.encodings import ENCODINGS, encode, encoding_coin
    from privquant.validation import check_choice, check_epsilon

    chosen = check_choice(encoding, "--tree", ENCODINGS)
    coin = encoding_coin(chosen, check_epsilon(epsilon))
    query = TreeQuery(branching=4, height=1, encoding=chosen, coin=coin.threshold)
    rng = np.random.default_rng()

    def report(index: int) -> tuple[int, bytes | None, int | None, int | None]:
        sent = encode(query, index, rng)
        return sent.level, sent.bits, sent.index, sent.bit

    return CallableRandomizer(report, range(4))

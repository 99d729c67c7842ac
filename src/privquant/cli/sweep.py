"""`privquant sweep`: a grid of data sets x protocols x epsilons x quantiles x rounds, simulated."""

import json
from pathlib import Path
from typing import Any

import typer

from privquant.cli._options import Engine, Workers, executor_of, option
from privquant.errors import InvalidInput


def sweep(
    out: Path = option("Table to write: .csv or .parquet.", ..., show_default=False),
    data: list[str] = option(
        "Data set, e.g. pareto:n=2500:B=4^9 or pay.csv:column=salary:low=0:high=500000; repeat.",
        ...,
        show_default=False,
    ),
    protocol: list[str] | None = option(
        "Protocol, with options as in naive or bayess:final=test; repeat.", show_default="all"
    ),
    epsilon: str = option("Numbers: 0.5,1,2, or 0.1:5:10 for 10 in equal ratios.", "1"),
    quantile: str = option("Numbers strictly between 0 and 1: 0.5,0.9.", "0.5"),
    rounds: str | None = option("Feedback rounds: 16,64.", show_default="as each protocol suggests"),
    alpha: str = option("Rank errors to count as success.", "0.02,0.04,0.05,0.1"),
    trials: int = option("Independent runs a cell.", 200),
    seed: int = option("Root seed; every cell derives its own from it.", 0),
    draw: str = option("empirical (each user once) or statistical (users drawn with replacement).", "empirical"),
    answers: Path | None = option("Also write one row a trial here (.csv or .parquet)."),
    workers: Workers = 0,
    engine: Engine = None,
    resume: bool = option("Go on with an interrupted sweep.", False, "--resume"),
    overwrite: bool = option("Replace tables that are there.", False, "--overwrite"),
) -> None:
    """Simulate every cell of a grid many times and write a tidy table.

    Ctrl-C keeps the finished cells in OUT.journal; the same command with --resume goes on.
    """
    from privquant.lab.data import whole_number
    from privquant.lab.experiment.results import check_table_path
    from privquant.lab.trials import sweep as run_sweep
    from privquant.protocols.registry import protocol_names

    if answers is not None:
        check_table_path(answers)
    for path in (out, answers):
        if path is not None and path.exists() and not (overwrite or resume):
            raise InvalidInput(f"{path} is there already; give another name, or --overwrite")
    with executor_of(engine, workers, f"finished cells are kept in {out}.journal; go on with --resume") as executor:
        result = run_sweep(
            data,
            protocols=[protocol_spec(p) for p in protocol or protocol_names()],
            epsilons=numbers(epsilon, "epsilon"),
            quantiles=numbers(quantile, "quantile"),
            rounds=[None] if rounds is None else [whole_number(r, "rounds") for r in rounds.split(",")],
            alphas=numbers(alpha, "alpha"),
            trials=trials,
            seed=seed,
            draw=draw,
            workers=workers,
            executor=executor,
            out=out,
            resume=resume,
            overwrite=overwrite,
            progress=True,
        )
    if answers is not None:
        result.write(answers, per="trial")
    typer.echo(f"{len(result.cells)} cells of {trials} trials written to {out}")


def numbers(text: str, name: str) -> list[float]:
    """Numbers as the command line takes them: "0.5,1,2", or "0.1:5:10" for 10 in equal ratios from 0.1 to 5."""
    import numpy as np

    try:
        if text.count(":") == 2:
            first, last, count = text.split(":")
            if not 0 < float(first) <= float(last) < float("inf") or int(count) < 1:
                raise ValueError
            return [float(v) for v in np.geomspace(float(first), float(last), int(count))]
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidInput(
            f"{name} must be numbers such as 0.5,1,2 or a range such as 0.1:5:10, got {text!r}"
        ) from None


def protocol_spec(text: str) -> tuple[str, dict[str, Any]]:
    """A protocol as the command line takes it: NAME or NAME:option=value,option=value."""
    name, _, rest = text.partition(":")
    options: dict[str, Any] = {}
    for part in rest.split(",") if rest else []:
        key, given, value = part.partition("=")
        if not given or not key:
            raise InvalidInput(f"a protocol is given as NAME or NAME:option=value,..., got {text!r}")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return name, options

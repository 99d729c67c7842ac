"""`privquant estimate`: simulate a private collection from a column you already hold."""

import json
import math
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from privquant.cli._options import AsJson, Bins, Log, domain_of, option, quantiles_of
from privquant.cli._out import error_statements, print_table
from privquant.errors import InvalidInput
from privquant.validation import check_count

_FLAGS = {
    "say missing='drop'": "say --missing drop",
    "say fractions='round', or use Grid or LogGrid": "say --fractions round, or --bins N",
    "say outside='clamp'": "say --outside clamp",
    "give a wider domain": "give a wider --low .. --high",
    "trust='shuffle' needs a delta, e.g. delta=1e-8": "--trust shuffle needs a delta, e.g. --delta 1e-8",
    "trust='shuffle'": "--trust shuffle",
    "trust='local'": "--trust local",
}


def estimate(
    file: Annotated[Path, typer.Argument(help="CSV or Parquet file.", show_default=False)],
    column: str = option("Column that holds the numbers.", ..., show_default=False),
    epsilon: float = option("Privacy of each user's answer; smaller is more private.", 1.0),
    low: str | None = option("Lowest value that can occur; needed, never taken from the data."),
    high: str | None = option("Highest value that can occur; needed."),
    bins: Bins = None,
    log: Log = False,
    quantile: list[str] | None = option("Quantile; 0.5,0.9 or repeat for several.", show_default="0.5"),
    protocol: str | None = option("Protocol to run.", show_default="the package's default"),
    trust: str = option("local (nobody is trusted) or shuffle (somebody mixes the answers of a round).", "local"),
    delta: float | None = option("With --trust shuffle: probability with which epsilon may fail, e.g. 1e-8."),
    interval: float | None = option("Also certify an interval at this confidence, e.g. 0.95 (costs accuracy)."),
    missing: str = option("Missing values: refuse or drop.", "refuse"),
    fractions: str = option("Fractions in a whole-number domain: refuse or round.", "refuse"),
    outside: str = option("Values outside low .. high: clamp or refuse.", "clamp"),
    seed: int | None = option("Seed of the simulated coins, for a repeatable run."),
    as_json: AsJson = False,
) -> None:
    """Estimate quantiles of a column as a private collection would find them.

    This SIMULATES the collection from data you already hold: each row is a user who answers one yes/no question
    through a biased coin. Nothing is sent anywhere. The true quantile stands beside the estimate.
    """
    from privquant.lab.data.files import read_column
    from privquant.lab.data.outside import Truth, warning
    from privquant.protocols.registry import DEFAULT_PROTOCOL
    from privquant.quantiles import quantile as find

    domain = domain_of(low, high, bins, log)
    values = read_column(file, column)
    wanted = quantiles_of(quantile)
    if seed is not None:
        check_count(seed, "--seed")
    options: dict[str, Any] = {} if interval is None else {"interval": interval}
    handling: dict[str, Any] = {"missing": missing, "fractions": fractions}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # said at the top instead, in the words of `warning` below
            found = find(
                values,
                wanted,
                epsilon=epsilon,
                domain=domain,
                protocol=protocol or DEFAULT_PROTOCOL,
                trust=trust,
                delta=delta,
                rng=seed,
                outside=outside,
                **handling,
                **options,
            )
    except InvalidInput as error:
        raise InvalidInput(_in_flags(str(error))) from error
    truth = Truth.of(values, domain, **handling)
    rows = []
    for estimate_ in found:
        true = truth.quantile(estimate_.quantile, domain)
        row = {
            **estimate_.to_dict(),
            "simulated": True,
            "truth": None if math.isinf(true) else true,
            "truth_bin": domain.bin(truth.sample.quantile(estimate_.quantile)),
            "warning": warning(estimate_, truth.column, domain),
        }
        if estimate_.index is not None:
            row["rank_error"] = truth.rank_error(estimate_.index, estimate_.quantile)
        rows.append(row)
        if row["warning"] is not None:
            print(f"Warning: {_in_flags(str(row['warning']))}.", file=sys.stderr if as_json else sys.stdout)
    if as_json:
        print(json.dumps({"estimates": rows}, indent=2))
        return
    _show(rows, list(dict.fromkeys(str(estimate_.guarantee) for estimate_ in found)), file, column)


def _in_flags(text: str) -> str:
    """The library's advice in the words of the command line."""
    for said, flag in _FLAGS.items():
        text = text.replace(said, flag)
    return text


def _show(rows: list[dict[str, Any]], guarantees: list[str], file: Path, column: str) -> None:
    shown = {
        "quantile": [f"{row['quantile']:g}" for row in rows],
        "estimate": [str(row["bin"] or row["value"]) if "rank_error" in row else "no answer" for row in rows],
        "truth": [str(row["truth_bin"] or row["truth"]) for row in rows],
        "rank error": [f"{row['rank_error']:.2%}" if "rank_error" in row else "-" for row in rows],
        "users": [str(row["users"]) for row in rows],
    }
    below = []
    for row in rows:
        if row["interval"] is not None:
            low, high, confidence = (row["interval"][name] for name in ("low", "high", "confidence"))
            below.append(
                f"quantile {row['quantile']:g}: certified between {'no bound' if low is None else low} and "
                f"{'no bound' if high is None else high} ({confidence:.0%})"
            )
        below += [f"quantile {row['quantile']:g}: {statement}" for statement in error_statements(row)]
    below += guarantees
    warned = {row["warning"] for row in rows}
    notes = dict.fromkeys(note for row in rows for note in row["notes"] if note not in warned)
    below += [f"Note: {note}." for note in notes]
    print_table(f"{column} in {file.name}: simulated private collection from data you already hold", shown, below)

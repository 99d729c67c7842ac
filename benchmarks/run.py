"""`make bench`: everything side by side in one run, as ratios, to a CSV and to the table in the docs.

python benchmarks/run.py                      all sections
python benchmarks/run.py --only unary start   some of them, printed; the page in the docs stays as it is
python benchmarks/run.py --only start --keep  the same, and these sections of the page are replaced
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

from measure import ROOT, Row

from privquant.lab.experiment.results import versions, write_table

# One module a section, each with rows(); the text stands above the section's table in the docs.
SECTIONS = {
    "bayes": "BayesLearn on our posterior against a dense update of all B weights a user, as the authors' program "
    "does it. Ratio: dense over ours, a user.",
    "counts": "Trials by exact counts against asking every simulated user, and isotonic search in rounds against "
    "its protocol object asking by counts. Ratio: asking over the engine, a trial.",
    "isotonic": "Isotonic search by counts, to 10^9 users, against asking every simulated user one by one. "
    "Ratio: one by one over by counts, a trial.",
    "unary": "Optimized unary encoding of pure-ldp, the library of the paper's experiments, against ours. Ratio: "
    "theirs over ours, a user.",
    "paper": "All Pareto cells of the paper: 6 data sets, 10 epsilons, 200 trials, 3 mechanisms, argmin included.",
    "scaling": "How the cost of a trial grows. Ratio: over the smallest n or B.",
    "start": "A fresh interpreter to its first answer. Ratio: a median without numba over one with it and an empty "
    "cache of kernels (nothing is compiled for it); the engines with an empty cache over a filled one.",
}


def machine() -> str:
    """The machine by its processor and cores, and by nothing that names it."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"


def measured(sections: list[str]) -> dict[str, list[Row]]:
    found = {}
    for name in sections:
        start = time.perf_counter()
        print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
        found[name] = import_module(name).rows()
        print(f"{len(found[name])} rows in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return found


def duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def ratio(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def section(name: str, rows: list[Row]) -> str:
    lines = [f"## {name.capitalize()}", "", SECTIONS[name], ""]
    if not rows:
        return "\n".join([*lines, "Left out in this run: what it compares with could not be installed."])
    lines += ["| what | case | baseline | ours | a | ratio |", "|---|---|---:|---:|---|---:|"]
    lines += [
        f"| {row['benchmark']} | {row['case']} | {duration(row.get('baseline_seconds'))} | "
        f"{duration(row['ours_seconds'])} | {row['unit']} | {ratio(row.get('ratio'))} |"
        for row in rows
    ]
    return "\n".join(lines)


def page(found: dict[str, list[Row]], before: str = "") -> str:
    """The page with these sections; those not measured now are taken from the page before."""
    made_with = ", ".join(f"{name} {version}" for name, version in versions().items())
    head = f"""# Benchmarks

Made by `make bench`. What a section compares was timed in the same run on the same machine, turn by turn; read
the ratios, not the seconds.

Machine: {machine()}. {made_with}."""
    kept = {part.split("\n", 1)[0].lower(): f"## {part.rstrip()}" for part in before.split("\n## ")[1:]}
    parts = [section(name, found[name]) if name in found else kept.get(name) for name in SECTIONS]
    return "\n\n".join([head, *(part for part in parts if part)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "benchmarks.csv")
    parser.add_argument("--keep", action="store_true", help="with --only: also replace these sections in the docs")
    given = parser.parse_args()
    found = measured(given.only or list(SECTIONS))
    rows = [{"section": name, **row, "machine": machine(), **versions()} for name, r in found.items() for row in r]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    if rows:
        write_table(rows, given.out)
    docs = ROOT / "docs" / "benchmarks.md"
    if given.only and not given.keep:
        print("\n\n".join(section(name, rows) for name, rows in found.items()))
        return
    text = page(found, docs.read_text(encoding="utf-8") if docs.exists() else "")
    docs.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()

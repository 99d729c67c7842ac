"""How the benchmarks measure: side by side in one process, turn by turn, the best of several turns.

Two ways are timed in alternation, so that a slow moment of the machine hits both; what is reported is their ratio.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # `studies` is not installed

Row = dict[str, Any]
"""benchmark, case, baseline and ours (seconds of one unit of work), unit, ratio = baseline / ours."""


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def processor_seconds(work: Callable[[], object]) -> float:
    """Seconds of processor of this process: other work of the machine does not count."""
    start = time.process_time()
    work()
    return time.process_time() - start


def best(work: Callable[[], object], turns: int = 3) -> float:
    """Seconds of the fastest turn, after one that is not counted."""
    work()
    return min(seconds(work) for _ in range(turns))


def side_by_side(baseline: Callable[[], object], ours: Callable[[], object], turns: int = 3) -> tuple[float, float]:
    """Seconds of both, the fastest of their turns."""
    ours()
    pairs = [(seconds(baseline), seconds(ours)) for _ in range(turns)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)


def row(benchmark: str, case: str, baseline: float, ours: float, unit: str, **more: Any) -> Row:
    return {
        "benchmark": benchmark,
        "case": case,
        "baseline_seconds": baseline,
        "ours_seconds": ours,
        "unit": unit,
        "ratio": baseline / ours,
        **more,
    }

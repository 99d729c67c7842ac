"""How long one call of `local_epsilon` takes, by method, batch and epsilon.

    python benchmarks/accounting.py [--json]
    python benchmarks/accounting.py --small       # epsilons far below 0.05, which are slow

Process time of this process alone, the best of three calls. The promise for "exact" at rtol 1e-3: under 0.2 s for
epsilon >= 0.05 and b <= 10^6, under 1 s for epsilon >= 0.1 at b = 10^8. Exit code 1 if it is broken.
"""

from __future__ import annotations

import json
import sys
import time

from privquant.privacy import shuffle

EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0, 4.0)
BATCHES = (1, 10, 100, 1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 100_000_000)
DELTAS = (1e-4, 1e-8, 1e-12)
SMALL = ((0.01, 1_000_000), (0.002, 1_000_000), (0.01, 100_000_000), (0.001, 100_000_000))


def seconds(method: str, epsilon: float, delta: float, batch: int) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        shuffle.local_epsilon(epsilon=epsilon, delta=delta, batch=batch, method=method)
        best = min(best, time.process_time() - start)
    return best


def limit(epsilon: float, batch: int) -> float | None:
    if batch <= 1_000_000 and epsilon >= 0.05:
        return 0.2
    return 1.0 if batch == 100_000_000 and epsilon >= 0.1 else None


def main() -> int:
    if "--small" in sys.argv[1:]:
        for epsilon, batch in SMALL:
            start = time.process_time()
            shuffle.local_epsilon(epsilon=epsilon, delta=1e-8, batch=batch)
            print(f"epsilon {epsilon} b {batch}: {time.process_time() - start:.2f} s")
        return 0
    rows = []
    for method in ("exact", "stronger", "clones"):
        for delta in DELTAS:
            for epsilon in EPSILONS:
                for batch in BATCHES:
                    taken = seconds(method, epsilon, delta, batch)
                    rows.append(
                        {
                            "method": method,
                            "delta": delta,
                            "epsilon": epsilon,
                            "batch": batch,
                            "seconds": taken,
                            "limit": limit(epsilon, batch) if method == "exact" else None,
                        }
                    )
    broken = [row for row in rows if row["limit"] is not None and row["seconds"] > row["limit"]]
    if "--json" in sys.argv[1:]:
        print(json.dumps(rows, indent=1))
        return int(bool(broken))
    print(f"{'method':9} {'b <= 10^6, eps >= 0.05':>24} {'b = 10^8, eps >= 0.1':>22}   (s a call: median, worst)")
    for method in ("exact", "stronger", "clones"):
        cells = []
        for among in (lambda r: r["batch"] <= 10**6, lambda r: r["batch"] == 10**8 and r["epsilon"] >= 0.1):
            times = sorted(r["seconds"] for r in rows if r["method"] == method and among(r))
            cells.append(f"{times[len(times) // 2]:.4f}, {times[-1]:.3f}")
        print(f"{method:9} {cells[0]:>24} {cells[1]:>22}")
    for row in sorted(rows, key=lambda r: -r["seconds"])[:5]:
        where = f"epsilon {row['epsilon']} delta {row['delta']:g} b {row['batch']}"
        print(f"slow: {row['method']} {where}: {row['seconds']:.2f}")
    for row in broken:
        print(f"over its limit of {row['limit']} s: {row}")
    return int(bool(broken))


if __name__ == "__main__":
    raise SystemExit(main())

"""What the device's own accounting of a shuffled round costs, in Python and in Node, and whether they agree.

    python benchmarks/shuffle_check.py

Processor time of one decision (median of 15) at the coin that a campaign would take for (epsilon, delta, batch),
and the number of rounds just inside and just outside of their true delta on which both devices decide alike.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "js"))

from nodejs import evaluate  # type: ignore[import-not-found]

from privquant.privacy import shuffle
from privquant.privacy.coin import flip_threshold, real_epsilon
from privquant.privacy.shuffle_check import keeps

EPSILONS = (0.1, 0.5, 1.0, 2.0)
DELTAS = (1e-4, 1e-8, 1e-15)
BATCHES = (1, 2, 10, 150, 2_000, 30_000, 1_000_000)


def rows() -> list[dict[str, object]]:
    """For each campaign three deltas: its own, one just above the true one and one just below."""
    found = []
    for epsilon in EPSILONS:
        for delta in DELTAS:
            for batch in BATCHES:
                coin = flip_threshold(shuffle.local_epsilon(epsilon=epsilon, delta=delta, batch=batch))
                true = shuffle.bracket(epsilon=epsilon, local_epsilon=real_epsilon(coin), batch=batch, rtol=1e-5)
                for asked in (delta, true.upper * 1.0001, true.lower * 0.9999):
                    if 0 < asked < 1:
                        found.append({"epsilon": epsilon, "delta": asked, "coin": coin, "batch": batch})
    return found


def in_node(asked: list[dict[str, object]]) -> list[tuple[bool, float]]:
    form = json.dumps([row | {"coin": str(row["coin"])} for row in asked])
    return evaluate(
        f"""
        const {{ keepsShuffled }} = await import(`${{js}}/shuffle-check.js`);
        const spent = () => {{ const {{ user, system }} = process.cpuUsage(); return (user + system) / 1000; }};
        console.log(JSON.stringify({form}.map((row) => {{
          const asked = {{ ...row, coin: BigInt(row.coin) }};
          let kept;
          const times = Array.from({{ length: 15 }}, () => {{
            const start = spent();
            kept = keepsShuffled(asked);
            return spent() - start;
          }});
          return [kept, times.sort((a, b) => a - b)[7]];
        }})));
        """
    )


def in_python(row: dict[str, object]) -> tuple[bool, float]:
    times = []
    for _ in range(15):
        start = time.process_time()
        kept = keeps(**row)  # type: ignore[arg-type]
        times.append(1000 * (time.process_time() - start))
    return kept, statistics.median(times)


def main() -> None:
    asked = rows()
    ours, theirs = [in_python(row) for row in asked], in_node(asked)
    same = sum(mine[0] == other[0] for mine, other in zip(ours, theirs, strict=True))
    print(f"{same} of {len(asked)} rounds decided alike")
    print("epsilon  delta  batch      Python ms  Node ms")
    for row, mine, other in zip(asked, ours, theirs, strict=True):
        if row["delta"] == 1e-8 and row["batch"] in (2_000, 30_000, 1_000_000):
            print(f"{row['epsilon']:<7}  1e-08  {row['batch']:<9}  {mine[1]:9.1f}  {other[1]:7.1f}")


if __name__ == "__main__":
    main()

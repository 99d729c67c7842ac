"""p50, p90 and p99 of a device metric from one bit a device, with all reports shared.

python examples/latency_p99.py
"""

import numpy as np

import privquant as pq

# 400 bins of equal ratio from 0.1 ms to a minute: known cut points, chosen before any data exist.
DOMAIN = pq.LogGrid(0.1, 60_000, 400)

latencies = np.random.default_rng(1).lognormal(3.0, 1.1, 200_000)

for found in pq.quantile(latencies, [0.5, 0.9, 0.99], epsilon=1.0, domain=DOMAIN, rng=1):
    truth = np.quantile(latencies, found.quantile)
    print(f"p{100 * found.quantile:g}: {found.value:8.1f} ms, in {found.bin}; truth {truth:8.1f} ms; {found.rank}")

"""A fresh interpreter to its first answer.

A median of 5,000 users with numba installed and an empty cache of kernels, beside one without numba: nothing is
compiled for it. Then the engines, which do compile, with an empty and with a filled cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from measure import Row, row, seconds

from privquant.protocols.registry import protocol_names

MEDIAN = """
import numpy as np, privquant as pq
values = np.random.default_rng(1).integers(0, 4**9, 5000)
pq.median(values, epsilon=1.0, domain=pq.Integers(0, 4**9 - 1), protocol={name!r}, rng=1)
"""
WITHOUT_NUMBA = "import sys; sys.modules['numba'] = None\n"
TRIALS = """
import privquant.lab as lab
from privquant import Integers
lab.trials(list(range(1000)), protocol={name!r}, epsilon=1.0, domain=Integers(0, 4**9 - 1), trials=1, seed=1)
"""
_TURNS = 3


def first_answer(script: str, cache: str) -> float:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    return seconds(lambda: subprocess.run([sys.executable, "-c", script], check=True, env=environment))


def rows() -> list[Row]:
    found = []
    for name in protocol_names():
        script = MEDIAN.format(name=name)
        pairs = []
        for _ in range(_TURNS):
            with tempfile.TemporaryDirectory() as cache:
                pairs.append((first_answer(WITHOUT_NUMBA + script, cache), first_answer(script, cache)))
        without, with_numba = (min(turns) for turns in zip(*pairs))
        found.append(
            row("median of 5,000 users, without numba over with", name, without, with_numba, "first answer")
        )
    for name in protocol_names():
        with tempfile.TemporaryDirectory() as cache:
            cold = first_answer(TRIALS.format(name=name), cache)
            warm = min(first_answer(TRIALS.format(name=name), cache) for _ in range(_TURNS))
        found.append(row("cold start over warm start", name, cold, warm, "first answer"))
    return found

"""Cold and warm start: a fresh interpreter to its first answer, with an empty and with a filled kernel cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from measure import Row, row, seconds

from privquant.protocols.registry import protocol_names

SCRIPT = """
import privquant.lab as lab
from privquant import Integers
lab.trials(list(range(1000)), protocol={name!r}, epsilon=1.0, domain=Integers(0, 4**9 - 1), trials=1, seed=1)
"""


def first_answer(name: str, cache: str) -> float:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    command = [sys.executable, "-c", SCRIPT.format(name=name)]
    return seconds(lambda: subprocess.run(command, check=True, env=environment))


def rows() -> list[Row]:
    found = []
    for name in protocol_names():
        with tempfile.TemporaryDirectory() as cache:
            cold = first_answer(name, cache)
            warm = min(first_answer(name, cache) for _ in range(3))
        found.append(row("cold start over warm start", name, cold, warm, "first answer"))
    return found

"""pure-ldp's unary encoding (the library of the paper's experiments) against ours, same users, same nodes.

pure-ldp wants packages of its own, so it lives in its own environment, made on first use; where it cannot be
installed the comparison is left out with a message. What is timed is the same work: n users report one of d nodes
by optimized unary encoding and the server sums the reports; ours once report by report, once by exact counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from measure import Row, best, row

from privquant.lab.sample import Sample
from privquant.messages import TreeQuery
from privquant.protocols.tree.encodings import encode, encoding_coin

ENVIRONMENT = Path(__file__).resolve().parent.parent / ".venv-pure-ldp"
PACKAGES = ("pure-ldp==1.2.0", "scikit-learn", "statsmodels", "pandas")
USERS = 2_000
NODES = (1024, 65_536)

THEIRS = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer
users, nodes = int(sys.argv[1]), int(sys.argv[2])
values = np.random.default_rng(1).integers(0, nodes, users)
times = []
for _ in range(3):
    client, server = UEClient(1.0, nodes, use_oue=True), UEServer(1.0, nodes, use_oue=True)
    start = time.perf_counter()
    for value in values.tolist():
        server.aggregate(client.privatise(value + 1))
    server.check_and_update_estimates()
    times.append(time.perf_counter() - start)
print(json.dumps(min(times)))
"""


def environment() -> Path | None:
    """The interpreter that has pure-ldp; None where it cannot be had."""
    python = ENVIRONMENT / "bin" / "python"
    check = [str(python), "-W", "ignore", "-c", "import pure_ldp.frequency_oracles"]
    if python.exists() and subprocess.run(check, capture_output=True).returncode == 0:
        return python
    print("pure-ldp: making its environment", file=sys.stderr)
    made = subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], capture_output=True)
    quiet = ["--quiet", "--disable-pip-version-check"]
    if made.returncode == 0:
        subprocess.run([str(python), "-m", "pip", "install", *quiet, *PACKAGES], capture_output=True)
        if subprocess.run(check, capture_output=True).returncode == 0:
            return python
    print("pure-ldp: cannot be installed here, comparison left out", file=sys.stderr)
    return None


def report_by_report(nodes: int) -> float:
    """Seconds for USERS reports of our encoding, each made alone and summed."""
    values = np.random.default_rng(1).integers(0, nodes, USERS).tolist()
    query = TreeQuery(nodes, 1, "oue", encoding_coin("oue", 1.0).threshold)
    rng = np.random.default_rng(2)

    def work() -> None:
        total = np.zeros(nodes, np.int64)
        for value in values:
            report = encode(query, value, rng)
            assert report.bits is not None
            total += np.unpackbits(np.frombuffer(report.bits, np.uint8), count=nodes)

    return best(work)


def by_counts(nodes: int) -> float:
    """Seconds for the same sums drawn exactly: Bin(n_v, 1/2) + Bin(n - n_v, q) for every node."""
    from privquant.domain import Integers
    from privquant.lab.engine import simulator
    from privquant.protocols.registry import protocol

    values = np.random.default_rng(1).integers(0, nodes, USERS)
    sample = Sample(values, nodes)
    template = protocol(
        "hierarchical",
        Integers(0, nodes - 1),
        users=USERS,
        epsilon=1.0,
        branching=nodes,
        encoding="oue",
        answer="argmin",
    )
    simulate = simulator(template)
    return best(lambda: simulate(template, sample, 1, np.random.default_rng(1)))


def rows() -> list[Row]:
    python = environment()
    if python is None:
        return []
    found = []
    for nodes in NODES:
        done = subprocess.run(
            [str(python), "-c", THEIRS, str(USERS), str(nodes)], check=True, capture_output=True, text=True
        )
        theirs = json.loads(done.stdout) / USERS
        case = f"{USERS} users, {nodes} nodes"
        found.append(
            row(
                "pure-ldp unary encoding over ours, report by report",
                case,
                theirs,
                report_by_report(nodes) / USERS,
                "user",
            )
        )
        found.append(
            row("pure-ldp unary encoding over ours, by counts", case, theirs, by_counts(nodes) / USERS, "user")
        )
    return found

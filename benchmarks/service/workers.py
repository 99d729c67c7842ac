"""PostgreSQL with one, two and four workers: devices a second, and devices a second of processor time.

    python benchmarks/service/workers.py --devices 20000 --workers 1 2 4

Starts a PostgreSQL cluster of its own on loopback, gives every run a fresh database, and removes all of it. On a
machine with fewer cores than workers what to compare is devices per second of processor time: of the server (all of
its processes), and of server and database together. The load generator's own is in neither.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from load import measure

sys.path.append(str(Path(__file__).parents[2] / "tests" / "aggregator"))

from postgres_cluster import PostgresCluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="privquant-postgres-"))
    cluster = PostgresCluster(folder)
    try:
        for turn, workers in enumerate(given.workers):
            database = cluster.new_database(f"bench_{turn}")
            found = measure(given.devices, given.connections, database, workers, beside=cluster.pid)
            server, beside = found["server_cpu_seconds"], found["database_cpu_seconds"]
            found["devices_per_server_cpu_second"] = round(given.devices / server)
            found["devices_per_cpu_second"] = round(given.devices / (server + beside))
            print(json.dumps({"workers": workers, **found}), flush=True)
    finally:
        cluster.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

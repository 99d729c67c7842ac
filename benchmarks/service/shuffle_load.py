"""All three roles of the shuffle model under load: reports a second, processor time of each, and the error.

    python benchmarks/service/shuffle_load.py --devices 100000 --connections 64

Starts an aggregator and a shuffler of its own on SQLite, joins a campaign (epsilon 1, delta 1e-8, 4^9 values), and
answers it over loopback from one process of bare devices: values of a Pareto shape, the shipped coin, real seals.
Prints JSON. Everything is removed afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from privquant import wire
from privquant.aggregator.operators.accounts import add_operator
from privquant.aggregator.settings import Settings
from privquant.aggregator.store.migrate import opened as opened_store
from privquant.lab.sample import Sample
from privquant.lab.shapes import shape
from privquant.privacy.coin import Coin
from privquant.server.http_client import exchange
from privquant.server.keys import KeyFolder
from privquant.server.process import ServerProcess, free_port
from privquant.shuffler.campaigns import check_manifest, find, invite, join, read_manifest, shown
from privquant.shuffler.settings import Settings as ShufflerSettings
from privquant.shuffler.store import opened

SIZE = 4**9
WAIT = 0.1  # seconds until a device without a place asks again


class Line:
    """One kept-open connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        at = head.index(b"content-length:") + 15
        length = int(head[at : head.index(b"\r\n", at)])
        return int(head.split(None, 2)[1]), await reader.readexactly(length)


async def devices(manifest: wire.Manifest, port: int, people: list[tuple[str, int]], width: int) -> dict[str, Any]:
    """Every device asks, seals and reports, `width` at a time; how it went."""
    terms = manifest.shuffle
    assert terms is not None
    known: dict[bytes, wire.Announcement] = {}  # the announcement is the same for all devices of a round
    tally = {"accepted": 0, "refused": 0, "waited": 0}

    async def one() -> None:
        line = Line(port)
        while people:
            token, value = people.pop()
            while True:
                status, body = await line.post(wire.path_of(manifest.id, "query"), wire.query_request(token))
                if status != 425:
                    break
                tally["waited"] += 1
                await asyncio.sleep(WAIT)
            if status != 200:
                tally["refused"] += 1
                continue
            if body not in known:
                known[body] = wire.RoundAnswer.parse(body, manifest).announcement
            asked = known[body]
            coin = Coin(terms.rounds[asked.round].coin)
            info = wire.report_info(manifest.id, asked.round, asked.threshold, coin.threshold)
            sealed = wire.seal(coin.throw(int(value <= asked.threshold)), terms.seal, info)
            report = wire.SealedReport(token, asked.round, sealed).to_bytes()
            status, _ = await line.post(wire.path_of(manifest.id, "reports"), report)
            tally["accepted" if status == 201 else "refused"] += 1

    began = time.perf_counter()
    await asyncio.gather(*[one() for _ in range(width)])
    return tally | {"seconds": time.perf_counter() - began, "cpu": time.process_time()}


def fleet(out: Any, envelope: bytes, mark: str, port: int, people: list[tuple[str, int]], width: int) -> None:
    manifest = wire.open_issued(envelope, campaign_id=wire_id(envelope), key_fingerprint=mark)
    out.put(asyncio.run(devices(manifest, port, people, width)))


def wire_id(envelope: bytes) -> str:
    return wire.Manifest.from_dict(json.loads(envelope)["manifest"]).id


def cpu_of(pid: int) -> float:
    used = psutil.Process(pid).cpu_times()
    return float(used.user + used.system)


async def operator_token(settings: Settings) -> str:
    async with opened_store(settings) as engine:
        return await add_operator(engine, "load")


def run(folder: Path, count: int, width: int, seed: int) -> dict[str, Any]:
    more = {"admin_port": free_port()} if "admin_port" in Settings.__slots__ else {}
    settings = Settings(data=folder / "aggregator", port=free_port(), **more)
    shuffling = ShufflerSettings(data=folder / "shuffler", port=free_port())
    server = ServerProcess(settings, log=folder / "aggregator.log")
    shuffler = ServerProcess(shuffling, log=folder / "shuffler.log")
    token = asyncio.run(operator_token(settings))
    keys = KeyFolder(shuffling.keys)
    values = shape("pareto", count, SIZE, np.random.default_rng(seed))
    server.start()
    shuffler.start()
    try:
        form = {
            "measurement": "load",
            "question": "How much?",
            "domain": {"kind": "integers", "low": "0", "high": str(SIZE - 1)},
            "epsilon": 1.0,
            "planned_users": count,
            "shuffle": {"delta": 1e-8, "address": shuffling.url, "key": wire.public_key_of(keys.current)},
        }
        made = server.call("POST", "/v1/campaigns", form, token=token)
        identity, mark = made["id"], made["key_fingerprint"]
        envelope = exchange(server.url + wire.path_of(identity, "manifest"))
        manifest = read_manifest(envelope, campaign_id=identity, key_fingerprint=mark)
        check_manifest(manifest, keys.current, shuffling.url)
        with opened(shuffling.file) as db:
            join(db, envelope, manifest, keys.current, aggregator=server.url)
            urls = invite(db, keys, find(db, identity), count)
        people = [(str(wire.Invite.parse(url).token), int(value)) for url, value in zip(urls, values, strict=True)]
        before = cpu_of(server.pid), cpu_of(shuffler.pid)
        queue: Any = multiprocessing.Queue()
        process = multiprocessing.Process(target=fleet, args=(queue, envelope, mark, shuffling.port, people, width))
        process.start()
        tally = queue.get()
        process.join()
        began = time.perf_counter()
        while True:
            found = server.call("GET", f"/v1/campaigns/{identity}", token=token)
            if found["heard"] >= tally["accepted"] or time.perf_counter() - began > 120:
                break
            time.sleep(0.5)
        after = cpu_of(server.pid), cpu_of(shuffler.pid)
        verified = server.call("GET", f"/v1/campaigns/{identity}/verify", token=token)["ok"]
        with opened(shuffling.file) as db:
            books = shown(db, find(db, identity))
    finally:
        shuffler.stop()
        server.stop()
    sample = Sample(values, SIZE)
    value = int(found["estimates"][0]["value"])
    accepted = tally["accepted"]
    return {
        "devices": count,
        "accepted": accepted,
        "counted": found["heard"],
        "forwarded": books["forwarded"],
        "rounds": found["shuffle"]["counted_rounds"],
        "verified": verified,
        "seconds": round(tally["seconds"], 1),
        "reports_per_second": round(accepted / tally["seconds"]),
        "cpu_ms_a_report": {
            "devices": round(1e3 * tally["cpu"] / accepted, 3),
            "shuffler": round(1e3 * (after[1] - before[1]) / accepted, 3),
            "aggregator": round(1e3 * (after[0] - before[0]) / accepted, 3),
        },
        "load_average": psutil.getloadavg()[0],
        "rank_error": float(sample.rank_error(np.array([value]), 0.5)[0]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="privquant-load-") as folder:
        json.dump(run(Path(folder), given.devices, given.connections, given.seed), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()

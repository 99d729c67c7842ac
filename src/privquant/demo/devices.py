"""One process of the demo's fleet: many people's devices, each the real one with a ledger file of its own.

Reads a job as JSON on standard input, prints one JSON line for every device that is done. Threads stand for the
devices that happen to be answering at the same moment.
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from privquant.device import Device, NotAnswered, Patience, Policy, Rule, ShuffleRule, Transport
from privquant.domain import Domain
from privquant.wire import domain_from_wire

_print = threading.Lock()


def main() -> None:
    job: dict[str, Any] = json.load(sys.stdin)
    domain = domain_from_wire(job["domain"])
    transport = Transport()
    with ThreadPoolExecutor(job["threads"]) as threads:
        for place, (invite, value) in enumerate(job["people"]):
            ledger = Path(job["ledgers"]) / f"{place}"
            threads.submit(_person, job, domain, ledger, transport, invite, value, place)
    transport.close()


def _person(
    job: dict[str, Any], domain: Domain, ledger: Path, transport: Transport, invite: str, value: int, place: int
) -> None:
    shuffle = ShuffleRule(**job["shuffle"]) if "shuffle" in job else None
    rule = Rule(domain, max_epsilon=job["epsilon"], issuer_key=job["key_fingerprint"], shuffle=shuffle)
    policy = Policy({job["measurement"]: rule}, ledger)
    device = Device(policy, transport=transport, patience=Patience(**job["patience"]))
    try:
        receipt = device.answer(invite, value)
        line = {"asked": receipt.asked, "bit": receipt.bit, "status": receipt.status}
    except NotAnswered as error:
        line = {"error": f"{error.reason}: {error}"}
    except Exception as error:  # the demo ends with a count of them, not with a silent thread
        line = {"error": repr(error)}
    with _print:
        print(json.dumps({"person": place, **line}), flush=True)


if __name__ == "__main__":
    main()

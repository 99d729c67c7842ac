"""One process of the demo's fleet: many people's devices, each the real one with a ledger file of its own.

Reads its job from the JSON file that is named on the command line, and prints one JSON line for every device that
is done. Threads stand for the devices that happen to be answering at the same moment.
"""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from privquant.device import Device, NotAnswered, Patience, Policy, Rule, ShuffleRule, Transport
from privquant.wire import domain_from_wire

_print = threading.Lock()


def main() -> None:
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    shuffle = ShuffleRule(**job["shuffle"]) if "shuffle" in job else None
    domain = domain_from_wire(job["domain"])
    rule = Rule(domain, max_epsilon=job["epsilon"], issuer_key=job["key_fingerprint"], shuffle=shuffle)
    patience, transport = Patience(**job["patience"]), Transport()

    def answer(place: int, invite: str, value: int) -> None:
        policy = Policy({job["measurement"]: rule}, Path(job["ledgers"]) / f"{place}")
        try:
            receipt = Device(policy, transport=transport, patience=patience).answer(invite, value)
            line = {"asked": receipt.asked, "bit": receipt.bit, "status": receipt.status}
        except NotAnswered as error:
            line = {"error": f"{error.reason}: {error}"}
        except Exception as error:  # the demo ends with a count of them, not with a silent thread
            line = {"error": repr(error)}
        with _print:
            print(json.dumps({"person": place, **line}), flush=True)

    with ThreadPoolExecutor(job["threads"]) as threads:
        for place, (invite, value) in enumerate(job["people"]):
            threads.submit(answer, place, invite, value)
    transport.close()


if __name__ == "__main__":
    main()

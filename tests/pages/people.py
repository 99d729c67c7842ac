"""People with the library's device, for a campaign that a page made."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from privquant.device import Device, Patience, Policy, Receipt, Rule, Transport
from privquant.domain import Integers

DOMAIN = Integers(0, 600)
PATIENT = Patience(total=120, first_pause=0.2, longest_pause=2.0)


def minutes(people: int, seed: int = 1) -> list[int]:
    rng = random.Random(seed)
    return [min(600, int(rng.lognormvariate(3.5, 0.5))) for _ in range(people)]


def answer_all(
    invites: Sequence[str], values: Sequence[int], folder: Path, measurement: str = "commute-minutes"
) -> list[Receipt]:
    """Everybody answers, each with a ledger of their own."""
    transport = Transport()
    folder.mkdir(exist_ok=True)

    def one(place: int) -> Receipt:
        policy = Policy({measurement: Rule(DOMAIN, max_epsilon=1.0)}, folder / f"ledger-{place}")
        return Device(policy, transport=transport, patience=PATIENT).answer(invites[place], values[place])

    with ThreadPoolExecutor(12) as threads:
        found = list(threads.map(one, range(len(invites))))
    transport.close()
    return found

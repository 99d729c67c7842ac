"""The vectors of shuffle mode for other languages, from fixed keys.

python tests/shuffle_vectors.py > docs/vectors/shuffle.json
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

import hpke_twin
from privquant import wire
from privquant.device import ledger_format as records
from privquant.device import spending
from privquant.device.answer_states import Event
from privquant.domain import Integers
from privquant.privacy.coin import flip_threshold
from privquant.wire import sealing

ISSUER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SHUFFLER = Ed25519PrivateKey.from_private_bytes(bytes(range(32, 64)))
SEAL = X25519PrivateKey.from_private_bytes(bytes(range(64, 96)))
THRESHOLDS = (2**61, 2**60, 2**60 + 2**59)


def shuffle(**changes: Any) -> wire.Shuffle:
    form = {
        "delta": 1e-8,
        "rounds": tuple(wire.RoundTerms(batch, flip_threshold(local)) for batch, local in ROUNDS),
        "address": "https://shuffle.example.org",
        "key": wire.public_key_of(SHUFFLER),
        "seal": wire.SealKey.of(SEAL, 7),
        "colluding": 0.05,
    }
    return wire.Shuffle(**(form | changes))


# Local epsilons 0.1 % below and above the largest that keeps (epsilon, delta).
ACCOUNTING = tuple(
    (epsilon, delta, round(side * most, 6), batch, side < 1)
    for epsilon, delta, batch, most in (
        (0.1, 1e-08, 100, 0.21375),
        (0.1, 1e-08, 10000, 1.83654),
        (0.1, 1e-06, 1000000, 6.56736),
        (0.5, 1e-08, 1000, 2.23510),
        (0.5, 1e-10, 100000, 6.31537),
        (1.0, 1e-06, 50, 1.20511),
        (1.0, 1e-06, 1000, 3.45069),
        (1.0, 1e-08, 100000, 7.61627),
        (1.0, 1e-08, 1000000, 9.91520),
        (2.0, 1e-08, 1000, 3.78228),
        (2.0, 1e-12, 100000, 7.86221),
    )
    for side in (0.999, 1.001)
)

ROUNDS = ((1000, 2.5), (1500, 2.75), (40_000, 6.0))


def manifest(terms: wire.Shuffle | None = None, **changes: Any) -> wire.Manifest:
    terms = terms or shuffle()
    form = {
        "measurement": "commute-minutes",
        "question": "How long is your way to work?",
        "domain": Integers(0, 2**62),
        "quantiles": (0.5, 0.9),
        "epsilon": 1.0,
        "flip_threshold": terms.most_honest_coin,
        "protocol": "isotonic",
        "options": (("spread", "0.25"),),
        "interval": None,
        "planned_users": 50_000,
        "waves": wire.Waves(1, 0),
        "opens": 1_700_000_000,
        "deadline": 1_700_100_000,
        "issuer": wire.public_key_of(ISSUER),
        "nonce": "0" * 32,
        "trust": "shuffle",
        "version": 2,
        "shuffle": terms,
    }
    return wire.Manifest(**(form | changes))


def accepted(made: wire.Manifest | None = None) -> bytes:
    made = made or manifest()
    return wire.accept_manifest(
        wire.sign_manifest(made, ISSUER),
        SHUFFLER,
        campaign_id=made.id,
        key_fingerprint=wire.fingerprint(made.issuer),
    )


def sealed_row(round: int, bit: int, seed: int) -> dict[str, Any]:
    """What the slow twin seals with a fixed ephemeral key."""
    made = manifest()
    coin, threshold = made.shuffle.rounds[round].coin, THRESHOLDS[round]
    info = sealing.report_info(made.id, round, threshold, coin)
    ephemeral = X25519PrivateKey.from_private_bytes(bytes([seed] * 32))
    public = SEAL.public_key().public_bytes_raw()
    return {
        "round": round,
        "threshold": str(threshold),
        "coin": str(coin),
        "bit": bit,
        "info": info.hex(),
        "ephemeral_private_key": ephemeral.private_bytes_raw().hex(),
        "sealed": hpke_twin.seal(public, info, b"", bytes([bit]), ephemeral).hex(),
    }


def accounting_rows() -> list[dict[str, Any]]:
    """Rounds just inside and just outside of their promise; deltas as exact accounting has them."""
    return [
        {"epsilon": epsilon, "delta": delta, "coin": str(flip_threshold(local)), "batch": batch, "keeps": kept}
        for epsilon, delta, local, batch, kept in ACCOUNTING
    ]


def ledger() -> str:
    """A device's ledger with an announcement and a shuffled answer in it, drawn, sent and acknowledged."""
    row = sealed_row(0, 1, 101)
    costs = spending.shuffled(1.0, 1e-8, int(row["coin"]))
    sealed = wire.sealed_to_wire(bytes.fromhex(row["sealed"]))
    shuffled = records.Shuffled(0, sealed, "https://shuffle.example.org", costs.epsilon, costs.delta, 950)
    answer = records.Answer(
        "commute-minutes", manifest().id, int(row["coin"]), THRESHOLDS[0], 1, "A" * 22, "", shuffled=shuffled
    )
    raw = replace(records.read(b""), secret=bytes(range(32))).append_announced(manifest().id, 0, THRESHOLDS[0])
    for event in Event:
        raw += records.read(raw).append(event, answer)
    return raw.decode("ascii")


def parts_of_batch(campaign: str, round: int, sealed: list[bytes]) -> list[wire.BatchPart]:
    """The parts of a batch whose reports are in this order."""
    most, name = wire.rounds.PART_LIMIT, wire.batch_id(campaign, round, sealed)
    cut = [tuple(sealed[start : start + most]) for start in range(0, len(sealed), most)]
    head = (campaign, round, name, len(sealed))
    return [wire.BatchPart(*head, number, len(cut), part) for number, part in enumerate(cut)]


def vectors() -> dict[str, Any]:
    made = manifest()
    chain = wire.announcements(made.id, THRESHOLDS)
    sealed = [sealed_row(round, bit, 100 + 2 * round + bit) for round in range(3) for bit in (0, 1)]
    of_first = [bytes.fromhex(row["sealed"]) for row in sealed if row["round"] == 0]
    part = parts_of_batch(made.id, 0, of_first)[0]
    notice = wire.RoundNotice(made.id, 1, wire.DROPPED, 1499)
    return {
        "about": (
            "Private keys are 32 raw bytes in hex: Ed25519 of issuer and shuffler, X25519 of the seal key. Every "
            "envelope is canonical JSON. Each sealed row opens under its info to its bit and under no other info; "
            "sealed with the ephemeral key it comes out as given. accounting: whether that many honest reports "
            "through the coin, shuffled, keep (epsilon, delta)."
        ),
        "keys": {
            "issuer": ISSUER.private_bytes_raw().hex(),
            "shuffler": SHUFFLER.private_bytes_raw().hex(),
            "seal": SEAL.private_bytes_raw().hex(),
        },
        "campaign": made.id,
        "envelope": accepted().decode(),
        "announcements": [
            {"id": each.id, "envelope": wire.sign_announcement(each, made, ISSUER).decode()} for each in chain
        ],
        "sealed": sealed,
        "report": wire.SealedReport("A" * 22, 0, of_first[0]).to_bytes().decode(),
        "batch": wire.sign_part(part, made, SHUFFLER).decode(),
        "accounting": accounting_rows(),
        "ledger": ledger(),
        "notice": wire.sign_notice(notice, made, SHUFFLER).decode(),
    }


if __name__ == "__main__":
    print(json.dumps(vectors(), indent=1))

"""A real HTTP server on loopback that speaks as a shuffler: honest unless told otherwise.

It has the aggregator's keys too and opens what was sealed, to see what the aggregator would.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from loopback import Campaign, Request, Server, campaign, reply

from privquant.device import Ledger, spending
from privquant.privacy.coin import flip_threshold
from privquant.wire import (
    ACCEPTED,
    CLAIMED,
    Claim,
    RoundTerms,
    SealedReport,
    SealKey,
    Shuffle,
    accept_manifest,
    announcements,
    fingerprint,
    opener,
    parse_query_request,
    public_key_of,
    report_info,
    round_answer,
    sign_announcement,
    sign_manifest,
)

EPSILON, DELTA = 1.0, 1e-6
# Coins that 1000 and 5000 honest reports keep (1, 1e-6) with: 3.45 and 5.01 would be the most.
ROUNDS = ((1000, 3.4), (5000, 4.9), (1000, 3.0))
THRESHOLDS = (50, 25, 37)


@dataclass(frozen=True)
class ShuffledCampaign(Campaign):
    """A manifest of version 2 and the keys of all parties."""

    shuffler: Ed25519PrivateKey
    seal: X25519PrivateKey

    @property
    def envelope(self) -> bytes:
        return accept_manifest(
            sign_manifest(self.manifest, self.key),
            self.shuffler,
            campaign_id=self.manifest.id,
            key_fingerprint=fingerprint(self.manifest.issuer),
        )

    def changed(self, **changes: object) -> ShuffledCampaign:
        """Fields of the manifest or of its terms replaced; signed and accepted all the same."""
        terms = {name: changes.pop(name) for name in list(changes) if name in Shuffle.__slots__}
        shuffle = replace(self.manifest.shuffle, **terms)
        manifest = replace(self.manifest, **changes, shuffle=shuffle, flip_threshold=shuffle.most_honest_coin)
        return replace(self, manifest=manifest)


def shuffled_campaign(address: str, measurement: str = "steps", **of_campaign: object) -> ShuffledCampaign:
    plain = campaign(measurement, **{"epsilon": EPSILON, **of_campaign})
    shuffler, seal = Ed25519PrivateKey.generate(), X25519PrivateKey.generate()
    terms = Shuffle(
        DELTA,
        tuple(RoundTerms(batch, flip_threshold(local)) for batch, local in ROUNDS),
        address,
        public_key_of(shuffler),
        SealKey.of(seal),
    )
    manifest = replace(
        plain.manifest, trust="shuffle", version=2, shuffle=terms, flip_threshold=terms.most_honest_coin
    )
    return ShuffledCampaign(manifest, plain.key, shuffler, seal)


@dataclass
class ShuffleServer(Server):
    """Serves one shuffled campaign; `round` is the one it gives out. `bits` has what the aggregator would read."""

    campaign: ShuffledCampaign | None = None
    round: int = 1
    sealed: dict[str, list[bytes]] = field(default_factory=dict)  # by token, every arrival
    thresholds: tuple[int, ...] = THRESHOLDS

    def __enter__(self) -> ShuffleServer:
        super().__enter__()
        if self.campaign is None:
            self.campaign = shuffled_campaign(self.base)
        return self

    def publish(self, **changes: object) -> ShuffledCampaign:
        self.campaign = self.campaign.changed(**changes)
        return self.campaign

    def envelopes(self, thresholds: tuple[int, ...] | None = None) -> list[bytes]:
        """The signed announcements of all rounds."""
        manifest = self.campaign.manifest
        chain = announcements(manifest.id, thresholds or self.thresholds)
        return [sign_announcement(each, manifest, self.campaign.key) for each in chain]

    def honest(self, request: Request) -> bytes:
        """What a shuffler would answer."""
        if request.what == "manifest":
            return reply(200, self.campaign.envelope)
        if request.what == "claims":
            claim = Claim.parse(request.body)
            new = claim.token_hash not in self.claims
            self.claims.add(claim.token_hash)
            return reply(201 if new else 200, CLAIMED.body(new))
        if request.what == "query":
            parse_query_request(request.body)
            return reply(200, round_answer(self.envelopes()[self.round], self.thresholds[: self.round]))
        if request.what == "reports":
            new = self.keep(request)
            return reply(201 if new else 200, ACCEPTED.body(new))
        return reply(404, b"{}")

    def keep(self, request: Request) -> bool:
        """Note a sealed report, and what the aggregator would find in it."""
        report = SealedReport.parse(request.body)
        manifest = self.campaign.manifest
        row, threshold = manifest.shuffle.rounds[report.round], self.thresholds[report.round]
        info = report_info(manifest.id, report.round, threshold, row.coin)
        arrived = self.sealed.setdefault(report.token, [])
        arrived.append(report.sealed)
        self.bits.setdefault(report.token, []).append(opener(self.campaign.seal, info)(report.sealed))
        return len(arrived) == 1


def harmless_shuffled(server: ShuffleServer, ledger) -> None:
    """At most one sealed report of the device is known, always the same bytes, and the ledger holds it."""
    answers = Ledger(ledger).answers("steps")
    arrived = {each for sealed in server.sealed.values() for each in sealed}
    assert len(arrived) <= 1
    known = {(token, bit) for token, bits in server.bits.items() for bit in bits}
    assert known <= {(answer.token, answer.bit) for answer in answers}
    assert sum(spending.cost(answer.coin) for answer in answers) <= 6 * spending.UNITS

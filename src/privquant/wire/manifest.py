"""The manifest: what a campaign asks, of whom and at what privacy.

It never changes: its id is the SHA-256 of its canonical JSON and it is signed with Ed25519. An unknown field or
version is an error, never ignored.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, fields
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from privquant.domain import Domain, Grid, check_domain, domain_from_dict
from privquant.errors import InvalidInput
from privquant.privacy.coin import check_flip_threshold, flip_threshold
from privquant.validation import check_epsilon, check_probability, check_quantiles
from privquant.wire.form import (
    MAX_MANIFEST,
    SAFE_INTEGER,
    VERSION,
    SignatureError,
    TrustError,
    WireError,
    canonical,
    check_hash,
    exact_fields,
    fingerprint,
    parse_object,
    public_key_of,
    real_from_wire,
    real_to_wire,
    whole_from_wire,
    whole_to_wire,
)

MAX_EDGES = 10_000
MAX_WAVES = 10_000

_MEASUREMENT = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_HEX32 = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")


def domain_to_wire(domain: Domain) -> dict[str, Any]:
    """`domain.to_dict()` with its numbers spelled as they travel."""
    form = check_domain(domain).to_dict()
    if form["kind"] == "grid":
        return form | {"edges": [real_to_wire(edge) for edge in form["edges"]]}
    return form | {"low": whole_to_wire(form["low"]), "high": whole_to_wire(form["high"])}


def domain_from_wire(form: Any) -> Domain:
    kind = form.get("kind") if isinstance(form, dict) else None
    read: dict[str, Any]
    if kind == "integers":
        exact_fields(form, ("kind", "low", "high"), "domain")
        read = {"low": whole_from_wire(form["low"], "low"), "high": whole_from_wire(form["high"], "high")}
    elif kind == "grid":
        edges = exact_fields(form, ("kind", "edges"), "domain")["edges"]
        if not isinstance(edges, list) or len(edges) > MAX_EDGES:
            raise WireError(f"edges is a list of at most {MAX_EDGES} decimal strings")
        read = {"edges": [real_from_wire(edge, "edge") for edge in edges]}
    else:
        raise WireError(f"a domain's kind is 'integers' or 'grid', got {kind!r:.60}")
    try:
        return domain_from_dict({"kind": kind, **read})
    except InvalidInput as error:
        raise WireError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Waves:
    """Tokens are spread over `count` waves by a keyed hash; wave w opens w * seconds after the campaign."""

    count: int = 1
    seconds: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a campaign asks, of whom and at what privacy. Times are whole seconds since 1970, UTC.

    measurement: the name a device keeps its ledger by; one device answers a measurement once.
    trust:       "local"; "shuffle" is reserved and refused by this version.
    interval:    confidence of the certified interval that is asked for, or None.
    deadline:    no query is handed out after it.
    """

    measurement: str
    question: str
    domain: Domain
    quantiles: tuple[float, ...]
    epsilon: float
    flip_threshold: int
    protocol: str
    options: tuple[tuple[str, str | int | bool | None], ...]
    interval: float | None
    planned_users: int
    waves: Waves
    opens: int
    deadline: int
    issuer: str
    nonce: str
    trust: str = "local"
    version: int = VERSION

    def __post_init__(self) -> None:
        _check_manifest(self)

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "measurement": self.measurement,
            "question": self.question,
            "domain": domain_to_wire(self.domain),
            "quantiles": [real_to_wire(q) for q in self.quantiles],
            "epsilon": real_to_wire(self.epsilon),
            "flip_threshold": whole_to_wire(self.flip_threshold),
            "trust": {"model": self.trust},
            "protocol": {"name": self.protocol, "options": dict(self.options)},
            "interval": None if self.interval is None else real_to_wire(self.interval),
            "planned_users": self.planned_users,
            "waves": {"count": self.waves.count, "seconds": self.waves.seconds},
            "opens": self.opens,
            "deadline": self.deadline,
            "issuer": self.issuer,
            "nonce": self.nonce,
        }

    def to_bytes(self) -> bytes:
        return canonical(self.to_dict())

    @property
    def id(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_dict(cls, form: Any) -> Manifest:
        names = {f.name for f in fields(cls)} - {"options"}
        if isinstance(form, dict) and form.get("version") != VERSION:
            raise WireError(f"manifest version {form.get('version')!r:.40} is unknown; this reads {VERSION}")
        exact_fields(form, names, "manifest")
        trust = exact_fields(form["trust"], ("model",), "trust model")["model"]
        protocol = exact_fields(form["protocol"], ("name", "options"), "protocol")
        waves = exact_fields(form["waves"], ("count", "seconds"), "waves")
        if not isinstance(protocol["options"], dict):
            raise WireError("a protocol's options are a JSON object")
        if not isinstance(form["quantiles"], list) or len(form["quantiles"]) > 100:
            raise WireError("quantiles is a list of at most 100 decimal strings")
        return cls(
            measurement=form["measurement"],
            question=form["question"],
            domain=domain_from_wire(form["domain"]),
            quantiles=tuple(real_from_wire(q, "quantile") for q in form["quantiles"]),
            epsilon=real_from_wire(form["epsilon"], "epsilon"),
            flip_threshold=whole_from_wire(form["flip_threshold"], "flip_threshold"),
            trust=trust,
            protocol=protocol["name"],
            options=tuple(sorted(protocol["options"].items())),
            interval=None if form["interval"] is None else real_from_wire(form["interval"], "interval"),
            planned_users=form["planned_users"],
            waves=Waves(waves["count"], waves["seconds"]),
            opens=form["opens"],
            deadline=form["deadline"],
            issuer=form["issuer"],
            nonce=form["nonce"],
            version=form["version"],
        )


def _whole_in(value: Any, low: int, high: int, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise WireError(f"{name} is a whole number in {low} .. {high}, got {value!r:.60}")


def _check_manifest(m: Manifest) -> None:
    if type(m.version) is not int or m.version != VERSION:
        raise WireError(f"manifest version {m.version!r:.40} is unknown; this reads {VERSION}")
    if not isinstance(m.measurement, str) or not _MEASUREMENT.fullmatch(m.measurement):
        raise WireError(
            f"measurement is a name of 1 to 100 of a-z 0-9 . _ -, starting with a letter or digit, "
            f"got {m.measurement!r:.120}"
        )
    if not isinstance(m.question, str) or not 1 <= len(m.question) <= 500 or not m.question.isprintable():
        raise WireError("question is a text of 1 to 500 printable characters on one line")
    if m.domain.size < 2:
        raise WireError("a domain of one value has nothing to ask")
    if isinstance(m.domain, Grid) and len(m.domain.edges) > MAX_EDGES:
        raise WireError(f"a grid in a manifest has at most {MAX_EDGES} edges, got {len(m.domain.edges)}")
    try:
        check_quantiles(m.quantiles)
        check_epsilon(m.epsilon)
        check_flip_threshold(m.flip_threshold)
        if m.interval is not None:
            check_probability(m.interval, "interval")
    except InvalidInput as error:
        raise WireError(str(error)) from error
    if m.flip_threshold != flip_threshold(m.epsilon):
        raise WireError(
            f"flip_threshold {m.flip_threshold} is not the coin of epsilon {m.epsilon!r}, "
            f"which is {flip_threshold(m.epsilon)}"
        )
    if m.trust != "local":
        raise TrustError(f"trust model {m.trust!r:.60} is unknown; this version knows 'local'")
    if not isinstance(m.protocol, str) or not _NAME.fullmatch(m.protocol):
        raise WireError(f"protocol is a short lower-case name, got {m.protocol!r:.60}")
    if len(m.options) > 20:
        raise WireError(f"a protocol has at most 20 options, got {len(m.options)}")
    for name, value in m.options:
        if not _NAME.fullmatch(name) or not isinstance(value, str | int | bool | None):
            raise WireError(f"option {name!r:.60} is not a name with a string, whole number, boolean or null")
        if isinstance(value, str) and len(value) > 100:
            raise WireError(f"option {name!r} is longer than 100 characters")
    _whole_in(m.planned_users, 1, SAFE_INTEGER, "planned_users")
    _whole_in(m.waves.count, 1, MAX_WAVES, "waves.count")
    _whole_in(m.waves.seconds, 0, 366 * 86_400, "waves.seconds")
    _whole_in(m.opens, 0, SAFE_INTEGER, "opens")
    _whole_in(m.deadline, m.opens + 1 if isinstance(m.opens, int) else 0, SAFE_INTEGER, "deadline")
    if m.opens + (m.waves.count - 1) * m.waves.seconds >= m.deadline:
        raise WireError("the last wave opens at or after the deadline")
    check_hash(m.issuer, "issuer")
    if not isinstance(m.nonce, str) or not _HEX32.fullmatch(m.nonce):
        raise WireError("nonce is 32 lower-case hex digits")


def new_nonce() -> str:
    return secrets.token_hex(16)


_SIGNED = b"privquant/manifest/1\x00"


def sign_manifest(manifest: Manifest, key: Ed25519PrivateKey) -> bytes:
    """The envelope {"manifest": .., "signature": ..} as canonical JSON."""
    if public_key_of(key) != manifest.issuer:
        raise InvalidInput("the manifest names another issuer than the key that is to sign it")
    signature = key.sign(_SIGNED + manifest.to_bytes()).hex()
    return canonical({"manifest": manifest.to_dict(), "signature": signature})


def open_envelope(body: bytes, *, campaign_id: str, key_fingerprint: str) -> Manifest:
    """The manifest of an envelope, if it is the one named and signed by the key named; else WireError."""
    form = parse_object(body, MAX_MANIFEST, ("manifest", "signature"))
    manifest = Manifest.from_dict(form["manifest"])
    if manifest.id != campaign_id:
        raise SignatureError(f"the manifest's hash is {manifest.id}, the invite names {campaign_id}")
    if fingerprint(manifest.issuer) != key_fingerprint:
        raise SignatureError(
            f"the manifest's issuer has the fingerprint {fingerprint(manifest.issuer)}, "
            f"the invite names {key_fingerprint}"
        )
    signature = form["signature"]
    if not isinstance(signature, str) or not re.fullmatch(r"[0-9a-f]{128}", signature):
        raise SignatureError("the signature is not 128 lower-case hex digits")
    try:
        issuer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(manifest.issuer))
        issuer.verify(bytes.fromhex(signature), _SIGNED + manifest.to_bytes())
    except (InvalidSignature, ValueError) as error:
        raise SignatureError("the manifest's signature does not verify") from error
    return manifest

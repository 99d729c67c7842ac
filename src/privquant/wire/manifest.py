"""The manifest: what a campaign asks, of whom and at what privacy.

It never changes: its id is the SHA-256 of its canonical JSON and it is signed with Ed25519. An unknown field or
version is an error, never ignored. Version 1 is the local trust model, version 2 the shuffled one.

It is served in an envelope, signed by its issuer and, in shuffle mode, accepted by its shuffler, who signs the id
of a campaign that it has agreed to shuffle, under the key that the manifest names. Without it an issuer could name
a shuffler who knows nothing of the campaign, and be it itself. A device takes a shuffled campaign only with both.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, fields
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant.domain import Domain, Grid, check_domain, domain_from_dict
from privquant.errors import InvalidInput
from privquant.privacy.coin import check_flip_threshold, flip_threshold
from privquant.validation import check_epsilon, check_probability, check_quantiles
from privquant.wire import signing
from privquant.wire.form import (
    MAX_MANIFEST,
    SAFE_INTEGER,
    SHUFFLED_VERSION,
    VERSION,
    SignatureError,
    TrustError,
    WireError,
    canonical,
    check_hash,
    exact_fields,
    fingerprint,
    is_hex,
    parse_json,
    public_key_of,
    real_from_wire,
    real_to_wire,
    whole_from_wire,
    whole_in,
    whole_to_wire,
)
from privquant.wire.shuffle_terms import RoundTerms, Shuffle
from privquant.wire.signing import check_signature, sign

MAX_EDGES = 10_000
MAX_WAVES = 10_000
_LABELS = {VERSION: signing.MANIFEST_1, SHUFFLED_VERSION: signing.MANIFEST_2}

_MEASUREMENT = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
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
    trust:       "local" (version 1) or "shuffle" (version 2, which has `shuffle`).
    flip_threshold: the coin of epsilon; in version 2, where each round has its own, the most honest of them.
    interval:    confidence of the certified interval that is asked for, or None.
    deadline:    no query is handed out after it.
    shuffle:     rounds, shuffler and seal key of version 2.
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
    shuffle: Shuffle | None = None

    def __post_init__(self) -> None:
        _check_manifest(self)

    @property
    def rounds(self) -> tuple[RoundTerms, ...]:
        """The rounds in which a shuffled campaign is answered; a campaign in the local trust model has none."""
        return () if self.shuffle is None else self.shuffle.rounds

    @property
    def coins(self) -> tuple[int, ...]:
        """Every coin that a device may be told to throw, by its flip threshold."""
        return tuple(row.coin for row in self.rounds) or (self.flip_threshold,)

    def to_dict(self) -> dict[str, Any]:
        if self.shuffle is None:
            trust = {"flip_threshold": whole_to_wire(self.flip_threshold), "trust": {"model": self.trust}}
        else:
            trust = {"trust": self.shuffle.to_wire()}
        return trust | {
            "version": self.version,
            "measurement": self.measurement,
            "question": self.question,
            "domain": domain_to_wire(self.domain),
            "quantiles": [real_to_wire(q) for q in self.quantiles],
            "epsilon": real_to_wire(self.epsilon),
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
        names = {f.name for f in fields(cls)} - {"options", "shuffle"}
        version = _check_version(form.get("version") if isinstance(form, dict) else VERSION)
        if version == SHUFFLED_VERSION:
            names -= {"flip_threshold"}
        exact_fields(form, names, "manifest")
        shuffle = None
        if version == SHUFFLED_VERSION:
            _check_model(form["trust"], "shuffle")
            shuffle = Shuffle.from_wire(form["trust"])
        trust = "shuffle" if shuffle else exact_fields(form["trust"], ("model",), "trust model")["model"]
        protocol = exact_fields(form["protocol"], ("name", "options"), "protocol")
        waves = exact_fields(form["waves"], ("count", "seconds"), "waves")
        if not isinstance(protocol["options"], dict):
            raise WireError("a protocol's options are a JSON object")
        if not isinstance(form["quantiles"], list) or len(form["quantiles"]) > 100:
            raise WireError("quantiles is a list of at most 100 decimal strings")
        as_they_are = ("measurement", "question", "planned_users", "opens", "deadline", "issuer", "nonce")
        return cls(
            **{name: form[name] for name in as_they_are},
            domain=domain_from_wire(form["domain"]),
            quantiles=tuple(real_from_wire(q, "quantile") for q in form["quantiles"]),
            epsilon=real_from_wire(form["epsilon"], "epsilon"),
            flip_threshold=(
                shuffle.most_honest_coin if shuffle else whole_from_wire(form["flip_threshold"], "flip_threshold")
            ),
            trust=trust,
            protocol=protocol["name"],
            options=tuple(sorted(protocol["options"].items())),
            interval=None if form["interval"] is None else real_from_wire(form["interval"], "interval"),
            waves=Waves(**waves),
            version=version,
            shuffle=shuffle,
        )


def _check_version(version: Any) -> int:
    if type(version) is not int or version not in (VERSION, SHUFFLED_VERSION):
        raise WireError(f"manifest version {version!r:.40} is unknown; this reads {VERSION} and {SHUFFLED_VERSION}")
    return version


def _check_model(trust: Any, wanted: str) -> None:
    model = trust.get("model") if isinstance(trust, dict) else trust
    if model != wanted:
        raise TrustError(f"trust model {model!r:.60} is unknown; this version knows {wanted!r}")


def _check_manifest(m: Manifest) -> None:
    _check_version(m.version)
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
    _check_trust(m)
    if not isinstance(m.protocol, str) or not _NAME.fullmatch(m.protocol):
        raise WireError(f"protocol is a short lower-case name, got {m.protocol!r:.60}")
    if len(m.options) > 20:
        raise WireError(f"a protocol has at most 20 options, got {len(m.options)}")
    for name, value in m.options:
        if not _NAME.fullmatch(name) or not isinstance(value, str | int | bool | None):
            raise WireError(f"option {name!r:.60} is not a name with a string, whole number, boolean or null")
        if isinstance(value, str) and len(value) > 100:
            raise WireError(f"option {name!r} is longer than 100 characters")
    whole_in(m.planned_users, 1, SAFE_INTEGER, "planned_users")
    whole_in(m.waves.count, 1, MAX_WAVES, "waves.count")
    whole_in(m.waves.seconds, 0, 366 * 86_400, "waves.seconds")
    whole_in(m.opens, 0, SAFE_INTEGER, "opens")
    whole_in(m.deadline, m.opens + 1 if isinstance(m.opens, int) else 0, SAFE_INTEGER, "deadline")
    if m.opens + (m.waves.count - 1) * m.waves.seconds >= m.deadline:
        raise WireError("the last wave opens at or after the deadline")
    check_hash(m.issuer, "issuer")
    if not is_hex(m.nonce, 32):
        raise WireError("nonce is 32 lower-case hex digits")


def _check_trust(m: Manifest) -> None:
    if m.version == VERSION and m.flip_threshold != flip_threshold(m.epsilon):
        raise WireError(
            f"flip_threshold {m.flip_threshold} is not the coin of epsilon {m.epsilon!r}, "
            f"which is {flip_threshold(m.epsilon)}"
        )
    _check_model({"model": m.trust}, "local" if m.version == VERSION else "shuffle")
    if (m.shuffle is None) != (m.version == VERSION):
        raise WireError("a manifest has rounds, a shuffler and a seal key in version 2, and in no other")
    if m.shuffle is not None and m.flip_threshold != m.shuffle.most_honest_coin:
        raise WireError("flip_threshold is not the most honest coin of the rounds")


class NotShuffled(WireError, InvalidInput):
    """A call or a message that is for shuffled campaigns only."""


def terms_of(manifest: Manifest) -> Shuffle:
    """The terms of a campaign in the shuffle model; NotShuffled of any other."""
    if manifest.shuffle is None:
        raise NotShuffled("this campaign is in the local trust model, which has no shuffler and no rounds")
    return manifest.shuffle


def new_nonce() -> str:
    return secrets.token_hex(16)


def sign_manifest(manifest: Manifest, key: Ed25519PrivateKey) -> bytes:
    """The envelope {"manifest": .., "signature": ..} as canonical JSON."""
    if public_key_of(key) != manifest.issuer:
        raise InvalidInput("the manifest names another issuer than the key that is to sign it")
    signature = sign(_LABELS[manifest.version], manifest.to_bytes(), key)
    return canonical({"manifest": manifest.to_dict(), "signature": signature})


def accept_manifest(envelope: bytes, key: Ed25519PrivateKey, *, campaign_id: str, key_fingerprint: str) -> bytes:
    """The envelope that a shuffler serves: the issuer's, with the shuffler's "accepted" in it."""
    manifest = open_issued(envelope, campaign_id=campaign_id, key_fingerprint=key_fingerprint)
    if public_key_of(key) != terms_of(manifest).key:
        raise InvalidInput("the manifest names another shuffler than the key that is to accept it")
    accepted = sign(signing.ACCEPTED, bytes.fromhex(manifest.id), key)
    return canonical(parse_json(envelope, MAX_MANIFEST) | {"accepted": accepted})


def open_envelope(body: bytes, *, campaign_id: str, key_fingerprint: str) -> Manifest:
    """The manifest of an envelope, if it is the one named and signed by the key named; else WireError.

    This is how a device reads: a campaign in shuffle mode must have been accepted by its shuffler.
    """
    form = _form(body)
    manifest = _open(form, campaign_id, key_fingerprint, accepted="accepted" in form)
    if manifest.shuffle is not None:
        accepted, key = form.get("accepted"), manifest.shuffle.key
        check_signature(signing.ACCEPTED, bytes.fromhex(manifest.id), accepted, key, "shuffler's acceptance")
    return manifest


def open_issued(body: bytes, *, campaign_id: str, key_fingerprint: str) -> Manifest:
    """The manifest of an envelope as its issuer signed it: how a shuffler reads a campaign that it is to accept."""
    return _open(_form(body), campaign_id, key_fingerprint, accepted=False)


def _form(body: bytes) -> dict[str, Any]:
    form = parse_json(body, MAX_MANIFEST)
    if not isinstance(form, dict):
        raise WireError(f"an envelope is a JSON object, got {type(form).__name__}")
    return form


def _open(form: dict[str, Any], campaign_id: str, key_fingerprint: str, *, accepted: bool) -> Manifest:
    exact_fields(form, ("manifest", "signature", *(("accepted",) if accepted else ())), "message")
    manifest = Manifest.from_dict(form["manifest"])
    if manifest.id != campaign_id:
        raise SignatureError(f"the manifest's hash is {manifest.id}, the invite names {campaign_id}")
    if fingerprint(manifest.issuer) != key_fingerprint:
        raise SignatureError(
            f"the manifest's issuer has the fingerprint {fingerprint(manifest.issuer)}, "
            f"the invite names {key_fingerprint}"
        )
    if accepted and manifest.shuffle is None:
        raise WireError("a campaign in the local trust model has no shuffler to accept it")
    check_signature(_LABELS[manifest.version], manifest.to_bytes(), form["signature"], manifest.issuer, "manifest")
    return manifest

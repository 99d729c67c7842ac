"""Invites: a URL that names a campaign, its issuer's key, and a secret that is never sent as part of a URL.

The path has the campaign's id; the fragment, which no browser or client sends, has the one-time token (or the
secret of an open link) and the fingerprint of the issuer's key.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from privquant.wire.form import WireError, check_code, check_hash, check_token, is_hex

LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


@dataclass(frozen=True, slots=True)
class Invite:
    """Where to answer, and the trust anchor. Exactly one of `token` and `link` is given.

    Plain http has a form here; whether it is used is for the device's policy, which refuses it by default except to
    this machine itself (`LOOPBACK`).

    token: a one-time token issued for one person.
    link:  the secret of an open link: the device makes its own token and claims a place for it.
    code:  of an open link that needs one; it may be part of the address, or told apart from it.
    """

    base: str
    campaign_id: str
    key_fingerprint: str
    token: str | None = None
    link: str | None = None
    code: str | None = None

    def __post_init__(self) -> None:
        parts = urlsplit(self.base)
        if parts.scheme not in ("https", "http") or not parts.hostname:
            raise WireError(f"an invite's address starts with https://, got {self.base!r:.80}")
        if parts.query or parts.fragment or parts.username is not None or self.base.endswith("/"):
            raise WireError("an invite's address has no user, query or closing slash")
        check_hash(self.campaign_id, "campaign id")
        if not is_hex(self.key_fingerprint, 32):
            raise WireError("a key fingerprint is 32 lower-case hex digits")
        if (self.token is None) == (self.link is None):
            raise WireError("an invite has either a token or an open link's secret")
        check_token(self.token if self.token is not None else self.link, "token")
        if self.code is not None:
            if self.link is None:
                raise WireError("a code belongs to an open link; an invite with a token of its own has none")
            check_code(self.code)

    def to_url(self) -> str:
        secret = f"t={self.token}" if self.token is not None else f"l={self.link}"
        code = "" if self.code is None else f"&c={self.code}"
        return f"{self.base}/c/{self.campaign_id}#{secret}&k={self.key_fingerprint}{code}"

    @classmethod
    def parse(cls, url: str) -> Invite:
        if not isinstance(url, str) or len(url) > 2_000 or not url.isascii() or not url.isprintable():
            raise WireError("an invite is a URL of at most 2000 printable ASCII characters")
        address, hash_mark, fragment = url.strip().partition("#")
        base, _, campaign_id = address.rpartition("/c/")
        if not base or not hash_mark:
            raise WireError("an invite has the form https://host/c/<campaign>#t=<token>&k=<fingerprint>")
        found: dict[str, str] = {}
        for part in fragment.split("&"):
            name, _, value = part.partition("=")
            if name not in ("t", "l", "k", "c") or name in found:
                raise WireError(f"unknown or repeated part {name!r:.20} in an invite; it has t or l, k, maybe c")
            found[name] = value
        return cls(base, campaign_id, found.get("k", ""), found.get("t"), found.get("l"), found.get("c"))

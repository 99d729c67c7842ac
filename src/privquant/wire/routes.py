"""The addresses of a campaign: one table a role, which device, servers and API document all read; and the invite.

An invite is a URL that names a campaign, its issuer's key, and a secret that is never sent as part of a URL. The
path has the campaign's id; the fragment, which no browser or client sends, has the one-time token (or the secret of
an open link) and the fingerprint of the issuer's key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from privquant.wire.exchange import MAX_ROUND_ANSWER
from privquant.wire.form import (
    MAX_BATCH_REQUEST,
    MAX_MANIFEST,
    MAX_REQUEST,
    WireError,
    check_code,
    check_hash,
    check_token,
    is_hex,
)

LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


@dataclass(frozen=True, slots=True)
class Route:
    """One address. most_sent, most_answered: bytes a request's body and its answer may have."""

    name: str
    method: str
    most_sent: int
    most_answered: int


MANIFEST = Route("manifest", "GET", 0, MAX_MANIFEST)
CLAIMS = Route("claims", "POST", MAX_REQUEST, MAX_REQUEST)
QUERY = Route("query", "POST", MAX_REQUEST, MAX_REQUEST)
REPORTS = Route("reports", "POST", MAX_REQUEST, MAX_REQUEST)
BATCH = Route("reports:batch", "POST", MAX_BATCH_REQUEST, MAX_BATCH_REQUEST)
ROUTES = (MANIFEST, CLAIMS, QUERY, REPORTS, BATCH)
"""What devices speak to in the local trust model, at the aggregator."""

ROUND_QUERY = Route("query", "POST", MAX_REQUEST, MAX_ROUND_ANSWER)
ANNOUNCEMENTS = Route("announcements", "POST", MAX_REQUEST, MAX_REQUEST)
SHUFFLER_ROUTES = (MANIFEST, CLAIMS, ROUND_QUERY, REPORTS, ANNOUNCEMENTS)
"""What devices, and with announcements the aggregator, speak to at a shuffler."""

BATCHES = Route("batches", "POST", MAX_BATCH_REQUEST, MAX_REQUEST)
NOTICES = Route("notices", "POST", MAX_REQUEST, MAX_REQUEST)
SHUFFLED_ROUTES = (MANIFEST, BATCHES, NOTICES)
"""What a shuffler speaks to at the aggregator."""

_PATH = re.compile(r"/v1/campaigns/([^/]+)/([a-z:]+)")


def path_of(campaign_id: str, what: str) -> str:
    """The path of a campaign's resource, by its route's name."""
    return f"/v1/campaigns/{campaign_id}/{what}"


def route_of(path: str, routes: Iterable[Route] = ROUTES) -> tuple[str, Route] | None:
    """What stands for the campaign's id in a path, and the route, if it is the path of one."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    return next(((found[1], route) for route in routes if route.name == found[2]), None)


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

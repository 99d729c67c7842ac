"""The campaign an invite names: fetched over an encrypted way, and taken only if it is the one that was named.

Hash and issuer key come from the invite; no secret of the invite is sent to fetch a manifest.
"""

from dataclasses import replace

from privquant import wire
from privquant.device.refusals import InviteRefused, ManifestRefused, TransportRefused
from privquant.device.retries import Caller, Patience, reading
from privquant.device.transport import Origin, Transport
from privquant.errors import InvalidInput


def read_invite(invite: str | wire.Invite) -> wire.Invite:
    if isinstance(invite, wire.Invite):
        return invite
    with reading(InviteRefused, "invite-malformed", "this is not an invite"):
        return wire.Invite.parse(invite)


def with_code(invite: wire.Invite, typed: str) -> wire.Invite:
    """The invite of an open link with the code that was told apart from it."""
    try:
        return replace(invite, code=wire.typed_code(typed))
    except wire.WireError as error:
        raise InvalidInput(f"{error}; got {typed!r:.40}") from error


def origin_of(invite: wire.Invite, *, allow_http: bool = False) -> Origin:
    """Where the invite leads: https, or this machine itself, unless `allow_http`."""
    origin = Origin.of(invite.base)
    if not origin.secure and origin.host not in wire.LOOPBACK and not allow_http:
        raise TransportRefused(
            "insecure",
            f"{invite.base} is not encrypted; plain http is allowed to this machine only, unless a policy says "
            "allow_http",
        )
    return origin


def manifest_of(invite: wire.Invite, caller: Caller) -> wire.Manifest:
    """The campaign's manifest, verified against the invite."""
    body = caller.call(wire.MANIFEST, invite.campaign_id).body
    forged = "the campaign is not the one of the invite"
    unknown = "this device does not know the campaign's trust model"
    with (
        reading(ManifestRefused, "manifest-malformed", "the manifest cannot be read"),
        reading(ManifestRefused, "trust-model", unknown, wire.TrustError),
        reading(ManifestRefused, "manifest-forged", forged, wire.SignatureError),
    ):
        return wire.open_envelope(body, campaign_id=invite.campaign_id, key_fingerprint=invite.key_fingerprint)


def look_at(invite: str | wire.Invite, patience: Patience | None = None) -> wire.Manifest:
    """The campaign of an invite, without answering it: what a device would check its policy against."""
    named = read_invite(invite)
    origin = origin_of(named)
    with Transport() as transport:
        return manifest_of(named, Caller(transport, origin, patience or Patience()))

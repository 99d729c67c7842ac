"""Canonical JSON, and the one spelling of every number, token and key.

Keys sorted, no spaces, UTF-8, no duplicate keys. A field that may exceed 2^53 or have a fraction is always a
decimal string, every other number a whole number, so that any JSON reader (JavaScript among them) can check a
hash or a signature.
"""

import base64
import binascii
import hashlib
import json
import math
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privquant.errors import PrivquantError

VERSION = 1
SHUFFLED_VERSION = 2
"""Of a manifest in the shuffled trust model."""
SAFE_INTEGER = 2**53 - 1

MAX_REQUEST = 4_096
"""Bytes in the body of a query, claim or report; also in a device's answer to any of them."""
MAX_MANIFEST = 262_144
BATCH_LIMIT = 10_000
MAX_BATCH_REQUEST = 4 * 2**20

TOKEN_BYTES = 16

_CODE_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"  # none that is read for another
CODE_LENGTH = 8

_HEX = re.compile(r"[0-9a-f]*")
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,19}")


class WireError(PrivquantError, ValueError):
    """A message that does not have the form the wire format asks for; the sender's fault."""


class TrustError(WireError):
    """A manifest in a trust model that this version does not know."""


class SignatureError(WireError):
    """A manifest that is not the one the invite names, or not signed by the key it names."""


def canonical(form: Any) -> bytes:
    """The one byte string of a JSON value. Fractions, and whole numbers beyond 2^53, are refused."""
    _check_numbers(form)
    try:
        return _encoder.encode(form).encode("utf-8")
    except (TypeError, ValueError) as error:
        raise WireError(f"not canonical JSON: {error}") from error


def _check_numbers(form: Any) -> None:
    if isinstance(form, float):
        raise WireError(f"a number with a fraction travels as a decimal string, got {form!r}")
    if isinstance(form, int) and abs(form) > SAFE_INTEGER:
        raise WireError(f"a whole number beyond 2^53 travels as a decimal string, got {form}")
    if isinstance(form, Mapping):
        for key, value in form.items():
            if not isinstance(key, str):
                raise WireError(f"a key is a string, got {key!r}")
            _check_numbers(value)
    elif isinstance(form, list | tuple):
        for value in form:
            _check_numbers(value)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    form = dict(pairs)
    if len(form) != len(pairs):
        raise WireError("a JSON object names a key twice")
    return form


def _no_fraction(_text: str) -> Any:
    raise WireError("a number with a fraction travels as a decimal string")  # not repeated: it may be a bit


def _whole(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > SAFE_INTEGER:
        raise WireError(f"a whole number beyond 2^53 travels as a decimal string, got {len(text)} digits")
    return int(text)


_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_decoder = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_no_fraction, parse_constant=_no_fraction, parse_int=_whole
)


def parse_json(body: bytes, limit: int) -> Any:
    """JSON of at most `limit` bytes, without duplicate keys and without fractions."""
    if len(body) > limit:
        raise WireError(f"at most {limit} bytes are allowed, got {len(body)}")
    try:
        return _decoder.decode(body.decode("utf-8"))
    except WireError:
        raise
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise WireError(f"not JSON: {type(error).__name__}") from error


def parse_object(body: bytes, limit: int, names: Iterable[str]) -> dict[str, Any]:
    """A JSON object with exactly these keys."""
    return exact_fields(parse_json(body, limit), names, "message")


def exact_fields(form: Any, names: Iterable[str], what: str) -> dict[str, Any]:
    if not isinstance(form, dict):
        raise WireError(f"a {what} is a JSON object, got {type(form).__name__}")
    wanted = set(names)
    unknown, missing = sorted(set(form) - wanted), sorted(wanted - set(form))
    if unknown:
        raise WireError(f"unknown field {unknown[0][:60]!r} in a {what}; it has {', '.join(sorted(wanted))}")
    if missing:
        raise WireError(f"a {what} lacks the field {missing[0]!r}")
    return form


def parse_status(body: bytes, allowed: Sequence[str], who: str = "the answer") -> str:
    """The status of an answer that is one of these; `who` says it, in a refusal of any other."""
    status = parse_object(body, MAX_REQUEST, ("status",))["status"]
    if status not in allowed:
        said = " or ".join(map(repr, allowed)) if len(allowed) == 2 else f"one of {', '.join(map(repr, allowed))}"
        raise WireError(f"{who} says {said}, got {status!r:.40}")
    return str(status)


class Receipts(NamedTuple):
    """The two answers to a request that may be repeated: 201 when it is done now, 200 when it was done before.

    who: what says it, in a refusal of anything else.
    """

    now: str
    before: str
    who: str

    def body(self, new: bool) -> bytes:
        return canonical({"status": self.now if new else self.before})

    def parse(self, body: bytes) -> str:
        return parse_status(body, (self.now, self.before), self.who)


def whole_in(value: Any, low: int, high: int, name: str) -> int:
    """A whole number that travels as a number."""
    if type(value) is not int or not low <= value <= high:
        raise WireError(f"{name} is a whole number in {low} .. {high}, got {value!r:.60}")
    return value


def whole_to_wire(number: int) -> str:
    return str(int(number))


def whole_from_wire(text: Any, name: str) -> int:
    """A whole number in its one decimal form: no sign but '-', no leading zero, no space."""
    if not isinstance(text, str) or not _WHOLE.fullmatch(text):
        raise WireError(f"{name} is a decimal string of a whole number, got {text!r:.60}")
    return int(text)


def real_to_wire(number: float) -> str:
    return repr(float(number))


def real_from_wire(text: Any, name: str) -> float:
    """A finite number in its one shortest decimal form."""
    try:
        value = float(text) if isinstance(text, str) and len(text) <= 40 else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or repr(value) != text:
        raise WireError(f"{name} is a decimal string in its shortest form, such as '0.5', got {text!r:.60}")
    return value


def to_base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def from_base64(text: Any, size: int, name: str) -> bytes:
    length = (size * 8 + 5) // 6
    if isinstance(text, str) and len(text) == length and text.isascii():
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-length % 4))
        except binascii.Error:
            data = b""
        if len(data) == size and to_base64(data) == text:  # one byte string, one spelling
            return data
    raise WireError(f"{name} is {length} characters of unpadded base64url ({size} bytes)")


def new_token() -> str:
    """A fresh one-time token: 128 bits from the operating system."""
    return token_from_bytes(secrets.token_bytes(TOKEN_BYTES))


def token_from_bytes(data: bytes) -> str:
    """The token that these 16 bytes spell."""
    if len(data) != TOKEN_BYTES:
        raise WireError(f"a token has {TOKEN_BYTES} bytes, got {len(data)}")
    return to_base64(data)


def check_token(token: Any, name: str = "token") -> str:
    from_base64(token, TOKEN_BYTES, name)
    return str(token)


def new_code() -> str:
    """A fresh code of an open link: 40 bits from the operating system, to be told and typed by people."""
    return "".join(secrets.choice(_CODE_LETTERS) for _ in range(CODE_LENGTH))


def check_code(code: Any) -> str:
    if not isinstance(code, str) or len(code) != CODE_LENGTH or not set(code) <= set(_CODE_LETTERS):
        raise WireError(f"a code is {CODE_LENGTH} characters of 0-9 a-z without i, l, o and u")
    return code


def typed_code(text: str) -> str:
    """The code that a person meant who typed this: capitals, spaces and dashes, o for 0, i and l for 1."""
    bare = text.lower().replace("-", "").replace(" ", "")
    return check_code(bare.translate(str.maketrans("oil", "011")))


def token_hash(token: str) -> str:
    """What a device sends to get its query: SHA-256 of a label and the token's 16 bytes, in hex."""
    return hashlib.sha256(b"privquant/token/1\x00" + from_base64(token, TOKEN_BYTES, "token")).hexdigest()


def is_hex(text: Any, digits: int) -> TypeGuard[str]:
    """Whether this is a text of so many lower-case hex digits."""
    return isinstance(text, str) and len(text) == digits and _HEX.fullmatch(text) is not None


def check_hash(text: Any, name: str) -> str:
    if not is_hex(text, 64):
        given = f"{len(text)} characters" if isinstance(text, str) else type(text).__name__
        raise WireError(f"{name} is 64 lower-case hex digits, got {given}")  # not repeated: it may be a token
    return text


def fingerprint(public_key: str) -> str:
    """The first 128 bits of the SHA-256 of a public key (given in hex), in hex."""
    return hashlib.sha256(bytes.fromhex(check_hash(public_key, "public key"))).hexdigest()[:32]


def public_key_of(key: Ed25519PrivateKey) -> str:
    """The public key in hex."""
    return key.public_key().public_bytes_raw().hex()

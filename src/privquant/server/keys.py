"""The signing keys: created on first start, readable by their owner alone, kept for as long as campaigns live.

A folder of Ed25519 keys, one file each, named by fingerprint; the file `current` names the one that signs new
manifests. Rotation adds a key and turns `current` to it; older keys stay, because the tickets and token ids of
campaigns they issued are derived from them. No secret is in the database: hosts that serve one database share the
folder, or are given the same keys in the environment (PRIVQUANT_SIGNING_KEYS).
"""

import fcntl
import os
from abc import ABC, abstractmethod
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from privquant.errors import InvalidInput, PrivquantError
from privquant.wire import fingerprint, public_key_of

SIGNING_KEYS = "PRIVQUANT_SIGNING_KEYS"
_PEM_END = "-----END PRIVATE KEY-----"


class KeyUnusable(PrivquantError):
    """A key that is there and cannot be used."""


class KeyMissing(KeyUnusable):
    """The key that issued a campaign is not among this server's keys."""


class KeyRing(ABC):
    """The signing keys of a server, wherever they are kept."""

    def __init__(self) -> None:
        self._loaded: dict[str, Ed25519PrivateKey] = {}

    @property
    @abstractmethod
    def current(self) -> Ed25519PrivateKey:
        """The key that signs new manifests."""

    @abstractmethod
    def rotate(self) -> str:
        """Add a key and sign new manifests with it; its fingerprint."""

    @abstractmethod
    def _load(self, name: str) -> Ed25519PrivateKey: ...

    def fingerprints(self) -> list[str]:
        return sorted(self._loaded)

    def by_fingerprint(self, name: str) -> Ed25519PrivateKey:
        """`KeyMissing` if there is no such key."""
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def campaign_secret(self, issuer: str, campaign_id: str) -> bytes:
        """32 bytes that only holders of the issuer's private key can derive; one per campaign."""
        seed = self.by_fingerprint(fingerprint(issuer)).private_bytes_raw()
        derived = HKDF(SHA256(), 32, salt=b"privquant/campaign-secret/1", info=bytes.fromhex(campaign_id))
        return derived.derive(seed)


class KeyFolder(KeyRing):
    """The keys of one folder. Creates the first one if there is none."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise InvalidInput(f"{folder} cannot be the folder of the keys: {error.strerror}") from error
        if not (folder / "current").exists():
            self._make_first()

    def _make_first(self) -> None:
        """One process at a time: of several that start at once, one makes the key and the others find it."""
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if (self.folder / "current").exists():
                return
            if any(self.folder.glob("*.pem")):
                raise InvalidInput(
                    f"{self.folder} holds keys but no file 'current' that names one; restore it from the backup"
                )
            self.rotate()
        finally:
            os.close(handle)

    @property
    def current(self) -> Ed25519PrivateKey:
        return self.by_fingerprint((self.folder / "current").read_text().strip())

    def rotate(self) -> str:
        from cryptography.hazmat.primitives import serialization as s

        key = Ed25519PrivateKey.generate()
        name = fingerprint(public_key_of(key))
        pem = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
        _write_private(self.folder / f"{name}.pem", pem)
        _write_private(self.folder / "current", name.encode() + b"\n")
        return name

    def fingerprints(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.pem"))

    def _load(self, name: str) -> Ed25519PrivateKey:
        path = self.folder / f"{name}.pem"
        if not path.is_file():
            raise KeyMissing(f"the key {name} is not in the key folder; restore it from the backup")
        if path.stat().st_mode & 0o077:
            raise KeyUnusable(f"{path} can be read by others; run: chmod 600 {path}")
        key = load_pem_private_key(path.read_bytes(), password=None)
        if not isinstance(key, Ed25519PrivateKey) or fingerprint(public_key_of(key)) != name:
            raise KeyUnusable(f"{path} is not the Ed25519 key its name says")
        return key


class GivenKeys(KeyRing):
    """Keys given as text: PEM blocks one after the other, the first of which signs new manifests."""

    def __init__(self, text: str) -> None:
        super().__init__()
        for block in text.split(_PEM_END)[:-1]:
            try:
                key = load_pem_private_key((block + _PEM_END).strip().encode(), password=None)
            except ValueError as error:
                raise InvalidInput(f"{SIGNING_KEYS} holds something that is no PEM private key") from error
            if not isinstance(key, Ed25519PrivateKey):
                raise InvalidInput(f"{SIGNING_KEYS} holds a key that is not Ed25519")
            self._loaded[fingerprint(public_key_of(key))] = key
        if not self._loaded:
            raise InvalidInput(f"{SIGNING_KEYS} holds no private key in PEM form")

    @property
    def current(self) -> Ed25519PrivateKey:
        return next(iter(self._loaded.values()))

    def rotate(self) -> str:
        raise InvalidInput(f"the keys are given in {SIGNING_KEYS}: put a new one before them, on every host")

    def _load(self, name: str) -> Ed25519PrivateKey:
        raise KeyMissing(f"the key {name} is not among those of {SIGNING_KEYS}")


def seal_key(keys: KeyRing, issuer: str, nonce: str) -> X25519PrivateKey:
    """The key that opens what is sealed for a shuffled campaign: derived, so that no further secret is to be kept.

    By the manifest's nonce and not its id, which the public half is a part of.
    """
    seed = keys.by_fingerprint(fingerprint(issuer)).private_bytes_raw()
    derived = HKDF(SHA256(), 32, salt=b"privquant/seal-key/2", info=bytes.fromhex(nonce)).derive(seed)
    return X25519PrivateKey.from_private_bytes(derived)


def open_keys(folder: Path) -> KeyRing:
    """The keys of this server: those of the environment if it has any, else those of the folder."""
    given = os.environ.get(SIGNING_KEYS, "")
    return GivenKeys(given) if given.strip() else KeyFolder(folder)


def has_keys(folder: Path) -> bool:
    given = os.environ.get(SIGNING_KEYS, "").strip()
    return bool(given) or (folder / "current").exists() or any(folder.glob("*.pem"))


def _write_private(path: Path, content: bytes) -> None:
    """Write a file no one else may read, whole or not at all."""
    fresh = path.with_name(path.name + f".{os.getpid()}.new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as file:
        file.write(content)
        os.fsync(file)
    os.replace(fresh, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)

"""What a shuffler is started with: flags of `privquant shuffler`, or PRIVQUANT_SHUFFLER_... in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from privquant.errors import InvalidInput

PREFIX = "PRIVQUANT_SHUFFLER_"


@dataclass(frozen=True, slots=True)
class Settings:
    """data:          folder of the SQLite file and the key.
    public_url:    what invites start with; the manifest names it too.
    lease_seconds: how long a device that was given a place in a round keeps it from others. A later report still
                   counts while the round is open.
    retry_seconds: how soon a device asks again when there is no place for it now.
    """

    data: Path = Path("privquant-shuffler")
    host: str = "127.0.0.1"
    port: int = 8475
    public_url: str = ""
    lease_seconds: int = 120
    retry_seconds: int = 5
    log_level: str = "info"

    def __post_init__(self) -> None:
        for name, low, high in (("port", 0, 65_535), ("lease_seconds", 1, 10**6), ("retry_seconds", 1, 3_600)):
            if not low <= getattr(self, name) <= high:
                raise InvalidInput(f"{name} must lie in {low} .. {high}, got {getattr(self, name)}")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise InvalidInput(f"log_level must be debug, info, warning or error, got {self.log_level!r}")
        if self.public_url and urlsplit(self.public_url).scheme not in ("https", "http"):
            raise InvalidInput(f"public_url must start with https:// or http://, got {self.public_url!r}")
        if self.public_url.endswith("/"):
            raise InvalidInput("public_url must not end with a slash")

    @property
    def file(self) -> Path:
        return self.data / "shuffler.sqlite3"

    @property
    def keys(self) -> Path:
        return self.data / "keys"

    @property
    def url(self) -> str:
        """What invites start with."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"http://{host}:{self.port}"

    def environment(self) -> dict[str, str]:
        """These settings as environment variables, for a child process."""
        return {PREFIX + f.name.upper(): str(getattr(self, f.name)) for f in fields(self)}


def settings_from(flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from flags (None = not given) over the environment over the defaults."""
    env = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    for field in fields(Settings):
        given = (flags or {}).get(field.name)
        if given is None:
            given = env.get(PREFIX + field.name.upper()) or None
        if given is None:
            continue
        kind = type(getattr(Settings(), field.name)) if field.name != "data" else Path
        try:
            found[field.name] = kind(given)
        except ValueError as error:
            raise InvalidInput(f"{field.name} must be a whole number, got {given!r}") from error
    return Settings(**found)

"""What a shuffler is started with: flags of `privquant shuffler`, or PRIVQUANT_SHUFFLER_... in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from privquant.aggregator.settings import address, check_common, gathered

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
        check_common(self, {"port": (0, 65_535), "lease_seconds": (1, 10**6), "retry_seconds": (1, 3_600)})

    @property
    def file(self) -> Path:
        return self.data / "shuffler.sqlite3"

    @property
    def keys(self) -> Path:
        return self.data / "keys"

    @property
    def url(self) -> str:
        """What invites start with."""
        return self.public_url or address(self.host, self.port)

    def environment(self) -> dict[str, str]:
        """These settings as environment variables, for a child process."""
        return {PREFIX + f.name.upper(): str(getattr(self, f.name)) for f in fields(self)}


def settings_from(flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from flags (None = not given) over the environment over the defaults."""
    env = os.environ if environment is None else environment
    return Settings(**gathered(Settings, PREFIX, flags or {}, env))

"""What a shuffler is started with: flags of `privquant shuffler`, or PRIVQUANT_SHUFFLER_... in the environment."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from privquant.server.settings import ServerSettings


@dataclass(frozen=True)
class Settings(ServerSettings):
    """
    admin_port:    a second port, for metrics and health, on this machine unless admin_host says otherwise; 0: none.
    lease_seconds: how long a device that was given a place in a round keeps it from others. A later report still
                   counts while the round is open.
    retry_seconds: how soon a device asks again when there is no place for it now.
    """

    PREFIX = "PRIVQUANT_SHUFFLER_"
    MODULE = "privquant.shuffler.server"
    ROLE = "shuffler"
    BOUNDS: ClassVar = {"admin_port": (0, 65_535), "lease_seconds": (1, 10**6), "retry_seconds": (1, 3_600)}

    data: Path = Path("privquant-shuffler")
    port: int = 8475
    lease_seconds: int = 120
    retry_seconds: int = 5

    @property
    def file(self) -> Path:
        return self.data / "shuffler.sqlite3"

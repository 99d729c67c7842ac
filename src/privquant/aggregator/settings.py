"""What an aggregator is started with: flags of `privquant serve`, PRIVQUANT_... in the environment, or a file."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

from privquant.errors import InvalidInput
from privquant.server.settings import ServerSettings


@dataclass(frozen=True)
class Settings(ServerSettings):
    """
    keys_folder:   folder of the signing keys, where it is not `data`/keys: one that several hosts share.
    database:      postgresql://... ; empty for the embedded SQLite file in `data`.
    admin_host, admin_port: where operators, health and metrics are served; by default to this machine only.
    lease_minutes: how long a device that was asked counts as in flight. A later answer still counts.
    grace_minutes: how long after its deadline a campaign closes itself; never sooner than a lease.
    refresh:       seconds between two looks at the store for changes made by other processes.
    publish:       least seconds between two computations of the next thresholds of a campaign.
    seal_rows:     fresh reports are mixed into the log when there are this many (see store.base).
    snapshot_reports: what is shown of a running campaign moves in steps of at least so many (see snapshots).
    workers:       API processes on one port; more than one needs PostgreSQL.
    """

    PREFIX = "PRIVQUANT_"
    MODULE = "privquant.aggregator.server"
    ROLE = "server"
    BOUNDS: ClassVar = {
        "admin_port": (1, 65_535),
        "lease_minutes": (1, 10**6),
        "grace_minutes": (1, 10**6),
        "snapshot_reports": (1, 10**9),
        "workers": (1, 64),
    }
    MAY_BE_EMPTY = ("database", "public_url")

    data: Path = Path("privquant-data")
    keys_folder: str = ""
    database: str = ""
    port: int = 8470
    admin_port: int = 8471
    lease_minutes: int = 10
    grace_minutes: int = 60
    refresh: float = 0.25
    publish: float = 0.05
    seal_rows: int = 1_024
    snapshot_reports: int = 32
    workers: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seal_rows < 1 or self.refresh <= 0 or self.publish <= 0:
            raise InvalidInput("seal_rows, refresh and publish must be above 0")
        if self.database and urlsplit(self.database).scheme not in ("postgresql", "postgres"):
            raise InvalidInput(
                "database must be postgresql://user@host/name, or left out for the embedded SQLite file"
            )
        if self.workers > 1 and not self.database:
            raise InvalidInput("several workers need --database postgresql://...; SQLite has one writer")

    @property
    def sqlite_file(self) -> Path:
        return self.data / "store.sqlite3"

    @property
    def keys(self) -> Path:
        return Path(self.keys_folder) if self.keys_folder else super().keys

    @property
    def grace(self) -> int:
        """Minutes from a campaign's deadline to its closing: tickets given before it count until then."""
        return max(self.grace_minutes, self.lease_minutes)

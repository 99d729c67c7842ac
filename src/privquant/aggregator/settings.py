"""What a server is started with: flags, then PRIVQUANT_... from the environment, then a file, then defaults."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from privquant.errors import InvalidInput

PREFIX = "PRIVQUANT_"
_AT_HOME = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # who listens everywhere is reached here too


@dataclass(frozen=True, slots=True)
class Settings:
    """
    data:          folder of the embedded store and of the signing keys.
    keys_folder:   folder of the signing keys, where it is not `data`/keys: one that several hosts share.
    database:      postgresql://... ; empty for the embedded SQLite file in `data`.
    public_url:    where devices reach this server; invites start with it.
    admin_host, admin_port: where operators, health and metrics are served; by default to this machine only.
    lease_minutes: how long a device that was asked counts as in flight. A later answer still counts.
    grace_minutes: how long after its deadline a campaign closes itself; never sooner than a lease.
    refresh:       seconds between two looks at the store for changes made by other processes.
    publish:       least seconds between two computations of the next thresholds of a campaign.
    seal_rows:     fresh reports are mixed into the log when there are this many (see store.base).
    snapshot_reports: what is shown of a running campaign moves in steps of at least so many (see snapshots).
    workers:       API processes on one port; more than one needs PostgreSQL.
    """

    data: Path = Path("privquant-data")
    keys_folder: str = ""
    database: str = ""
    host: str = "127.0.0.1"
    port: int = 8470
    admin_host: str = "127.0.0.1"
    admin_port: int = 8471
    public_url: str = ""
    lease_minutes: int = 10
    grace_minutes: int = 60
    refresh: float = 0.25
    publish: float = 0.05
    seal_rows: int = 1_024
    snapshot_reports: int = 32
    workers: int = 1
    log_level: str = "info"

    def __post_init__(self) -> None:
        bounds = {
            "port": (0, 65_535),
            "admin_port": (1, 65_535),
            "lease_minutes": (1, 10**6),
            "grace_minutes": (1, 10**6),
            "snapshot_reports": (1, 10**9),
            "workers": (1, 64),
        }
        check_common(self, bounds)
        if self.admin_port == self.port:
            raise InvalidInput(f"port and admin_port must differ, both are {self.port}")
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
        return Path(self.keys_folder) if self.keys_folder else self.data / "keys"

    @property
    def grace(self) -> int:
        """Minutes from a campaign's deadline to its closing: tickets given before it count until then."""
        return max(self.grace_minutes, self.lease_minutes)

    @property
    def url(self) -> str:
        """What invites start with."""
        return self.public_url or address(self.host, self.port)

    @property
    def admin_url(self) -> str:
        """What an operator's commands speak to, on this machine."""
        return address(_AT_HOME.get(self.admin_host, self.admin_host), self.admin_port)

    def check_reachable(self) -> None:
        """Refuse to make invites that lead nowhere."""
        if self.host in ("0.0.0.0", "::") and not self.public_url:
            raise InvalidInput(
                f"--host {self.host} listens everywhere but is no address that a device can reach: say what "
                "invites are to start with, such as --public-url https://ask.example.org"
            )

    def environment(self) -> dict[str, str]:
        """These settings as environment variables, for a child process."""
        return {PREFIX + f.name.upper(): str(getattr(self, f.name)) for f in fields(self)}


def address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def settings_from(flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from flags (None = not given) over the environment over a file over the defaults.

    The file is named by the flag `config` or by PRIVQUANT_CONFIG.
    """
    env = os.environ if environment is None else environment
    given = dict(flags or {})
    file = given.pop("config", None) or env.get(PREFIX + "CONFIG") or None
    in_file = {} if file is None else read_file(Path(file))
    return Settings(**gathered(Settings, PREFIX, given, env, in_file, may_be_empty=("database", "public_url")))


def gathered(
    form: type[Any],
    prefix: str,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    in_file: Mapping[str, Any] = MappingProxyType({}),
    may_be_empty: tuple[str, ...] = (),
) -> dict[str, Any]:
    """What is given for the fields of a dataclass of settings, each in its own type.

    may_be_empty: fields for which an empty variable is a value, and not as if it were not there.
    """
    found: dict[str, Any] = {}
    for field in fields(form):
        value = flags.get(field.name)
        if value is None:
            value = environment.get(prefix + field.name.upper())
        if value is None or (value == "" and field.name not in may_be_empty):
            value = in_file.get(field.name)
        if value is None:
            continue
        kind = _kind(form, field.name)
        try:
            found[field.name] = kind(value)
        except ValueError as error:
            raise InvalidInput(
                f"{field.name} must be {_IN_WORDS.get(kind, kind.__name__)}, got {value!r}"
            ) from error
    return found


def check_common(settings: Any, bounds: Mapping[str, tuple[int, int]]) -> None:
    """What is wrong with the settings of any server: numbers out of their bounds, levels and addresses."""
    for name, (low, high) in bounds.items():
        if not low <= getattr(settings, name) <= high:
            raise InvalidInput(f"{name} must lie in {low} .. {high}, got {getattr(settings, name)}")
    if settings.log_level not in ("debug", "info", "warning", "error"):
        raise InvalidInput(f"log_level must be debug, info, warning or error, got {settings.log_level!r}")
    if settings.public_url and urlsplit(settings.public_url).scheme not in ("https", "http"):
        raise InvalidInput(f"public_url must start with https:// or http://, got {settings.public_url!r}")
    if settings.public_url.endswith("/"):
        raise InvalidInput("public_url must not end with a slash")


def read_file(file: Path) -> dict[str, Any]:
    """The settings in a TOML file; each under its own name, none that there is not, each of its own type."""
    try:
        form = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} is not TOML: {error}") from error
    names = [field.name for field in fields(Settings)]
    for name, value in form.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
            raise InvalidInput(f"{file}: there is no setting {name!r}{hint}")
        kind = _kind(Settings, name)
        fits = isinstance(value, str) if kind is Path else isinstance(value, kind)
        if not (fits or (kind is float and isinstance(value, int))) or isinstance(value, bool):
            raise InvalidInput(f"{file}: {name} must be {_IN_WORDS.get(kind, 'a text')}, got {value!r}")
    return form


_IN_WORDS: dict[type, str] = {int: "a whole number", float: "a number"}


def _kind(form: type[Any], name: str) -> type:
    default = next(field.default for field in fields(form) if field.name == name)
    return Path if name == "data" else type(default)

"""What any server of ours is started with: flags, then the environment, then a file, then defaults.

A server's own settings are a dataclass that adds its fields and its bounds to `ServerSettings`.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from privquant.errors import InvalidInput

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # a server that listens everywhere is reached here too
_IN_WORDS: dict[type, str] = {int: "a whole number", float: "a number"}


@dataclass(frozen=True)
class ServerSettings:
    """The settings that all servers have.

    data:       folder of the store and of the keys.
    public_url: where devices reach this server; invites start with it.
    admin_host, admin_port: where metrics are served, and what else is not for devices.

    PREFIX: what the names of its environment variables start with. MODULE: what a process of it runs. ROLE: what it
    is called in messages. BOUNDS: the least and the largest value of its numbers. MAY_BE_EMPTY: the settings for
    which an empty variable is a value, and not as if it were not there.
    """

    PREFIX: ClassVar[str]
    MODULE: ClassVar[str]
    ROLE: ClassVar[str]
    BOUNDS: ClassVar[Mapping[str, tuple[int, int]]]
    MAY_BE_EMPTY: ClassVar[tuple[str, ...]] = ()

    data: Path
    host: str = "127.0.0.1"
    port: int = 0
    admin_host: str = "127.0.0.1"
    admin_port: int = 0
    public_url: str = ""
    log_level: str = "info"

    def __post_init__(self) -> None:
        for name, (low, high) in {"port": (0, 65_535), **self.BOUNDS}.items():
            if not low <= getattr(self, name) <= high:
                raise InvalidInput(f"{name} must lie in {low} .. {high}, got {getattr(self, name)}")
        if self.admin_port and self.admin_port == self.port:
            raise InvalidInput(f"port and admin_port must differ, both are {self.port}")
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise InvalidInput(f"log_level must be debug, info, warning or error, got {self.log_level!r}")
        if self.public_url and urlsplit(self.public_url).scheme not in ("https", "http"):
            raise InvalidInput(f"public_url must start with https:// or http://, got {self.public_url!r}")
        if self.public_url.endswith("/"):
            raise InvalidInput("public_url must not end with a slash")

    @property
    def keys(self) -> Path:
        return self.data / "keys"

    @property
    def url(self) -> str:
        """What invites start with."""
        return self.public_url or address(self.host, self.port)

    @property
    def admin_url(self) -> str:
        """Where health is asked for on this machine: the admin listener if there is one, else the only one."""
        host, port = (self.admin_host, self.admin_port) if self.admin_port else (self.host, self.port)
        return address(_EVERYWHERE.get(host, host), port)

    def check_reachable(self) -> None:
        """Refuse to make invites that lead nowhere."""
        if self.host in _EVERYWHERE and not self.public_url:
            raise InvalidInput(
                f"--host {self.host} listens everywhere but is no address that a device can reach: say what "
                "invites are to start with, such as --public-url https://ask.example.org"
            )

    def environment(self) -> dict[str, str]:
        """These settings as environment variables, for a child process."""
        return {self.PREFIX + f.name.upper(): str(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def gather(cls, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> Self:
        """Settings from flags (None = not given) over the environment over a file over the defaults.

        The file is named by the flag `config` or by the environment (PRIVQUANT_CONFIG for the aggregator).
        """
        env, given = os.environ if environment is None else environment, flags or {}
        file = given.get("config") or env.get(cls.PREFIX + "CONFIG")
        in_file = cls._read_file(Path(file)) if file else {}
        found: dict[str, Any] = {}
        for name, kind in cls._types().items():
            value = given.get(name)
            if value is None:
                value = env.get(cls.PREFIX + name.upper())
            if value is None or (value == "" and name not in cls.MAY_BE_EMPTY):
                value = in_file.get(name)
            if value is None:
                continue
            try:
                found[name] = kind(value)
            except ValueError as error:
                expected = _IN_WORDS.get(kind, kind.__name__)
                raise InvalidInput(f"{name} must be {expected}, got {value!r}") from error
        return cls(**found)

    @classmethod
    def _read_file(cls, file: Path) -> dict[str, Any]:
        """The settings in a TOML file; each under its own name, none that there is not, each of its own type."""
        try:
            form = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidInput(f"{file} cannot be read: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{file} is not TOML: {error}") from error
        types = cls._types()
        for name, value in form.items():
            if name not in types:
                near = difflib.get_close_matches(name, types, 1)
                hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(types)}"
                raise InvalidInput(f"{file}: there is no setting {name!r}{hint}")
            kind = types[name]
            fits = isinstance(value, str) if kind is Path else isinstance(value, kind)
            if not (fits or (kind is float and isinstance(value, int))) or isinstance(value, bool):
                raise InvalidInput(f"{file}: {name} must be {_IN_WORDS.get(kind, 'a text')}, got {value!r}")
        return form

    @classmethod
    def _types(cls) -> dict[str, type]:
        return {f.name: Path if isinstance(f.default, Path) else type(f.default) for f in fields(cls)}


def address(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

"""Settings: flags over the environment over a file over defaults; whatever is no setting is refused in words."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from privquant.aggregator.settings import Settings
from privquant.errors import InvalidInput

COMMENTED = Path(__file__).parents[2] / "deploy" / "privquant.toml"


def written(folder: Path, text: str) -> Path:
    file = folder / "privquant.toml"
    file.write_text(text)
    return file


def test_a_flag_wins_over_the_environment_and_it_over_the_file(tmp_path: Path) -> None:
    file = written(
        tmp_path, 'port = 1\nworkers = 3\nlog_level = "error"\ndatabase = "postgresql://h/d"\nrefresh = 2\n'
    )
    environment = {"PRIVQUANT_PORT": "2", "PRIVQUANT_LOG_LEVEL": "debug", "PRIVQUANT_HOST": ""}
    flags = {"config": file, "port": 3, "host": None}
    found = Settings.gather(flags, environment)
    assert (found.port, found.log_level, found.workers, found.refresh) == (3, "debug", 3, 2.0)
    assert isinstance(found.refresh, float)
    assert found.host == Settings().host
    by_name = Settings.gather({}, {"PRIVQUANT_CONFIG": str(file)})
    assert (by_name.port, by_name.database) == (1, "postgresql://h/d")
    assert Settings.gather({}, {}) == Settings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 8470", "there is no setting 'prot'; did you mean port?"),
        ("colour = 1", "there is no setting 'colour'; there are data, host, port, "),
        ('port = "8470"', "port must be a whole number, got '8470'"),
        ("port = true", "port must be a whole number, got True"),
        ("port = 8470.0", "port must be a whole number, got 8470.0"),
        ('refresh = "1"', "refresh must be a number, got '1'"),
        ("data = 5", "data must be a text, got 5"),
        ("database = []", r"database must be a text, got \[\]"),
        ("[server]\nport = 1", "there is no setting 'server'"),
        ("port =", "is not TOML"),
        ("workers = 1000", r"workers must lie in 1 .. 64, got 1000"),
    ],
)
def test_a_file_that_says_something_else_is_refused_in_words(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=said):
        Settings.gather({"config": written(tmp_path, text)}, {})


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        Settings.gather({"config": tmp_path / "none.toml"}, {})


def test_the_commented_file_has_every_setting_with_its_default() -> None:
    lines = COMMENTED.read_text().splitlines()
    said: dict[str, Any] = tomllib.loads(
        "\n".join(line[1:] for line in lines if line.startswith("#") and line[1:2].isalpha())
    )
    assert tomllib.loads(COMMENTED.read_text()) == {}  # as it comes it changes nothing
    default = Settings()
    wanted = {field.name: getattr(default, field.name) for field in fields(Settings)}
    assert said == wanted | {"data": str(default.data)}

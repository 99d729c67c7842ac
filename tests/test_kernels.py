"""Kernels: interpreted where the job is small, compiled where it pays, and the same answer either way."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import privquant
from privquant import _numba
from privquant._numba import HAVE_NUMBA, compiled, compiled_form, njit
from privquant.domain import Integers
from privquant.lab.engine import Setting
from privquant.lab.engine.draws import binomial, draw, fill, hypergeometric, new_tree
from privquant.lab.engine.isotonic import outcomes
from privquant.lab.sample import Sample
from privquant.lab.schedule import SUGGESTED, Schedule
from privquant.pages.page_files import device_folder
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.shuffled import shuffled_isotonic
from privquant.server.http_client import OperatorClient, Refusal
from privquant.server.process import free_port

pytestmark = pytest.mark.skipif(not HAVE_NUMBA, reason="nothing is compiled without numba")

DOMAIN = Integers(0, 4**9 - 1)
VALUES = np.random.default_rng(1).integers(0, 4**9, 400)
PLAIN = outcomes.__wrapped__  # as it runs where numba is not installed


@pytest.mark.parametrize(
    ("template", "schedule"),
    [
        (Isotonic(DOMAIN, users=400, epsilon=1.0), SUGGESTED),
        (Isotonic(DOMAIN, users=400, epsilon=2.0, quantile=[0.1, 0.5, 0.99]), SUGGESTED),
        (Isotonic(DOMAIN, users=400, epsilon=1.0, interval=0.9), SUGGESTED),
        (Isotonic(DOMAIN, users=100, epsilon=1.0, spread=0.25), Schedule.in_flight(20)),
        (shuffled_isotonic(DOMAIN, users=400, epsilon=1.0, delta=1e-6, quantile=0.9), SUGGESTED),
    ],
    ids=["median", "several", "interval", "in flight", "shuffled"],
)
@pytest.mark.parametrize("draw_from", ["empirical", "statistical"])
def test_the_same_rng_gives_the_same_answer_interpreted_and_compiled(template, schedule, draw_from):
    sample = Sample(VALUES, DOMAIN.size)
    fast, slow = (
        run(template, sample, 2, np.random.default_rng(7), Setting(draw_from, schedule))
        for run in (outcomes, PLAIN)
    )
    assert np.array_equal(fast.answers, slow.answers)
    assert np.array_equal(fast.ends, slow.ends)


def test_that_comparison_notices_another_stream():
    sample, template = Sample(VALUES, DOMAIN.size), Isotonic(DOMAIN, users=400, epsilon=1.0)
    one, other = (PLAIN(template, sample, 2, np.random.default_rng(seed)).answers for seed in (7, 8))
    assert not np.array_equal(one, other)


def test_samplers_draw_the_same_numbers_interpreted_and_compiled():
    """In every regime the samplers switch between, one after the other from one generator."""

    def drawn():
        rng = np.random.default_rng(5)
        cells, found = new_tree(8), []
        for n in (5, 40, 5000, 10**9, 10**15):
            found += [int(binomial(n, p, rng)) for p in (0.0, 1e-3, 0.3, 0.9, 1.0)]
            found += [int(hypergeometric(n, 3 * n, k, rng)) for k in (3, n // 2, n)]
        fill(cells, VALUES.size)
        sample = Sample(VALUES, DOMAIN.size)
        found += [int(draw(cells, sample.values, sample.cumulative, c * 10**4, 60, rng)) for c in (5, 9, 5, 2)]
        return found

    slow = drawn()
    with compiled():
        assert drawn() == slow


def test_a_kernel_is_compiled_only_inside_compiled_and_after_long_interpreted_work(monkeypatch):
    seen = []

    @njit()
    def kernel(x):
        return x + 1

    monkeypatch.setattr(_numba, "_entry", lambda *_: lambda x: seen.append(x) or x + 1)
    monkeypatch.setattr(_numba._Spent, "seconds", 0.0)  # other tests of this process have worked interpreted
    assert kernel(1) == 2
    assert seen == []
    with compiled():
        assert kernel(2) == 3
    assert seen == [2]
    monkeypatch.setattr(_numba._Spent, "seconds", _numba._PATIENCE + 1.0)
    assert kernel(3) == 4
    assert seen == [2, 3]
    monkeypatch.setattr(_numba._Spent, "patience", float("inf"))
    assert kernel(4) == 5
    assert seen == [2, 3]


def test_a_kernel_calls_kernels_and_the_forms_that_are_said_to_compile(monkeypatch):
    monkeypatch.setattr(_numba._Spent, "seconds", 0.0)  # other tests may have used up the patience

    @njit()
    def square(x):
        return x * x

    def plain(x):
        return min(x, 3)

    @compiled_form(plain)
    def form(x):
        return min(x, 2)  # another number, to see which of the two runs

    @njit()
    def total(n):
        s = 0
        for i in range(n):
            s += square(plain(i))
        return s

    assert total(6) == 0 + 1 + 4 + 9 + 9 + 9
    with compiled():
        assert total(6) == 0 + 1 + 4 + 4 + 4 + 4


def test_another_thread_is_not_inside():
    found = []
    with compiled():
        other = threading.Thread(target=lambda: found.append(_numba._mode.get()))
        other.start()
        other.join()
    assert found == [None]


def run(code: str, *, prefix: tuple[str, ...] = (), cwd: Path | None = None, **environment: str) -> str:
    done = subprocess.run(
        [*prefix, sys.executable, "-c", code],
        env={**os.environ, **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


MEDIAN = """
import sys, numpy as np, privquant as pq
values = np.random.default_rng(1).integers(0, 4**9, 5000)
for q in (0.5, 0.99):
    print(pq.quantile(values, q, epsilon=1.0, domain=pq.Integers(0, 4**9 - 1), rng=1).value)
assert "numba" not in sys.modules
"""


def test_a_small_job_never_imports_numba_and_says_nothing(tmp_path):
    run(MEDIAN, NUMBA_CACHE_DIR=str(tmp_path))
    assert list(tmp_path.iterdir()) == []


TREE = """
import privquant, privquant.lab as lab
print(lab.trials(list(range(300)), protocol="hierarchical", answer="argmin", epsilon=1.0,
                 domain=privquant.Integers(0, 999), trials=3, seed=1).values.tolist())
"""


def test_compiled_kernels_are_kept_where_a_folder_can_be_written(tmp_path):
    first = run(TREE, NUMBA_CACHE_DIR=str(tmp_path))
    kept = sorted(tmp_path.rglob("*.nbc"))
    assert kept
    times = [file.stat().st_mtime_ns for file in kept]
    assert run(TREE, NUMBA_CACHE_DIR=str(tmp_path)) == first
    assert [file.stat().st_mtime_ns for file in sorted(tmp_path.rglob("*.nbc"))] == times


def unprivileged() -> tuple[str, ...]:
    """As nobody, if we are root and nobody can run this interpreter; otherwise as we are, who are not root."""
    if os.geteuid() != 0:
        return ()
    prefix = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    if not shutil.which("setpriv"):
        pytest.skip("root without setpriv cannot become another user")
    if subprocess.run([*prefix, sys.executable, "-c", "import numba"], check=False, capture_output=True).returncode:
        pytest.skip("this interpreter lies in a folder that only root can read")
    return prefix


class Installation(NamedTuple):
    """Read-only, for a user without a home: `tmp` is the one place that can be written."""

    package: Path
    tmp: Path
    prefix: tuple[str, ...]
    environment: dict[str, str]

    def run(self, code: str) -> str:
        return run(code, prefix=self.prefix, cwd=self.tmp, **self.environment)

    def start(self, *verb: str, **environment: str) -> subprocess.Popen[str]:
        """A command of the command line, as a process."""
        return subprocess.Popen(
            [*self.prefix, sys.executable, "-m", "privquant", *verb],
            cwd=self.tmp,
            env={"PATH": os.environ["PATH"], **self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def call(self, *verb: str, **environment: str) -> str:
        """What such a process prints, if it ends well."""
        process = self.start(*verb, **environment)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
        return said


@pytest.fixture(scope="module")
def installation():
    prefix = unprivileged()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        place.chmod(0o755)
        (place / "tmp").mkdir()
        (place / "tmp").chmod(0o777)
        package = place / "read-only" / "privquant"
        shutil.copytree(Path(privquant.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        if not (package / "js").exists():  # as the wheel has it
            shutil.copytree(device_folder() / "src", package / "js" / "src")
        for path in (package.parent, *package.parent.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        nowhere = {
            "PYTHONPATH": str(package.parent),
            "HOME": "/nonexistent",
            "XDG_CACHE_HOME": "/nonexistent",
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(place / "tmp"),
        }
        yield Installation(package, place / "tmp", prefix, nowhere)
        for path in (package.parent, *package.parent.rglob("*")):
            path.chmod(0o755)


def test_a_read_only_installation_and_no_home_just_work(installation):
    """numba has nowhere to keep anything: small jobs need it not, an engine compiles for itself."""
    assert installation.run("import privquant; print(privquant.__file__)").startswith(str(installation.package))
    assert installation.run(MEDIAN) == run(MEDIAN)
    assert installation.run(TREE) == run(TREE)


def test_a_server_of_such_an_installation_makes_campaigns(installation):
    """`serve`, `operator add` and `campaign create`, each a process of that user; with a certified interval, whose
    bounds are found by kernels."""
    port, admin = free_port(), free_port()
    data = ("--data", str(installation.tmp / "data"))
    listening = ("--port", str(port), "--admin-port", str(admin))
    server = installation.start("serve", *data, *listening)
    try:
        ready = OperatorClient(f"http://127.0.0.1:{admin}", timeout=5)
        for _ in range(600):
            assert server.poll() is None, server.communicate()[0]
            try:
                ready.call("GET", "/readyz")
                break
            except Refusal:
                time.sleep(0.1)
        token = installation.call("operator", "add", "somebody", *data).strip()
        operator = {"PRIVQUANT_TOKEN": token, "PRIVQUANT_SERVER": f"http://127.0.0.1:{admin}"}
        question = ("--measurement", "salary", "--question", "What do you earn?", "--users", "2000")
        bounds = ("--low", "0", "--high", "500000", "--interval", "0.9")
        made = installation.call("campaign", "create", *question, *bounds, **operator).split()[-1]
        assert re.fullmatch("[0-9a-f]{64}", made)
        assert made[:12] in installation.call("campaign", "list", **operator)
    finally:
        server.terminate()
        said, _ = server.communicate(timeout=60)
    assert server.returncode == 0, said
    assert "Traceback" not in said

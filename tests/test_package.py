"""The package as a whole: what importing it needs, and what it says of itself."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import privquant

BLOCKER = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in BLOCKED:
            raise ModuleNotFoundError('blocked: ' + name, name=name)
sys.meta_path.insert(0, Block())
"""


def run_without(blocked: set[str], code: str) -> subprocess.CompletedProcess[str]:
    script = f"BLOCKED = {blocked!r}\n{BLOCKER}\n{code}"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)


HEAVY = {"numba", "typer", "rich", "matplotlib", "pyarrow", "pandas", "polars", "scipy", "fastapi", "sqlalchemy",
         "cryptography", "alembic", "uvicorn", "hypothesis"}  # fmt: skip


def test_the_library_needs_numpy_alone():
    code = """
import numpy as np, privquant as pq
for name in pq.protocol_names():
    options = {"encoding": "hadamard"} if name == "hierarchical" else {}
    got = pq.median(np.arange(60), epsilon=3.0, domain=pq.Integers(0, 63), rng=1, protocol=name, **options)
    assert got.users == 60, got
print(pq.median(np.arange(2000) % 97, epsilon=3.0, domain=pq.Integers(0, 127), rng=1).value)
"""
    done = run_without(HEAVY, code)
    assert done.returncode == 0, done.stderr
    assert 30 <= int(done.stdout) <= 66


def test_without_numba_the_answers_are_the_same():
    code = """
import numpy as np, privquant as pq
values = np.arange(1500) % 97
print([pq.median(values, epsilon=2.0, domain=pq.Integers(0, 127), rng=1, protocol=name).value
       for name in ("naive", "bayeslearn", "bayess", "isotonic")])
"""
    with_numba, without = run_without(set(), code), run_without({"numba"}, code)
    assert with_numba.returncode == 0, with_numba.stderr
    assert without.stdout == with_numba.stdout, without.stderr


def test_importing_the_package_needs_not_even_numpy():
    code = """
import privquant as pq
assert pq.Coin.of(1.0).epsilon <= 1.0 and issubclass(pq.InvalidInput, pq.PrivquantError)
pq.Report(pq.Query(3, 5), 1)
print(pq.Integers(0, 3).size, dir(pq)[0])
"""
    done = run_without(HEAVY | {"numpy"}, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4 ")


def test_the_blocker_blocks():
    assert run_without({"numpy"}, "import numpy").returncode != 0


AS_MODULE = "import runpy, sys; sys.argv = ['privquant', *{}]; runpy.run_module('privquant', run_name='__main__')"


@pytest.mark.parametrize("start", ["from privquant.cli import main; main()", AS_MODULE.format([])])
def test_the_command_line_says_what_is_missing(start):
    done = run_without({"typer"}, start)
    assert done.returncode == 2
    assert "pip install 'privquant[cli]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_package_runs_as_a_module():
    pytest.importorskip("typer")

    def shown(module: str) -> str:
        command = [sys.executable, "-m", module, "--help"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return done.stdout

    assert "estimate" in shown("privquant")
    assert shown("privquant") == shown("privquant.cli")


def test_the_command_line_runs_without_the_service():
    service = {"cryptography", "fastapi", "sqlalchemy", "uvicorn"}
    main = "import sys; sys.argv = ['privquant', *{}]; from privquant.cli import main; main()"
    shown = run_without(service, main.format(["--help"]))
    assert (shown.returncode, "campaign" in shown.stdout) == (0, True), shown.stderr
    for verb in (["operator", "list"], ["campaign", "list"], ["serve"]):
        done = run_without(service, main.format(verb))
        assert done.returncode == 2
        assert "pip install 'privquant[service]'" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_the_demo_needs_its_own_extra_alone():
    """The server on SQLite and its devices load without what the other extras bring."""
    others = {"numba", "matplotlib", "pyarrow", "pandas", "polars", "scipy", "asyncpg", "uvloop", "httptools",
              "websockets", "watchfiles", "yaml", "dotenv", "httpx", "psutil"}  # fmt: skip
    code = """
from pathlib import Path
import privquant.demo.local, privquant.demo.devices, privquant.cli.demo
from privquant.aggregator.api import build_admin_api, build_public_api
from privquant.aggregator.service import open_device_store
from privquant.aggregator.settings import Settings
print("loaded")
open_device_store(Settings(data=Path("nowhere"), database="postgresql://nobody@127.0.0.1:1/none"))
"""
    done = run_without(others, code)
    assert done.stdout == "loaded\n", done.stderr
    assert "blocked: asyncpg" in done.stderr  # the twin: what needs another extra is found out


def test_a_server_on_postgresql_says_what_is_missing():
    verb = ["serve", "--database", "postgresql://nobody@127.0.0.1:1/none", "--port", "0"]
    main = f"import sys; sys.argv = ['privquant', *{verb}]; from privquant.cli import main; main()"
    done = run_without({"asyncpg"}, main)
    assert done.returncode == 2
    assert "needs asyncpg, which is not installed: pip install 'privquant[service]'" in done.stderr


def test_version_and_public_names():
    assert privquant.__version__[0].isdigit()
    for name in privquant.__all__:
        assert getattr(privquant, name) is not None


def test_a_newcomer_finds_his_way():
    """No function of more than 120 lines, no folder of the lab with more than 12 files."""
    source = Path(privquant.__file__).parent
    long = [
        f"{path.name}: {node.name}"
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= 120
    ]
    folders = [source / "lab", *(path for path in (source / "lab").rglob("*") if path.is_dir())]
    assert len(folders) > 5
    assert long == []
    assert [folder.name for folder in folders if len(list(folder.glob("*.py"))) > 12] == []

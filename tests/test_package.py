"""The package as a whole: what importing it needs, and what it says of itself."""

import ast
import re
import subprocess
import sys
import tarfile
import zipfile
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


def test_without_numba_the_answers_of_many_users_are_the_same():
    """Above 20,000 users those of bayeslearn and bayess are not, and the help says so: the twin."""
    code = """
import numpy as np, privquant as pq
from privquant import lab
values = np.arange(25_000) * 7919 % 997
asked = {"epsilon": 1.0, "domain": pq.Integers(0, 1023)}
trees = [{}, {"encoding": "hadamard"}, {"answer": "argmin"}, {"consistency": True}]
print([pq.median(values, **asked, rng=1, protocol=name).value for name in ("naive", "isotonic")],
      [pq.median(values, **asked, rng=1, protocol="hierarchical", **tree).value for tree in trees],
      [lab.trials(values, **asked, trials=3, seed=1, protocol="hierarchical", **tree).values for tree in trees])
print([pq.median(values, **asked, rng=1, protocol=name).value for name in ("bayeslearn", "bayess")])
"""
    with_numba, without = run_without(set(), code), run_without({"numba"}, code)
    assert with_numba.returncode == 0, with_numba.stderr
    same, other = zip(with_numba.stdout.splitlines(), without.stdout.splitlines(), strict=True)
    assert same[0] == same[1]
    assert other[0] != other[1]
    assert "except by bayeslearn and bayess above 20,000 users" in " ".join(privquant.quantile.__doc__.split())


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
import privquant.demo.local, privquant.demo.shuffled, privquant.demo.devices, privquant.cli.demo
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


def test_the_wheel_has_the_package_alone(tmp_path):
    """Tests, studies and benchmarks stay in the repository; the source distribution has them."""
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    root = Path(__file__).resolve().parent.parent
    (wheel,) = WheelBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"privquant"}
    assert not [name for name in names if "studies" in name or "recorded" in name]
    (source,) = SdistBuilder(str(root)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(source) as opened:
        assert any(name.endswith("/studies/__main__.py") for name in opened.getnames())


def test_version_and_public_names():
    assert privquant.__version__[0].isdigit()
    for name in privquant.__all__:
        assert getattr(privquant, name) is not None


def test_a_newcomer_finds_his_way():
    """No function of more than 100 lines, no folder with more than 18 modules."""
    source = Path(privquant.__file__).parent
    long = [
        f"{path.name}: {node.name}"
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno > 100
    ]
    folders = {path.parent for path in source.rglob("*.py")}
    assert len(folders) > 20
    assert long == []
    assert [folder.name for folder in folders if len(list(folder.glob("*.py"))) > 18] == []


def test_the_lower_layers_import_nothing_by_name():
    """Import-linter does not see what is imported by a string. `estimates` alone does so, for pandas and polars."""
    root = Path(privquant.__file__).parent
    modules = [
        *root.glob("*.py"),
        *(p for folder in ("planning", "privacy") for p in (root / folder).rglob("*.py")),
    ]
    found = {path.stem for path in modules if "import_module" in path.read_text()}
    assert found - {"__init__", "_lean_compiler"} == {"estimates"}
    assert "import_module(name)" in (root / "estimates.py").read_text()
    assert {library for path in modules for library in re.findall(r'\blibrary\("(\w+)"\)', path.read_text())} == {
        "pandas",
        "polars",
    }

"""The device needs the standard library and `cryptography`, and nothing else."""

import ast
import subprocess
import sys
from pathlib import Path

from shuffled_loopback import ShuffleServer

import privquant.device
from privquant.wire import new_token

BLOCKED = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(name + " is blocked in this test")

sys.meta_path.insert(0, Block())
try:
    import numpy
except ImportError:
    pass
else:
    raise AssertionError("the block does not block")
"""

ANSWER = """
from privquant.device import Device, Policy, Rule, ShuffleRule
from privquant.domain import Integers

policy = Policy({{"steps": Rule(Integers(0, 100), 1, shuffle=ShuffleRule(5, 1e-6))}}, {ledger!r})
print(Device(policy).answer({invite!r}, 30).bit)
loaded = {{name.partition(".")[0] for name in sys.modules}} - set(sys.stdlib_module_names)
print(sorted(name for name in loaded if not name.startswith("_")))
"""


def run(*parts: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", "".join(parts)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_a_device_answers_where_numpy_cannot_be_imported(server, ledger):
    token = new_token()
    blocked = ("numpy", "scipy", "numba", "typer", "httpx", "pandas")
    bit, loaded, *_ = run(
        BLOCKED.format(blocked=blocked),
        ANSWER.format(ledger=str(ledger), invite=server.invite(token=token)),
    )
    assert server.bits == {token: [int(bit)]}
    assert set(ast.literal_eval(loaded)) <= {"privquant", "cryptography", "cffi", "sitecustomize"}


def test_a_device_is_shuffled_where_numpy_cannot_be_imported(ledger):
    token = new_token()
    with ShuffleServer() as server:
        bit, loaded, *_ = run(
            BLOCKED.format(blocked=("numpy", "scipy", "numba")),
            ANSWER.format(ledger=str(ledger), invite=server.invite(token=token)),
        )
        assert server.bits == {token: [int(bit)]}
    assert set(ast.literal_eval(loaded)) <= {"privquant", "cryptography", "cffi", "sitecustomize"}


def test_the_command_answers_where_numpy_cannot_be_imported(server, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text(
        f'version = 1\nledger = "{tmp_path}/ledger"\n'
        '[measurements.steps]\ndomain = {kind = "integers", low = 0, high = 100}\nmax_epsilon = 1\n'
    )
    call = f"sys.argv = ['privquant', 'answer', {server.invite()!r}, '30', '--policy', {str(policy)!r}]\n"
    said = run(BLOCKED.format(blocked=("numpy",)), call, "from privquant.cli import main\nmain()\n")
    assert said[0].startswith("Answered: is steps at most 50?")


def test_the_policy_is_written_where_numpy_cannot_be_imported(server, tmp_path):
    place = tmp_path / "policy.toml"
    call = f"sys.argv = ['privquant', 'policy', {server.invite()!r}, '--yes', '--out', {str(place)!r}]\n"
    run(BLOCKED.format(blocked=("numpy",)), call, "from privquant.cli import main\nmain()\n")
    assert place.read_text().startswith("version = 1")


def test_no_source_of_the_device_imports_a_generator_that_can_be_seeded():
    sources = list(Path(privquant.device.__file__).parent.glob("*.py"))
    assert len(sources) > 5
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
            else:
                continue
            assert not {name.partition(".")[0] for name in names} & {"random", "numpy"}, source

"""Every example runs as it stands and says something sensible."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SAYS = {
    "salary_survey.py": ("400 people at epsilon 1.5: expect an error of", "median salary:"),
    "latency_p99.py": ("p50:", "p90:", "p99:"),
    "own_protocol.py": (
        "kept    state_round_trips",
        "BROKEN  finds_ties",
        "Estimate(0 at quantile 0.5; 5000 users",
    ),
    "own_study.py": ("salary   naive  ", "heavy    isotonic, 8 rounds  "),
}
DRAWS = {"own_study.py": ["own_study.png"]}


def test_every_example_is_tried():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_example(name, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    for text in SAYS[name]:
        assert text in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == DRAWS.get(name, [])


def test_a_study_of_ones_own_is_short():
    assert len((EXAMPLES / "own_study.py").read_text().splitlines()) <= 60


def test_the_readme_shows_what_comes_out():
    """The first block of Python in the README, line by line: a comment below a line is what that line gives."""
    block = (EXAMPLES.parent / "README.md").read_text().split("```python\n")[1].split("```")[0]
    lines = block.splitlines()
    known: dict[str, object] = {}
    shown = 0
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below.startswith("# "):
            assert repr(eval(line, known)) == below[2:]
            shown += 1
        elif line and not line.startswith("#"):
            exec(line, known)
    assert shown == 1

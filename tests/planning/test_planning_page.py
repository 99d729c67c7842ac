"""docs/planning.md: its Python prints what the comments below it say; its families are the calibration's."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from privquant._numba import HAVE_NUMBA
from studies.calibration.settings import FAMILIES

PAGE = (Path(__file__).parents[2] / "docs" / "planning.md").read_text()


@pytest.mark.skipif(not HAVE_NUMBA, reason="without numba a plan with a pilot is not simulated")
def test_the_page_shows_what_comes_out():
    known, shown = {}, 0
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S):
        lines = block.rstrip("\n").splitlines()
        expected = [line[2:] for line in lines if line.startswith("# ")]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec("\n".join(line for line in lines if not line.startswith("# ")), known)
        assert out.getvalue().splitlines() == expected
        shown += len(expected)
    assert shown >= 4


def test_the_page_names_the_families():
    for family, shapes in FAMILIES.items():
        (row,) = re.findall(rf"^\| {family} \|.*$", PAGE, flags=re.M)
        if family != "hardest":
            assert row.endswith(f"| {', '.join(shapes)} |")

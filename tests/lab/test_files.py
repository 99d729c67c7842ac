"""One column of a file: exact numbers, and a clear word about everything that is not one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privquant.columns import to_indices
from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.lab.data import files, parse
from privquant.lab.data.files import column_names, read_column

WIDE = Integers(-(2**62), 2**62 - 1)


def written(folder: Path, text: str, name: str = "pay.csv") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(params=["arrow", "plain"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every reading test runs with arrow's reader and with the standard library's alone."""
    if request.param == "plain":
        monkeypatch.setattr(files, "_arrow_csv", lambda file, name: None)
    return str(request.param)


def test_whole_numbers(tmp_path: Path, reader: str) -> None:
    file = written(tmp_path, "name,salary\nann,100\nbob,-7\n\ncy,250\n")
    assert column_names(file) == ["name", "salary"]
    column = to_indices(read_column(file, "salary"), Integers(-10, 1000))
    assert column.indices.tolist() == [110, 3, 260]


def test_numbers_near_2_to_63_stay_exact(tmp_path: Path, reader: str) -> None:
    numbers = [2**62 - 1, 2**53 + 1, -(2**62)]
    file = written(tmp_path, "x\n" + "\n".join(map(str, numbers)) + "\n")
    assert to_indices(read_column(file), WIDE).indices.tolist() == [v + 2**62 for v in numbers]


def test_beyond_64_bits_is_clamped_not_wrapped(tmp_path: Path, reader: str) -> None:
    file = written(tmp_path, f"x\n{10**30}\n5\n")
    assert to_indices(read_column(file), Integers(0, 9)).indices.tolist() == [9, 5]


def test_missing_cells_are_counted_and_asked_about(tmp_path: Path, reader: str) -> None:
    file = written(tmp_path, "a,b\n1,\n2,NA\n3,7\n")
    with pytest.raises(InvalidInput, match="2 of 3 values are missing"):
        to_indices(read_column(file, "b"), Integers(0, 9))
    assert to_indices(read_column(file, "b"), Integers(0, 9), missing="drop").indices.tolist() == [7]


def test_fractions(tmp_path: Path, reader: str) -> None:
    file = written(tmp_path, "x\n1.5\n2\n")
    with pytest.raises(InvalidInput, match="1 of 2 values have a fraction"):
        to_indices(read_column(file), Integers(0, 9))


def test_parquet(tmp_path: Path) -> None:
    file = tmp_path / "pay.parquet"
    pq.write_table(pa.table({"salary": [2**53 + 1, None, 7], "name": ["a", "b", "c"]}), file)
    column = to_indices(read_column(file, "salary"), Integers(0, 2**60), missing="drop")
    assert column.indices.tolist() == [2**53 + 1, 7]
    with pytest.raises(InvalidInput, match=r"column 'name' of .* holds string: values must be numbers"):
        read_column(file, "name")


def test_a_data_set_from_a_file(tmp_path: Path) -> None:
    file = written(tmp_path, "salary,x\n10,1\n20,1\n,1\n30,1\n")
    found = parse(f"{file}:column=salary:low=10:high=1e3:missing=drop")
    assert found.name == "pay.csv[salary]"
    assert (found.n, found.size) == (3, 991)
    assert found.indices().tolist() == [0, 10, 20]


@pytest.mark.parametrize(
    ("name", "text", "column", "says"),
    [
        ("pay.csv", "a,b\n1,2\n", "c", "has no column 'c'; it has a, b"),
        ("pay.csv", "a,b\n1,2\n", None, "has 2 columns (a, b): say which one"),
        ("pay.csv", "a,a\n1,2\n", "a", "has 2 columns named 'a'"),
        ("pay.csv", "a\n1\nten\n", "a", "line 3: column 'a' has 'ten'; values must be numbers"),
        ("pay.csv", "a,b\n1,2\n3\n", "a", "line 3: 1 fields where the header has 2"),
        ("pay.csv", "", "a", "is empty: a first line with the column names is needed"),
        ("pay.xlsx", "a\n1\n", "a", "not a file that can be read: .csv, .tsv and .parquet are"),
        ("pay.parquet", "a\n1\n", "a", "is not a Parquet file"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(
    tmp_path: Path, reader: str, name: str, text: str, column: str | None, says: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_column(written(tmp_path, text, name), column)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_folder_and_bytes(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no file"):
        read_column(tmp_path / "none.csv", "a")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidInput, match="is a folder"):
        read_column(tmp_path / "folder.csv", "a")
    (tmp_path / "bytes.csv").write_bytes(b"a\n\xff\xfe\n")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_column(tmp_path / "bytes.csv", "a")


def test_both_readers_agree_on_a_long_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).integers(-(2**62), 2**62, 5000)
    file = written(tmp_path, "x\n" + "\n".join(map(str, values.tolist())) + "\n")
    fast = to_indices(read_column(file), WIDE).indices
    monkeypatch.setattr(files, "_arrow_csv", lambda file, name: None)
    assert np.array_equal(fast, to_indices(read_column(file), WIDE).indices)

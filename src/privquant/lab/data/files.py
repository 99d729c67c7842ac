"""One column of a CSV or Parquet file.

Whole numbers stay exact to any size, empty cells and the usual words for "nothing here" come back as missing
(what to do with those is asked by `privquant.columns`), and anything else is refused with the row it is in.
"""

import csv
from pathlib import Path
from typing import Any

import numpy as np

from privquant.errors import InvalidInput, MissingDependency

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_PARQUET = (".parquet", ".pq")
ENDINGS = (*_SEPARATORS, *_PARQUET)


def column_names(path: str | Path) -> list[str]:
    """The names of a file's columns."""
    file = _existing(path)
    if file.suffix.lower() in _PARQUET:
        return [str(name) for name in _parquet_file(file).schema_arrow.names]
    with _opened(file) as lines:
        return _header(file, csv.reader(lines, delimiter=_SEPARATORS[file.suffix.lower()]))


def read_column(path: str | Path, column: str | None = None) -> Any:
    """The values of one column, ready for `privquant.columns.to_indices`.

    `column` may be left out if the file has only one.
    """
    file = _existing(path)
    names = column_names(file)
    name = _chosen(file, names, column)
    if file.suffix.lower() in _PARQUET:
        return _parquet_column(file, name)
    fast = _arrow_csv(file, name)
    return fast if fast is not None else _plain_csv(file, names.index(name), name)


def _existing(path: str | Path) -> Path:
    file = Path(path)
    if file.suffix.lower() not in ENDINGS:
        raise InvalidInput(f"{file} is not a file that can be read: .csv, .tsv and .parquet are")
    if not file.exists():
        raise InvalidInput(f"there is no file {file}")
    if file.is_dir():
        raise InvalidInput(f"{file} is a folder, not a file")
    return file


def _opened(file: Path) -> Any:
    try:
        return file.open(newline="", encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from error


def _header(file: Path, rows: Any) -> list[str]:
    try:
        names: list[str] | None = next(rows, None)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{file} is not a text file in UTF-8; save it as such") from error
    if not names:
        raise InvalidInput(f"{file} is empty: a first line with the column names is needed")
    return names


def _chosen(file: Path, names: list[str], column: str | None) -> str:
    listed = ", ".join(names)
    if column is None:
        if len(names) != 1:
            raise InvalidInput(f"{file} has {len(names)} columns ({listed}): say which one")
        return names[0]
    if column not in names:
        hint = _other_separator(file, names)
        raise InvalidInput(f"{file} has no column {column!r}; it has {listed}{hint}")
    if names.count(column) > 1:
        raise InvalidInput(f"{file} has {names.count(column)} columns named {column!r}")
    return column


def _other_separator(file: Path, names: list[str]) -> str:
    """Where a file looks as if it used another separator than its ending says."""
    used = _SEPARATORS.get(file.suffix.lower())
    other = next((sign for sign in (";", "\t", ",") if used and sign != used and sign in names[0]), None)
    return f" (columns are separated by {used!r} there, and this one has {other!r} in it)" if other else ""


def _parquet_file(file: Path) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingDependency("reading Parquet", "pyarrow", "lab") from None
    try:
        return pq.ParquetFile(file)
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidInput(f"{file} is not a Parquet file: {str(error).splitlines()[0]}") from error


def _parquet_column(file: Path, name: str) -> Any:
    import pyarrow as pa

    values = _parquet_file(file).read(columns=[name]).column(name)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise InvalidInput(f"column {name!r} of {file} holds {values.type}: values must be numbers")
    return values


def _arrow_csv(file: Path, name: str) -> Any | None:
    """The column by arrow's reader, many times faster; None where the plain reader must decide.

    Only 64-bit whole numbers, and fractions too small to have lost a digit, are taken from it.
    """
    try:
        import pyarrow as pa
        from pyarrow import csv as arrow_csv
    except ImportError:
        return None
    for kind in (pa.int64(), pa.float64()):
        try:
            table = arrow_csv.read_csv(
                file,
                parse_options=arrow_csv.ParseOptions(delimiter=_SEPARATORS[file.suffix.lower()]),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=[name], column_types={name: kind}, null_values=list(MISSING)
                ),
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError):
            continue
        values = table.column(name)
        if kind == pa.int64():
            return values
        floats = values.to_numpy()
        finite = floats[np.isfinite(floats)]
        if finite.size == 0 or np.abs(finite).max() < 2.0**53:
            return floats
    return None


def _plain_csv(file: Path, position: int, name: str) -> list[int | float | None]:
    found: list[int | float | None] = []
    with _opened(file) as lines:
        rows = csv.reader(lines, delimiter=_SEPARATORS[file.suffix.lower()])
        header = _header(file, rows)
        try:
            for row in rows:
                if not row:
                    continue
                if len(row) != len(header):
                    raise InvalidInput(
                        f"{file}, line {rows.line_num}: {len(row)} fields where the header has {len(header)}"
                    )
                found.append(_number(row[position], file, rows.line_num, name))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InvalidInput(f"{file} is not a text file in UTF-8: {error}") from error
    return found


def _number(text: str, file: Path, line: int, name: str) -> int | float | None:
    cell = text.strip()
    if cell in MISSING:
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    raise InvalidInput(f"{file}, line {line}: column {name!r} has {cell!r:.60}; values must be numbers")

"""Seeds of a dbt project: their CSV files as queries over VALUES, so that another file is another query of the same view."""

from __future__ import annotations

import csv
import datetime
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dagster_tideline.dbt.compiled_text import AdapterDialect
from dagster_tideline.dbt.manifest import DbtNode, ManifestError
from engine.sql.statements.options.option_text import render_literal

MOST_ROWS = 2_000
"""The rows of a seed that becomes a view: its rows are in the statement."""
_WHOLE = re.compile(r"[+-]?(?:0|[1-9]\d{0,37})")
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?")


def build_seed_query(node: DbtNode, project: Path, dialect: AdapterDialect) -> str:
    """Return the query of a seed's rows; raises ManifestError for a file that cannot be read, or has too many rows."""
    file = _find_file(node, project)
    header, rows = _read_rows(file, str(node.config.get("delimiter") or ","))
    if len(rows) > MOST_ROWS:
        hint = f"land the file in a table {node.identifier.lower()} instead, and exclude the seed"
        raise ManifestError(
            f"it has {len(rows)} rows, and a seed becomes a view with {MOST_ROWS} at most: {hint}"
        )
    said = node.config.get("column_types")
    types = {
        str(name).lower(): _translate_type(str(kind), dialect)
        for name, kind in (said.items() if isinstance(said, dict) else ())
    }
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    kinds = [
        types.get(name.lower()) or _infer_type(values, dialect)
        for name, values in zip(header, columns, strict=True)
    ]
    is_exact = dialect.target == "spark" or node.config.get("quote_columns") is True
    labels = [_quote(name if is_exact else name.lower(), dialect) for name in header]
    items = [f"CAST({label} AS {kind}) AS {label}" for label, kind in zip(labels, kinds, strict=True)]
    texts = [f"({', '.join(_render(value, dialect) for value in row)})" for row in rows]
    values = ",\n  ".join(texts or [f"({', '.join(['NULL'] * len(header))})"])
    query = f"SELECT {', '.join(items)}\nFROM (VALUES\n  {values}) AS t({', '.join(labels)})"
    if not rows:
        return f"{query}\nWHERE false"
    if not _are_apart(columns, [types.get(name.lower(), "") for name in header], kinds):
        return query
    # Views whose rows are only added to cannot follow another file: those of groups can.
    return f"{query}\nGROUP BY {', '.join(str(at + 1) for at in range(len(header)))}\nHAVING count(*) > 0"


def _are_apart(columns: Sequence[tuple[str | None, ...]], said: Sequence[str], kinds: Sequence[str]) -> bool:
    """Tell whether rows differ by columns alone whose values are equal only if their texts are, but for signs of numbers."""
    sure = [
        [value if value is None or kind != "bigint" else int(value) for value in values]
        for values, word, kind in zip(columns, said, kinds, strict=True)
        if not word and kind in ("bigint", "date", "text", "string")
    ]
    rows = list(zip(*sure, strict=True))
    return len(set(rows)) == len(columns[0]) if rows else False


def _find_file(node: DbtNode, project: Path) -> Path:
    roots = [project, project / "dbt_packages" / node.package, *([Path(node.root)] if node.root else [])]
    files = [root / node.path for root in roots]
    found = next((file for file in files if file.is_file()), None)
    if found is None:
        raise ManifestError(
            f"its file {node.path} is not in {project}: say under `project` where the dbt project is"
        )
    return found


def _read_rows(file: Path, delimiter: str) -> tuple[list[str], list[tuple[str | None, ...]]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            found = [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ManifestError(f"{file} can't be read: {error}") from error
    if not found:
        raise ManifestError(f"{file} has no header: write the names of its columns in the first line")
    header = [name.strip() for name in found[0]]
    for number, row in enumerate(found[1:], 2):
        if len(row) != len(header):
            raise ManifestError(f"{file}: row {number} has {len(row)} fields, and the header {len(header)}")
    return header, [tuple(None if _is_null(value) else value for value in row) for row in found[1:]]


def _is_null(value: str) -> bool:
    """Tell whether a field is null, as dbt reads it, whose column may be one of texts."""
    return value.strip().lower() in ("", "null")


def _translate_type(kind: str, dialect: AdapterDialect) -> str:
    """Return a type of `column_types` in the words of the target; one that sqlglot cannot read stays as it is."""
    if dialect.is_plain:
        return kind
    try:
        return exp.DataType.build(kind, dialect=dialect.read).sql(dialect=dialect.target)
    except (SqlglotError, ValueError):
        return kind


def _infer_type(values: Sequence[str | None], dialect: AdapterDialect) -> str:
    """Return the type of a column without one in its `column_types`: the narrowest that all values have."""
    present = [value.strip() for value in values if value is not None]
    text = "string" if dialect.target == "spark" else "text"
    double = "double" if dialect.target == "spark" else "double precision"
    kinds: tuple[tuple[str, Callable[[str], object]], ...] = (
        ("boolean", lambda value: value.lower() in ("true", "false")),
        ("bigint", lambda value: _is_whole(value) and -(2**63) <= int(value) < 2**63),
        ("decimal(38, 0)", _is_whole),
        (double, _NUMBER.fullmatch),
        ("date", _is_date),
        ("timestamp", _is_timestamp),
    )
    return next((kind for kind, fits in kinds if present and all(map(fits, present))), text)


def _is_whole(value: str) -> bool:
    return _WHOLE.fullmatch(value) is not None


def _is_date(value: str) -> bool:
    try:
        return len(value) == 10 and bool(datetime.date.fromisoformat(value))
    except ValueError:
        return False


def _is_timestamp(value: str) -> bool:
    try:
        found = datetime.datetime.fromisoformat(value)
    except ValueError:
        return False
    return len(value) >= 16 and found.tzinfo is None


def _render(value: str | None, dialect: AdapterDialect) -> str:
    return "NULL" if value is None else render_literal(value, dialect.target)


def _quote(name: str, dialect: AdapterDialect) -> str:
    mark = "`" if dialect.target == "spark" else '"'
    return mark + name.replace(mark, mark * 2) + mark

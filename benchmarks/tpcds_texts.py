"""TPC-DS's schema and queries, read from a folder that the environment variable TPCDS names.

The specification's texts are not ours to keep. The folder holds a public copy of them: `schema.sql` with the CREATE TABLE
statements of the 24 tables, and each query as a file of its own, in Spark's dialect.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import sqlglot
from sqlglot import exp

from benchmarks.tpcds_tables import KEYS

SCHEMA = "schema.sql"
OTHER_NAMES = {"c_last_review_date": "c_last_review_date_sk", "s_tax_percentage": "s_tax_precentage"}
"""Columns that some copies name in another way than the specification."""


class MissingTexts(Exception):
    """There is no folder with TPC-DS's texts, or it lacks what is needed."""


def find_folder() -> Path:
    """Return the folder of the texts; raises MissingTexts if there is none."""
    name = os.environ.get("TPCDS")
    if not name or not (Path(name) / SCHEMA).is_file():
        raise MissingTexts(
            f"TPC-DS needs its texts, which are not part of this project: set TPCDS to a folder with {SCHEMA} (the CREATE TABLE "
            "statements of the 24 tables) and each query as a file of its own (query1.sql …), from a public copy"
            + (f"; {name} has no {SCHEMA}" if name else "")
        )
    return Path(name)


def read_schema(folder: Path) -> dict[str, pa.Schema]:
    """Return the columns of each table; raises MissingTexts where a table is missing or has a column that we do not make."""
    found: dict[str, pa.Schema] = {}
    for statement in sqlglot.parse((folder / SCHEMA).read_text(), read="spark"):
        if isinstance(statement, exp.Create) and isinstance(statement.this, exp.Schema):
            columns = [each for each in statement.this.expressions if isinstance(each, exp.ColumnDef)]
            found[statement.this.this.name.lower()] = pa.schema(
                [(column.name.lower(), convert_type(column.args["kind"])) for column in columns]
            )
    missing = [table for table in KEYS if table not in found]
    if missing:
        raise MissingTexts(f"{folder / SCHEMA} has no CREATE TABLE of {', '.join(missing)}")
    return {table: found[table] for table in KEYS}


def convert_type(kind: exp.DataType) -> pa.DataType:
    """Return the Arrow type of a column, a text's without its length; raises MissingTexts for a type that no table has."""
    match kind.this:
        case exp.DataType.Type.INT:
            return pa.int32()
        case exp.DataType.Type.BIGINT:
            return pa.int64()
        case exp.DataType.Type.DATE:
            return pa.date32()
        case exp.DataType.Type.DECIMAL:
            precision, scale = (int(each.name) for each in kind.expressions)
            return pa.decimal128(precision, scale)
        case exp.DataType.Type.CHAR | exp.DataType.Type.VARCHAR | exp.DataType.Type.TEXT:
            return pa.string()
    raise MissingTexts(f"{SCHEMA} has a column of type {kind.sql()}, which no table of TPC-DS has")


def build_ddl(schema: Mapping[str, pa.Schema]) -> dict[str, str]:
    """Return the statements that create the tables with their primary keys, by table."""
    found = {}
    for table, fields in schema.items():
        columns = ", ".join(f"{field.name} {name_type(field.type)}" for field in fields)
        found[table] = f"CREATE TABLE {table} ({columns}, PRIMARY KEY ({', '.join(KEYS[table])}))"
    return found


def name_type(kind: pa.DataType) -> str:
    """Return how SQL names a type."""
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision}, {kind.scale})"
    return {pa.int32(): "INT", pa.int64(): "BIGINT", pa.date32(): "DATE", pa.string(): "STRING"}[kind]


def arrange_columns(rows: pa.Table, fields: pa.Schema) -> pa.Table:
    """Return rows with the columns of a schema; raises MissingTexts for a column that we do not make."""
    found = []
    for field in fields:
        name = field.name if field.name in rows.column_names else OTHER_NAMES.get(field.name, field.name)
        if name not in rows.column_names:
            raise MissingTexts(f"{SCHEMA} has a column {field.name}, which no table of TPC-DS has")
        found.append(rows.column(name).cast(field.type))
    return pa.table(found, schema=fields)


def read_queries(folder: Path) -> dict[str, str]:
    """Return the queries by the names of their files, in the order of their numbers; raises MissingTexts if there is none."""
    paths = [path for path in folder.glob("*.sql") if path.name != SCHEMA]
    if not paths:
        raise MissingTexts(f"{folder} has no queries: it needs each as a file of its own (query1.sql …)")
    return {
        path.stem: path.read_text().strip().removesuffix(";")
        for path in sorted(paths, key=lambda path: (_find_number(path.stem), path.stem))
    }


def _find_number(name: str) -> int:
    digits = "".join(letter for letter in name if letter.isdigit())
    return int(digits) if digits else 0

"""Delta tables that tests write, by delta-rs or by Spark, and what a table that follows one is to hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import sqlglot
from deltalake.schema import Field
from pyspark.sql import SparkSession
from sqlglot import exp
from sqlglot.errors import ParseError

from engine.connectors.contract.connector import SourceReport
from engine.connectors.delta.source import DeltaSource
from engine.session import Session

FEED = "'delta.enableChangeDataFeed' = 'true'"
TYPES = {
    **{"BIGINT": "long", "INT": "integer", "SMALLINT": "short", "TINYINT": "byte", "TEXT": "string"},
    **{"DOUBLE": "double", "FLOAT": "float", "BOOLEAN": "boolean", "BINARY": "binary", "DATE": "date"},
    **{"TIMESTAMPTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz"},
}


class DeltaTable:
    """One Delta table, written by SQL in which {} stands for it; delta-rs runs the statements, which costs milliseconds."""

    def __init__(self, spark: SparkSession, path: Path | str) -> None:
        self.spark, self.path = spark, path

    def sql(self, *texts: str) -> None:
        """Run statements of Spark SQL."""
        for text in texts:
            run_by_rust(str(self.path), text.format("there"))

    def make(
        self, columns: str = "id BIGINT, v STRING", *, properties: str = FEED, partitioned: str = ""
    ) -> DeltaTable:
        """Create it."""
        said = f"TBLPROPERTIES ({properties})" if properties else ""
        by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        self.sql(f"CREATE TABLE {{}} ({columns}) USING delta {by} {said}")
        return self

    def insert(self, values: str) -> None:
        """Insert rows."""
        self.sql(f"INSERT INTO {{}} {values}")

    def arrow(self) -> pa.Table:
        """Return what it holds."""
        return deltalake.DeltaTable(str(self.path)).to_pyarrow_table()

    def rows(self, columns: Sequence[str] = ("*",)) -> list[tuple[Any, ...]]:
        """Return its rows, in order."""
        found = self.arrow() if tuple(columns) == ("*",) else self.arrow().select(list(columns))
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)

    def versions(self) -> list[int]:
        """Return the versions that its log tells of, the newest first."""
        return [entry["version"] for entry in deltalake.DeltaTable(str(self.path)).history()]


class SparkDeltaTable(DeltaTable):
    """One whose statements Spark runs: it has deletion vectors, column mapping and all types of Delta."""

    def sql(self, *texts: str) -> None:
        """Run statements of Spark SQL."""
        for text in texts:
            self.spark.sql(text.format(f"delta.`{self.path}`")).collect()

    def arrow(self) -> pa.Table:
        """Return what it holds."""
        return self.spark.read.format("delta").load(str(self.path)).toArrow()

    def rows(self, columns: Sequence[str] = ("*",)) -> list[tuple[Any, ...]]:
        """Return its rows, in order; columns may be expressions."""
        found = self.spark.read.format("delta").load(str(self.path)).selectExpr(*columns)
        return sorted((tuple(row) for row in found.collect()), key=repr)

    def versions(self) -> list[int]:
        """Return the versions that its log tells of, the newest first."""
        history = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.path}`").select("version")
        return [row[0] for row in history.collect()]


def run_by_rust(path: str, text: str) -> None:
    """Run a statement of Spark SQL on a Delta table by delta-rs; raises LookupError for what it does not do as Spark does."""
    for pattern, run in COMMANDS.items():
        if found := re.fullmatch(pattern, text.strip()):
            run(deltalake.DeltaTable(path), *found.groups())
            return
    try:
        statement = sqlglot.parse_one(text, read="spark")
        run_parsed = STATEMENTS.get(type(statement))
        if run_parsed is None:
            raise _NotByRust("the statement")
        run_parsed(path, statement)
    except (ParseError, _NotByRust) as what:
        raise LookupError(f"{text!r} needs Spark: use SparkDeltaTable ({what})") from what


class _NotByRust(Exception):
    """A part of a statement that delta-rs does not know, or understands otherwise."""


def _create(path: str, statement: exp.Create) -> None:
    said = statement.args.get("properties") or exp.Properties(expressions=[])
    partitioned = said.find(exp.PartitionedByProperty)
    options = {
        one.name: one.args["value"].name for one in said.expressions if type(one) is exp.Property
    }  # the others are subclasses
    if options.keys() - {"delta.enableChangeDataFeed", "delta.checkpointInterval", "mine"}:
        raise _NotByRust(f"a property of {sorted(options)}")
    deltalake.DeltaTable.create(
        path,
        deltalake.Schema.from_json(
            json.dumps({"type": "struct", "fields": [_field(one) for one in statement.this.expressions]})
        ),
        partition_by=[column.name for column in partitioned.this.expressions] if partitioned else None,
        configuration=options,
    )


def _field(column: exp.ColumnDef) -> Mapping[str, Any]:
    if column.args.get("constraints"):
        raise _NotByRust(column.sql("spark"))
    return {"name": column.name, "type": _type(column.args["kind"]), "nullable": True, "metadata": {}}


def _type(kind: exp.DataType) -> Any:
    name, inner = kind.this.name, kind.expressions
    if name == "DECIMAL":
        return f"decimal({', '.join(one.name for one in inner)})"
    if name == "ARRAY":
        return {"type": "array", "elementType": _type(inner[0]), "containsNull": True}
    if name == "MAP":
        key, value = (_type(one) for one in inner)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if name == "STRUCT":
        return {"type": "struct", "fields": [_field(one) for one in inner]}
    if name not in TYPES or inner:
        raise _NotByRust(f"type {kind.sql('spark')}")
    return TYPES[name]


def _insert(path: str, statement: exp.Insert) -> None:
    table = deltalake.DeltaTable(path)
    named = statement.this.expressions if isinstance(statement.this, exp.Schema) else ()
    schema = pa.schema(table.schema())
    columns = [column.name for column in named] or schema.names
    rows = _computed(statement.expression)
    if rows.num_columns != len(columns):
        raise _NotByRust(f"{rows.num_columns} values for {len(columns)} columns")
    given = dict(zip(columns, rows.columns, strict=True))
    arrays = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    mode = "overwrite" if statement.args.get("overwrite") else "append"
    deltalake.write_deltalake(table, pa.Table.from_arrays(arrays, schema=schema), mode=mode)


def _computed(query: exp.Expression) -> pa.Table:
    """Return what DuckDB computes of a query that names no table but range and values."""

    def as_duckdb(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Table) and node.this.name.lower() == "range":
            node.set("alias", exp.TableAlias(this=exp.to_identifier("r"), columns=[exp.to_identifier("id")]))
        elif type(node) is exp.TryCast:  # Spark's casts fail, too
            return exp.Cast(**node.args)
        elif isinstance(node, exp.Literal) and node.is_string and re.fullmatch(r"\+\d+-\d\d-\d\d", node.name):
            return exp.Literal.string(node.name[1:])  # a day of a year of five digits
        return node

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.sql(query.copy().transform(as_duckdb).sql("duckdb")).to_arrow_table()


def _update(path: str, statement: exp.Update) -> None:
    deltalake.DeltaTable(path).update(_assigned(statement.expressions), predicate=_where(statement))


def _delete(path: str, statement: exp.Delete) -> None:
    deltalake.DeltaTable(path).delete(_where(statement))


def _where(statement: exp.Expression) -> str | None:
    where = statement.args.get("where")
    return None if where is None else _datafusion(where.this)


def _assigned(expressions: Sequence[exp.Expression]) -> dict[str, str]:
    return {one.this.name: _datafusion(one.expression) for one in expressions}


def _datafusion(expression: exp.Expression) -> str:
    return expression.sql("postgres", identify=True)


def _merge(path: str, statement: exp.Merge) -> None:
    table, using = deltalake.DeltaTable(path), statement.args["using"]
    rows = _computed(using.this)
    types = {field.name: field.type for field in pa.schema(table.schema())}
    rows = rows.cast(
        pa.schema([(name, types.get(name, rows.field(name).type)) for name in rows.column_names])
    )
    merge = table.merge(
        rows,
        _datafusion(statement.args["on"]),
        source_alias=using.alias,
        target_alias=statement.this.alias,
    )
    for when in statement.args["whens"].expressions:
        then, condition = when.args["then"], when.args.get("condition")
        only = None if condition is None else _datafusion(condition)
        if when.args["matched"] and then.name == "DELETE":
            merge = merge.when_matched_delete(only)
        elif when.args["matched"] and isinstance(then, exp.Update):
            merge = merge.when_matched_update(_assigned(then.expressions), only)
        elif isinstance(then, exp.Insert) and isinstance(then.this, exp.Star):
            merge = merge.when_not_matched_insert_all(only)
        elif isinstance(then, exp.Insert):
            pairs = zip(then.this.expressions, then.expression.expressions, strict=True)
            merge = merge.when_not_matched_insert(
                {one.name: _datafusion(value) for one, value in pairs}, only
            )
        else:
            raise _NotByRust(when.sql("spark"))
    merge.execute()


def _set_property(table: deltalake.DeltaTable, name: str, value: str) -> None:
    table.alter.set_table_properties({name: value}, raise_if_not_exists=False)


def _add_column(table: deltalake.DeltaTable, name: str, kind: str) -> None:
    column = exp.ColumnDef(this=exp.to_identifier(name), kind=exp.DataType.build(kind, dialect="spark"))
    table.alter.add_columns(Field.from_json(json.dumps(_field(column))))


COMMANDS: dict[str, Callable[..., Any]] = {
    "OPTIMIZE there": lambda table: table.optimize.compact(),
    r"VACUUM there RETAIN (\d+) HOURS": lambda table, hours: table.vacuum(
        int(hours), dry_run=False, enforce_retention_duration=False
    ),
    r"RESTORE TABLE there TO VERSION AS OF (\d+)": lambda table, version: table.restore(int(version)),
    r"ALTER TABLE there SET TBLPROPERTIES \('?(delta\.enableChangeDataFeed|mine)'? = '?(\w+)'?\)": _set_property,
    r"ALTER TABLE there ADD COLUMN (\w+) (\w+)": _add_column,
}
STATEMENTS: dict[type[exp.Expression], Callable[[str, Any], None]] = {
    exp.Create: _create,
    exp.Insert: _insert,
    exp.Update: _update,
    exp.Delete: _delete,
    exp.Merge: _merge,
}


def follow(
    session: Session, delta: DeltaTable, columns: str = "id BIGINT PRIMARY KEY, v STRING", name: str = "t"
) -> None:
    """Create a table that follows a Delta table."""
    session.sql(f"CREATE TABLE {name} ({columns}) WITH (connector = 'delta', path = '{delta.path}')")


def source(session: Session, name: str = "t") -> DeltaSource:
    """Return the source of a table."""
    return DeltaSource(session.store, session.catalog.get(name))


def poll(session: Session, name: str = "t") -> SourceReport:
    """Poll the source of a table."""
    return source(session, name).poll(lambda: session.computing)


def held(session: Session, name: str = "t", columns: str = "*") -> list[tuple[Any, ...]]:
    """Return the rows of a table, in order."""
    found = session.sql(f"SELECT {columns} FROM {name}")
    assert found is not None
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)

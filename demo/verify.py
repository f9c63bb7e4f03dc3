"""The proof at the end: every view against its query, run as a batch over the base tables by Spark and by DuckDB."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlglot
from pyspark.sql import SparkSession

from dagster_tideline.models.loader import Model
from demo.file_counts import RowCount, count_rows
from engine.meta.catalog.stored_catalog import load_catalog
from engine.runtime.reads.query import list_visible_columns
from engine.sql.statements.reader import CreateMaterializedView, CreateView, parse_statement
from tideline import Hummock

RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class ViewVerdict:
    """What one engine says about one view; `difference` is empty where both agree."""

    view: str
    engine: str
    rows: int
    difference: str

    @property
    def is_equal(self) -> bool:
        """Whether the view holds exactly what its query gives."""
        return not self.difference


def verify(store: Hummock, models: Sequence[Model], spark: SparkSession | None) -> list[ViewVerdict]:
    """Compare every materialized view with a batch run of its query; views on views are recomputed from the tables up.

    A Spark that does not see the files of this machine cannot judge: None leaves it to DuckDB.
    """
    version = store.refresh()
    catalog = load_catalog(version).catalog
    with tempfile.TemporaryDirectory(prefix="tideline-verify-") as folder:
        files = {}
        for model in models:
            if model.kind == "table":
                files[model.name] = Path(folder) / f"{model.name}.parquet"
                _export(store, model.name, files[model.name])
        held = {
            model.name: _read_content(store, model.name, list_visible_columns(catalog.get(model.name)))
            for model in models
            if model.kind == "materialized view"
        }
        verdicts = _verify_by_spark(spark, models, files, held) if spark is not None else []
        return verdicts + _verify_by_duckdb(models, files, held)


def count_landed_rows(store: Hummock, models: Sequence[Model], home: Path) -> list[RowCount]:
    """Count the rows of every landing table of the project at `home` in its files, beside those that the store holds."""
    version = store.refresh()
    catalog = load_catalog(version).catalog
    found = []
    for model in models:
        if model.kind == "table" and model.options.get("connector") == "landing":
            key = catalog.get(model.name).primary_key
            held = sum(batch.num_rows for batch in store.iter(model.name, columns=list(key)))
            found.append(count_rows(model.name, home / model.options["path"], key, held))
    return found


def _export(store: Hummock, name: str, path: Path) -> None:
    table = store.version.tables[name]
    pq.write_table(_read_content(store, name, tuple(table.schema.names)), path)


def _read_content(store: Hummock, name: str, columns: tuple[str, ...]) -> pa.Table:
    schema = store.version.tables[name].schema
    wanted = pa.schema([schema.field(column) for column in columns])
    batches = [batch.select(list(columns)) for batch in store.iter(name, columns=list(columns))]
    return pa.Table.from_batches(batches, wanted) if batches else wanted.empty_table()


def _verify_by_spark(
    spark: SparkSession, models: Sequence[Model], files: Mapping[str, Path], held: Mapping[str, pa.Table]
) -> list[ViewVerdict]:
    for name, path in files.items():
        spark.read.parquet(path.as_uri()).createOrReplaceTempView(name)
    verdicts = []
    for model in models:
        query = _get_query(model)
        if query is None:
            continue
        frame = spark.sql(query)
        frame.createOrReplaceTempView(model.name)
        if model.name in held:
            verdicts.append(_compare(model.name, "Spark", held[model.name], frame.toArrow()))
    return verdicts


def _verify_by_duckdb(
    models: Sequence[Model], files: Mapping[str, Path], held: Mapping[str, pa.Table]
) -> list[ViewVerdict]:
    verdicts = []
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name, path in files.items():
            database.execute(f"CREATE VIEW \"{name}\" AS SELECT * FROM read_parquet('{path}')")
        for model in models:
            query = _get_query(model)
            if query is None:
                continue
            text = sqlglot.transpile(query, read=model.dialect, write="duckdb")[0]
            database.execute(f'CREATE VIEW "{model.name}" AS {text}')
            if model.name in held:
                batch = database.sql(f'SELECT * FROM "{model.name}"').to_arrow_table()
                verdicts.append(_compare(model.name, "DuckDB", held[model.name], batch))
    return verdicts


def _get_query(model: Model) -> str | None:
    statement = parse_statement(model.sql, model.dialect)
    return statement.query_sql if isinstance(statement, CreateMaterializedView | CreateView) else None


def _compare(view: str, engine: str, held: pa.Table, batch: pa.Table) -> ViewVerdict:
    """Compare two tables as multisets of rows; floating-point numbers may differ in the last digits."""
    if held.num_rows != batch.num_rows:
        return ViewVerdict(
            view, engine, held.num_rows, f"{held.num_rows} rows, the batch has {batch.num_rows}"
        )
    try:
        batch = batch.rename_columns(held.column_names).cast(held.schema)
    except (pa.ArrowInvalid, ValueError) as error:
        return ViewVerdict(view, engine, held.num_rows, f"the types differ: {error}")
    left, right = _sort_rows(held), _sort_rows(batch)
    for name in held.column_names:
        wrong = _find_difference(left.column(name), right.column(name))
        if wrong is not None:
            shown = f"column {name}: {left.column(name)[wrong]}, the batch has {right.column(name)[wrong]}"
            return ViewVerdict(
                view, engine, held.num_rows, f"{shown}, in {left.slice(wrong, 1).to_pylist()[0]}"
            )
    return ViewVerdict(view, engine, held.num_rows, "")


def _sort_rows(table: pa.Table) -> pa.Table:
    """Sort by the columns that are exact first, so that the last digits of the others do not change the order."""
    exact = [field.name for field in table.schema if not pa.types.is_floating(field.type)]
    others = [field.name for field in table.schema if pa.types.is_floating(field.type)]
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in (*exact, *others)]))


def _find_difference(left: pa.ChunkedArray, right: pa.ChunkedArray) -> int | None:
    """Return the first row in which two columns differ, or None."""
    nulls = pc.not_equal(pc.is_null(left), pc.is_null(right)).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(left.type):
        one, two = left.to_numpy(zero_copy_only=False), right.to_numpy(zero_copy_only=False)
        same = np.isclose(one, two, rtol=RELATIVE_TOLERANCE, atol=1e-12, equal_nan=True)
    else:
        same = pc.fill_null(pc.equal(left, right), True).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(nulls | ~same.astype(bool))
    return int(wrong[0]) if len(wrong) else None

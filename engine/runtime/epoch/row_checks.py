"""Checks of a view's rows by its pandera schema, on files that are written and that nobody sees yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.arrow import as_values, has_far_times
from engine.errors import RowFailed, SqlError
from engine.hummock import Hummock, SstInfo, Table, Version
from engine.hummock.monitoring.driver_traffic import track_rows, track_traffic
from engine.hummock.version import OP, PUT
from engine.meta.catalog.stored_catalog import load_catalog
from engine.meta.status.check_results import CheckResult, ViewCheckResults
from engine.runtime.epoch.schema_modules import import_schema_module
from engine.sql.catalog import Relation
from engine.sql.checks import PANDERA as OPTION

CHECKED_AT_ONCE = 200_000
SHOWN_FAILURES = 5


def check_rows(store: Hummock, version: Version, table: Table, ssts: Sequence[SstInfo], epoch: int) -> int:
    """Check the new rows in files of a view's table, if it declares a schema; raises RowFailed with the rows that break it.

    A frame holds some of the new and changed rows, at most CHECKED_AT_ONCE: checks are of rows, not of the whole view. Returns
    how many bytes of rows have passed through this process.
    """
    relation = load_catalog(version).catalog.relations.get(table.name)
    if relation is None or OPTION not in relation.options:
        return 0
    with track_traffic(store.counters, f"check {table.name}") as traffic:
        _check_schema(store, relation, table, ssts, epoch)
    return traffic.bytes


def _check_schema(
    store: Hummock, relation: Relation, table: Table, ssts: Sequence[SstInfo], epoch: int
) -> None:
    view = table.name
    schema = import_schema(relation.options[OPTION])
    for rows in _read_new_rows(store, relation, table, ssts):
        failing, broken = _find_broken_rows(schema, track_rows(rows))
        if broken:
            failure = RowFailed(
                f"rows of {view} break its schema {relation.options[OPTION]}: {'; '.join(broken)}; the view stays as it is: "
                f"correct the rows that it reads, or the schema"
            )
            result = CheckResult(False, rows=failing, note="; ".join(broken))
            failure.checks = {view: ViewCheckResults({OPTION: result}, epoch)}
            raise failure


def check_declared(relation: Relation) -> None:
    """Check that the schema of a new view exists, names only its columns, and asks for nothing that rows alone cannot tell."""
    if OPTION not in relation.options:
        return
    name = relation.options[OPTION]
    schema = import_schema(name)
    columns = [column.name for column in relation.visible_columns]
    unknown = [
        column for column in schema.columns if column not in columns and not schema.columns[column].regex
    ]
    if unknown:
        raise SqlError(
            f"schema {name} names {', '.join(unknown)}, which {relation.name} does not have",
            sql=relation.sql,
            hint=f"its columns are {', '.join(columns)}",
        )
    if schema.unique or any(column.unique for column in schema.columns.values()):
        raise SqlError(
            f"schema {name} asks for unique values, which new rows alone cannot show",
            sql=relation.sql,
            hint="leave unique out: a view's key is unique, SHOW CREATE and EXPLAIN INCREMENTAL name it",
        )


def import_schema(name: str) -> Any:
    """Return the DataFrameSchema that `module:name` is; raises SqlError if there is none, or none that may be imported."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_schema_module(module), attribute)
    except (ImportError, AttributeError) as error:
        hint = "pandera = 'module:name' names a DataFrameSchema or DataFrameModel that can be imported"
        raise SqlError(f"schema {name} cannot be loaded: {error}", hint=hint) from error
    schema = found.to_schema() if hasattr(found, "to_schema") else found
    if not hasattr(schema, "validate") or not hasattr(schema, "columns"):
        raise SqlError(f"{name} is no pandera schema", hint="name a DataFrameSchema or a DataFrameModel")
    return schema


def _read_new_rows(
    store: Hummock, relation: Relation, table: Table, ssts: Sequence[SstInfo]
) -> Iterator[pa.Table]:
    """Yield the rows of files that hold no key twice, at most CHECKED_AT_ONCE together; no file is read as a whole."""
    visible = relation.visible_columns
    sources, names = [column.storage_name for column in visible], [column.name for column in visible]
    some: list[pa.Table] = []
    for rows in _read_puts(store, table, ssts, sources):
        if some and sum(part.num_rows for part in some) + rows.num_rows > CHECKED_AT_ONCE:
            yield pa.concat_tables(some)
            some = []
        some.append(rows.rename_columns(names))
    if some:
        yield pa.concat_tables(some)


def _read_puts(
    store: Hummock, table: Table, ssts: Sequence[SstInfo], columns: list[str]
) -> Iterator[pa.Table]:
    for sst in ssts:
        for rows in store.reader.files.read_in_parts(sst, [OP, *columns], table.schema):
            if sst.has_tombstones:
                rows = rows.filter(pc.equal(rows.column(OP), pa.scalar(PUT, pa.uint8())))
            for start in range(0, rows.num_rows, CHECKED_AT_ONCE):
                yield rows.select(columns).slice(start, CHECKED_AT_ONCE)


_FAR = (NotImplementedError, OverflowError)
"""What pandas raises where it should write a time of a year that Python has not."""


def _format_value(value: Any) -> str:
    try:
        return repr(value)
    except _FAR:
        return f"a time in the year {value.year}"


def _build_frame(rows: pa.Table, texts: Sequence[str]) -> Any:
    """Return rows as pandas has them; `texts` are columns of dates and times that become texts where Python has not the year."""
    import pandas as pd

    frame = rows.drop_columns(list(texts)).to_pandas()
    for name in texts:
        values = pd.Series(as_values(rows.column(name)), dtype=object)
        frame.insert(rows.schema.get_field_index(name), name, values)
    for field in rows.schema:
        if pa.types.is_integer(field.type) and rows.column(field.name).null_count:
            whole = rows.column(field.name).to_pandas(types_mapper=lambda _: pd.Int64Dtype())
            frame[field.name] = whole
    return frame


def _find_broken_rows(schema: Any, rows: pa.Table) -> tuple[int, list[str]]:
    """Return how many rows are wrong, as often as they are, and what is, in words; nothing if they are right."""
    from pandera.errors import SchemaError, SchemaErrors

    far = [field for field in rows.schema if has_far_times(rows.column(field.name))]
    try:
        try:
            schema.validate(
                _build_frame(rows, [field.name for field in far if pa.types.is_date(field.type)]), lazy=True
            )
        except _FAR:  # pandas tells of no value what it is
            schema.validate(_build_frame(rows, [field.name for field in far]), lazy=True)
    except SchemaErrors as error:
        cases = error.failure_cases
        failures_text = []
        for (column, check), failures in cases.groupby(["column", "check"], dropna=False, sort=False):
            values = ", ".join(
                _format_value(value) for value in failures["failure_case"].head(SHOWN_FAILURES)
            )
            failures_text.append(f"column {column}, {check}: {len(failures)} rows, such as {values}")
        return len(cases), failures_text
    except SchemaError as error:
        return 1, [str(error)]
    return 0, []

"""What CREATE SINK asks before a sink writes a Delta table: whether Delta has its types, and what is there can take its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa
import xxhash
from pyspark.sql import SparkSession

from engine.connectors.delta.sink.tables import (
    SETTINGS,
    check_shared,
    find_owner,
    has_been_clustered,
    read_column_types,
    read_layout,
    translate_errors,
)
from engine.connectors.delta.sink.target import APP, find_missing_columns
from engine.connectors.sinks.options import SinkOptions
from engine.errors import SinkError, SqlError
from engine.runtime.spark.session import EngineSpark
from engine.spark_internals import activate
from engine.sql.catalog import Relation
from engine.sql.parsing.statement_errors import locate_character
from engine.sql.statements.ddl.sink_statements import CreateSink
from engine.sql.typing.delta_columns import find_unsupported_type
from engine.sql.typing.types import to_arrow

MOST_CLUSTERED, MEASURED = 4, 32
_MANY = ("array<", "map<", "struct<")
Wrong = Callable[[str, str, str], SqlError]
OpenSpark = Callable[[], SparkSession]


def prepare_delta_sink(
    store_url: str, relation: Relation, statement: CreateSink, spark: OpenSpark, *, alone: bool = False
) -> Relation:
    """Return a new sink with its name in the table's transactions, the same if it is created again. Raises SqlError.

    One that is `alone` writes no table that somebody else has made.
    """

    def build_error(option: str, message: str, hint: str) -> SqlError:
        place = statement.places.get(option, statement.places.get("url", 0))
        line, column = locate_character(statement.sql, place)
        return SqlError(message, sql=statement.sql, line=line, column=column, hint=hint)

    app = f"tideline/{xxhash.xxh64_hexdigest(store_url)}/{relation.name}"
    relation = msgspec.structs.replace(relation, options={**relation.options, APP: app})
    _check_columns(relation, build_error)
    _check_table(relation, spark, build_error, alone)
    return relation


def _check_columns(relation: Relation, wrong: Wrong) -> None:
    """Raise SqlError if Delta has no type for a column, or cannot lay rows out by one."""
    options = SinkOptions.of(relation.options)
    for column in relation.columns:
        name, kind = column.name, column.type
        if missing := find_unsupported_type(to_arrow(kind)):
            cast = f"CAST it in the view, for instance {name}::STRING, or leave it out"
            hint = "make a key of other columns in the view" if column.hidden else cast
            raise wrong("connector", f"column {name} is {kind}, and Delta has no type {missing}", hint)
    types = {column.name: column.type for column in relation.columns if not column.hidden}
    for option, names in (("partition_by", options.partition_by), ("cluster_by", options.cluster_by)):
        for name in names:
            if name not in types:
                raise wrong(option, f"there is no column {name}", f"columns are {', '.join(types)}")
            if types[name].startswith(_MANY) or types[name] == "binary":
                raise wrong(
                    option, f"column {name} is {types[name]}, which has no order", "name another column"
                )
        if len(set(names)) < len(names):
            raise wrong(option, "a column occurs twice", "name each once")
    _check_clustering(relation, options.cluster_by, wrong)
    if len(options.partition_by) == len(types):
        raise wrong("partition_by", "no column would be left in the files", "name fewer columns")


def _check_clustering(relation: Relation, names: Sequence[str], wrong: Wrong) -> None:
    """Raise SqlError for columns by which Delta does not cluster: it has to know their least and greatest values."""
    if len(names) > MOST_CLUSTERED:
        message = f"{len(names)} columns, and Delta clusters by {MOST_CLUSTERED} at most"
        raise wrong("cluster_by", message, "name those that queries filter by")
    before = 0
    for column in relation.columns:
        if column.name in names and column.type == "boolean":
            message = f"column {column.name} is boolean, by which Delta does not cluster"
            raise wrong("cluster_by", message, "name another column")
        if column.name in names and before >= MEASURED:
            message = (
                f"column {column.name} is behind the first {MEASURED}, of which alone Delta keeps statistics"
            )
            raise wrong("cluster_by", message, "select it further in front in the view")
        before += _count_leaves(to_arrow(column.type))


def _count_leaves(kind: pa.DataType) -> int:
    return sum(_count_leaves(field.type) for field in kind) if pa.types.is_struct(kind) else 1


def _check_table(relation: Relation, spark: OpenSpark, wrong: Wrong, alone: bool) -> None:
    """Raise SqlError if Spark cannot reach the place of a table, or if the table that is there cannot take the rows."""
    options = SinkOptions.of(relation.options)
    try:
        session = EngineSpark.of(spark()).separate(SETTINGS).session
        activate(session)
        check_shared(session, f"sink {relation.name}", options.url)
        with translate_errors(f"sink {relation.name}", options.url):
            owner = find_owner(session, options.url)
            if (
                owner == relation.options[APP]
                and options.partition_by
                and has_been_clustered(session, options.url)
            ):
                hint = "take cluster_by, name another path, or delete the table"
                message = (
                    "the table that is there is, or was, clustered, and Delta makes no partitioned one of it"
                )
                raise wrong("partition_by", message, hint)
            if owner in (None, relation.options[APP]):
                return
            if alone:
                hint = (
                    "name another path, or delete the table; CREATE SINK merges rows into one that is there"
                )
                raise wrong("path", f"at {options.url} is a table that this view did not create", hint)
            find_missing_columns(relation, read_column_types(session, options.url))
            there, clustered = read_layout(session, options.url)
    except SinkError as error:
        raise wrong("path", str(error), "put this right, or name another path") from error
    if options.upsert and not relation.primary_key:
        message = "the view is one row without a key, so its row cannot be found in the existing table"
        raise wrong("path", message, "name another path")
    if there != options.partition_by:
        is_so = f"partitioned by {', '.join(there)}" if there else "not partitioned"
        hint = f"partition_by = '{', '.join(there)}'" if there else "leave partition_by out"
        raise wrong("path", f"the table that is there is {is_so}", hint)
    if options.cluster_by and clustered != options.cluster_by:
        is_so = f"clustered by {', '.join(clustered)}" if clustered else "not clustered"
        hint = "leave cluster_by out, or change the table by ALTER TABLE … CLUSTER BY"
        raise wrong("cluster_by", f"the table that is there is {is_so}", hint)

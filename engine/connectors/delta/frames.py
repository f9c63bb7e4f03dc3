"""A Delta table's rows as Spark frames: a version as a whole, or what versions have changed, in the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from engine.connectors.delta.log import DeltaLog, DeltaPlace, Metadata, entry_path
from engine.connectors.delta.steps import DeltaStep, HistoryGone
from engine.connectors.delta.types import parse_schema
from engine.connectors.delta.values import MatchedColumn, match_column
from engine.errors import EnvironmentNotReady, SourceError, StorageError
from engine.hummock import Hummock, TableVersion
from engine.jars import FETCH_S3A
from engine.operators.context import count_partitions
from engine.operators.lookups.scan import ReadTable, read_table
from engine.operators.lookups.table_parameters import TableAt
from engine.runtime.spark.errors import simplify_message
from engine.runtime.spark.session import EngineSpark
from engine.runtime.spark.shared_folders import find_visibility_fault, is_in_this_process
from engine.runtime.writes.change_tasks import UNFIT
from engine.runtime.writes.spill import PLACE
from engine.spark_internals import activate
from engine.sql.catalog import ROW_ID, Relation
from engine.sql.column_names import match_columns
from engine.sql.expression.spark_sql import quote, quote_text
from engine.sql.typing.types import quote_type

Spark = Callable[[], SparkSession]
_AT_END = "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable"
_AT_VERSION = "spark.databricks.delta.changeDataFeed.allowTimeTravelOptionsForSchema"
_BY_NUMBER = "spark.sql.parquet.fieldId.read.enabled"
"""Columns of files are found by their numbers where a schema, which this process gives, has some."""
_GONE = (
    *(
        "FileNotFoundException",
        "FILE_NOT_FOUND",
        "FILE_NOT_EXIST",
        "PATH_NOT_FOUND",
        "VERSION_NOT_FOUND",
        "VERSIONS_NOT_CONTIGUOUS",
    ),
    *("CHANGE_DATA_FEED_INCOMPATIBLE", "UNRESOLVED_COLUMN", "MISSING_CHANGE_DATA"),
)
_NO_S3 = ("S3AFileSystem not found", 'No FileSystem for scheme "s3a"')
_S3_NOW = f"`{FETCH_S3A}` fetches it for a Spark that is started here afterwards; a server that SPARK_REMOTE names has to have it"
_NO_DELTA = "DATA_SOURCE_NOT_FOUND"


@contextmanager
def open_read_session(spark: Spark, relation: str, place: DeltaPlace) -> Iterator[SparkSession]:
    """Give a session of this thread's own for reading Delta; raises SourceError or HistoryGone in the place of Spark's errors."""
    before = None
    shared = EngineSpark.of(spark()).share()
    session = shared.session
    try:
        before = SparkSession.getActiveSession()
        activate(session)
        shared.configure(_AT_END, "endVersion")
        shared.configure(_AT_VERSION, "true")
        shared.configure(_BY_NUMBER, "true")
        yield session
    except (PySparkException, Py4JError) as error:  # what fails below Spark is not always told as Spark's
        with suppress(EnvironmentNotReady, StorageError, OSError):  # then the first error tells more
            check_visible(session, relation, place)
        raise _translate_error(error, relation, place) from error
    finally:
        if before is not None:
            activate(before)


def check_visible(session: SparkSession, relation: str, place: DeltaPlace) -> None:
    """Raise SourceError if the Delta table is in a folder of this machine that Spark's tasks, on others, do not see."""
    if place.is_remote or is_in_this_process(session):
        return
    newest = entry_path(DeltaLog(place).find_newest_version())
    if fault := find_visibility_fault(session, place.folder, newest):
        raise SourceError(f"table {relation}: {fault}")


def match_delta_columns(
    relation: Relation, metadata: Metadata, place: DeltaPlace
) -> Mapping[str, MatchedColumn]:
    """Return how each column of a table is taken; raises SourceError for one that is missing or can't be taken."""
    there = parse_schema(metadata.schema_string)
    visible = relation.visible_columns
    places = match_columns(
        [column.name for column in visible], [delta_column.name for delta_column in there]
    ).found
    found = {}
    for column in visible:
        delta_column = there[places[column.name]] if column.name in places else None
        if delta_column is None:
            name = relation.name
            remedy = (
                f"ALTER TABLE {name} DROP COLUMN {column.name}; or add it to the Delta table, and "
                f"ALTER TABLE {name} RESYNC passes the versions that lack it"
            )
            if relation.is_pass_through:
                remedy = f"DROP SOURCE {name} CASCADE, and create it and its views again without that column"
            raise SourceError(
                f"{relation.kind} {name}: the Delta table at {place.display_name} has no column {column.name}: {remedy}"
            )
        matched = match_column(delta_column, column.type)
        if matched is None:
            raise SourceError(
                f"table {relation.name}: column {column.name} is {column.type} here and {delta_column.delta_type} in the Delta "
                f"table at {place.display_name}: make a new table with that type"
            )
        found[column.name] = matched
    return found


def read_feed_changes(
    session: SparkSession,
    relation: Relation,
    step: DeltaStep,
    place: DeltaPlace,
    columns: Mapping[str, MatchedColumn],
) -> DataFrame:
    """Return what versions have changed, with the place of each change."""
    new = "_change_type IN ('insert', 'update_postimage')"
    return read_feed(session, step, place).selectExpr(
        *render_columns(relation, columns),
        *render_reasons(relation, columns, new),
        f"CAST(_commit_version * 2 + IF({new}, 1, 0) AS BIGINT) AS {PLACE}",
    )


def read_feed(session: SparkSession, step: DeltaStep, place: DeltaPlace) -> DataFrame:
    """Return the change data feed of a step's versions, in the schema that they have, whatever it is by now."""

    def open_feed() -> DataFrameReader:
        found = session.read.format("delta").option("readChangeFeed", "true")
        return found.option("startingVersion", step.first).option("endingVersion", step.last)

    if not step.then.metadata.is_mapped:
        with suppress(PySparkException):  # if columns are mapped by now
            found = open_feed().option("versionAsOf", step.last).load(place.spark)
            if found.schema is not None:  # a server looks at the table only now
                return found
    return open_feed().load(place.spark)  # by the session's setting where columns are mapped


def read_snapshot(
    session: SparkSession,
    relation: Relation,
    version: int,
    place: DeltaPlace,
    columns: Mapping[str, MatchedColumn],
) -> DataFrame:
    """Return a version's rows, which have no place."""
    whole = session.read.format("delta").option("versionAsOf", version).load(place.spark)
    return whole.selectExpr(
        *render_columns(relation, columns),
        *render_row_ids(relation, "_metadata.row_id"),
        *render_reasons(relation, columns, "TRUE"),
    )


def read_table_rows(
    session: SparkSession, store: Hummock, relation: Relation, table: TableVersion
) -> DataFrame:
    """Return the rows that a table has, at the place of those that were there before."""
    items = tuple((column.name, column.storage_name) for column in relation.columns)
    parts = count_partitions(table.row_count, EngineSpark.of(session).count_parallel_tasks())
    source = TableAt(table, None, table.committed_epoch)
    body = ReadTable(store.url, dict(store.options), source, items, parts=parts)
    frame = read_table(session, body, table.schema).frame
    return frame.selectExpr("*", f"CAST(0 AS BIGINT) AS {PLACE}")


def render_columns(relation: Relation, columns: Mapping[str, MatchedColumn]) -> list[str]:
    """Return the columns of a table as Spark SQL over those of its Delta table; a source stops at a value without a place."""
    found = []
    for column in relation.visible_columns:
        matched = columns[column.name]
        item = matched.item
        if matched.unfit and relation.is_pass_through:
            remedy = f": DROP SOURCE {relation.name} CASCADE, and create it and its views again"
            message = f"concat({matched.reason}, {quote_text(remedy)})"
            item = f"IF({matched.unfit}, CAST(raise_error({message}) AS {quote_type(matched.type)}), {item})"
        found.append(f"{item} AS {quote(column.name)}")
    return found


def has_row_ids(relation: Relation) -> bool:
    """Tell whether the ids that a Delta table gives its rows are the key of a table, which has no other."""
    return ROW_ID in relation.primary_key


def render_row_ids(relation: Relation, row_id: str) -> list[str]:
    """Return the key of a table that has no other, from a row's id: below zero, where no row of a statement has its own."""
    return [f"CAST(-1 - {row_id} AS BIGINT) AS {quote(ROW_ID)}"] if has_row_ids(relation) else []


def render_reasons(relation: Relation, columns: Mapping[str, MatchedColumn], new: str) -> list[str]:
    """Return the column that tells why a row is set aside, where one may be; of a row that goes the key alone counts."""
    if relation.is_pass_through or not any(matched.unfit for matched in columns.values()):
        return []
    key = [column.name for column in relation.columns if column.storage_name in relation.primary_key]
    every, keys = (
        f"nullif(concat_ws('; ', {', '.join(columns[name].reason for name in names)}), '')"
        if names
        else "NULL"
        for names in (list(columns), [name for name in key if name in columns])
    )
    return [f"IF({new}, {every}, {keys}) AS {UNFIT}"]


def _translate_error(error: PySparkException | Py4JError, relation: str, place: DeltaPlace) -> SourceError:
    text, reason = str(error), simplify_message(str(error).partition("\n: ")[2] or str(error))
    if isinstance(error, PySparkException):
        # not `getMessage`, which looks for Delta's own conditions among Spark's, and fails
        text, reason = f"{error.getCondition()} {text}", simplify_message(text)
    if any(word in text for word in _NO_S3):
        return SourceError(
            f"table {relation}: this Spark has no file system s3a, by which it would read {place.display_name}: {_S3_NOW}"
        )
    if _NO_DELTA in text:
        return SourceError(
            f"table {relation}: this Spark knows no Delta: start it with the jars of delta-spark (spark.jars)"
        )
    if any(word in text for word in _GONE):
        return HistoryGone(
            relation,
            f"earlier versions of the Delta table at {place.display_name} can't be read any more ({reason})",
        )
    return SourceError(f"table {relation}: the Delta table at {place.display_name} can't be read: {reason}")

"""A Delta table's rows as Spark frames: a version as a whole, or what versions have changed, in the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.connectors.delta_log import DeltaLog, DeltaPlace, Metadata, entry_of
from engine.connectors.delta_steps import HistoryGone, Step
from engine.connectors.delta_types import DeltaColumn, delta_columns
from engine.errors import EnvironmentNotReady, SourceError, StorageError
from engine.hummock import Hummock, TableVersion
from engine.jars import FETCH_S3A
from engine.operators.context import partitions_for
from engine.operators.scan import ReadTable, read_table
from engine.operators.table_parameters import TableAt
from engine.runtime.spark.errors import plain_message
from engine.runtime.spark.session import beside, configure, parallelism
from engine.runtime.spark.shared_folders import runs_here, unseen
from engine.runtime.writes.spilled import PLACE
from engine.spark_internals import activate
from engine.sql.catalog import Relation
from engine.sql.column_names import matched
from engine.sql.expression.spark_sql import quote
from engine.sql.typing.types import quoted_type

Spark = Callable[[], SparkSession]
_AT_END = "spark.databricks.delta.changeDataFeed.defaultSchemaModeForColumnMappingTable"
_GONE = (
    *(
        "FileNotFoundException",
        "FILE_NOT_FOUND",
        "FILE_NOT_EXIST",
        "VERSION_NOT_FOUND",
        "VERSIONS_NOT_CONTIGUOUS",
    ),
    *("CHANGE_DATA_FEED_INCOMPATIBLE", "UNRESOLVED_COLUMN", "MISSING_CHANGE_DATA"),
)
_NO_S3 = ("S3AFileSystem not found", 'No FileSystem for scheme "s3a"')
_S3_NOW = f"`{FETCH_S3A}` fetches it for a Spark that is started here afterwards; a server that SPARK_REMOTE names has to have it"
_NO_DELTA = "DATA_SOURCE_NOT_FOUND"


@contextmanager
def reading(spark: Spark, relation: str, place: DeltaPlace) -> Iterator[SparkSession]:
    """Give a session of this thread's own for reading Delta; raises SourceError or HistoryGone in the place of Spark's errors."""
    before = None
    session = beside(spark())
    try:
        before = SparkSession.getActiveSession()
        activate(session)
        configure(session, _AT_END, "endVersion")
        yield session
    except (PySparkException, Py4JError) as error:  # what fails below Spark is not always told as Spark's
        with suppress(EnvironmentNotReady, StorageError, OSError):  # then the first error tells more
            check_seen(session, relation, place)
        raise _said(error, relation, place) from error
    finally:
        if before is not None:
            activate(before)


def check_seen(session: SparkSession, relation: str, place: DeltaPlace) -> None:
    """Raise SourceError if the Delta table is in a folder of this machine that Spark's tasks, on others, do not see."""
    if place.is_remote or runs_here(session):
        return
    newest = entry_of(DeltaLog(place).newest())
    if fault := unseen(session, place.folder, newest):
        raise SourceError(f"table {relation}: {fault}")


def taken_columns(relation: Relation, metadata: Metadata, place: DeltaPlace) -> Mapping[str, str]:
    """Return the Delta column of each column of a table; raises SourceError where one is missing or of another type."""
    there = delta_columns(metadata.schema_string)
    shown = [column for column in relation.columns if not column.hidden]
    places = matched([column.name for column in shown], [given.name for given in there]).found
    found = {}
    for column in shown:
        given = there[places[column.name]] if column.name in places else None
        if given is None:
            name = relation.name
            remedy = (
                f"ALTER TABLE {name} DROP COLUMN {column.name}; or add it to the Delta table, and "
                f"ALTER TABLE {name} RESYNC passes the versions that lack it"
            )
            if relation.passes:
                remedy = f"DROP SOURCE {name} CASCADE, and create it and its views again without that column"
            raise SourceError(
                f"{relation.kind} {name}: the Delta table at {place.shown} has no column {column.name}: {remedy}"
            )
        if not same_type(column.type, given):
            raise SourceError(
                f"table {relation.name}: column {column.name} is {column.type} here and {given.type or given.given} in the Delta "
                f"table at {place.shown}: make a new table with that type"
            )
        found[column.name] = given.name
    return found


def same_type(kind: str, given: DeltaColumn) -> bool:
    """Tell whether a column of a Delta table fits a column of this type as it is."""
    return given.type is not None and kind.replace(" ", "").lower() == given.type.replace(" ", "").lower()


def changes_of(
    session: SparkSession, relation: Relation, step: Step, place: DeltaPlace, columns: Mapping[str, str]
) -> DataFrame:
    """Return what versions have changed, with the place of each change."""
    feed = session.read.format("delta").option("readChangeFeed", "true")
    feed = feed.option("startingVersion", step.first).option("endingVersion", step.last)
    new = "_change_type IN ('insert', 'update_postimage')"
    return feed.load(place.spark).selectExpr(
        *taken_items(relation, columns),
        f"CAST(_commit_version * 2 + IF({new}, 1, 0) AS BIGINT) AS {PLACE}",
    )


def snapshot_of(
    session: SparkSession, relation: Relation, version: int, place: DeltaPlace, columns: Mapping[str, str]
) -> DataFrame:
    """Return a version's rows, which have no place."""
    whole = session.read.format("delta").option("versionAsOf", version).load(place.spark)
    return whole.selectExpr(*taken_items(relation, columns))


def rows_here(session: SparkSession, store: Hummock, relation: Relation, table: TableVersion) -> DataFrame:
    """Return the rows that a table has, at the place of those that were there before."""
    items = tuple((column.name, column.source) for column in relation.columns)
    parts = partitions_for(table.row_count, parallelism(session))
    source = TableAt(table, None, table.committed_epoch)
    body = ReadTable(store.url, dict(store.options), source, items, parts=parts)
    frame = read_table(session, body, table.schema).frame
    return frame.selectExpr("*", f"CAST(0 AS BIGINT) AS {PLACE}")


def taken_items(relation: Relation, columns: Mapping[str, str]) -> list[str]:
    """Return the columns of a table as Spark SQL over those of its Delta table."""
    return [
        f"CAST({quote(columns[column.name])} AS {quoted_type(column.type)}) AS {quote(column.name)}"
        for column in relation.columns
        if not column.hidden
    ]


def _said(error: PySparkException | Py4JError, relation: str, place: DeltaPlace) -> SourceError:
    text, told = str(error), plain_message(str(error).partition("\n: ")[2] or str(error))
    if isinstance(error, PySparkException):
        # not `getMessage`, which looks for Delta's own conditions among Spark's, and fails
        text, told = f"{error.getCondition()} {text}", plain_message(text)
    if any(word in text for word in _NO_S3):
        return SourceError(
            f"table {relation}: this Spark has no file system s3a, by which it would read {place.shown}: {_S3_NOW}"
        )
    if _NO_DELTA in text:
        return SourceError(
            f"table {relation}: this Spark knows no Delta: start it with the jars of delta-spark (spark.jars)"
        )
    if any(word in text for word in _GONE):
        return HistoryGone(
            relation, f"earlier versions of the Delta table at {place.shown} can't be read any more ({told})"
        )
    return SourceError(f"table {relation}: the Delta table at {place.shown} can't be read: {told}")

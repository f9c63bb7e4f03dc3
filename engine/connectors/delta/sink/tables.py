"""Delta tables as Spark writes them: how they are named, the settings of sessions that write them, and what their errors mean."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from engine.errors import Conflict, SinkError, TidelineError
from engine.hummock.manifests.commit_lock import try_lock
from engine.jars import FETCH_S3A
from engine.runtime.spark.errors import simplify_message
from engine.runtime.spark.shared_folders import find_sharing_fault
from engine.sql.expression.spark_sql import quote

OWNER = "tideline.sink"
"""The property that names the sink whose table it is; SHARED where others have written it."""
SHARED = "several"
SETTINGS = {
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.autoBroadcastJoinThreshold": "10485760",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Times of 64 bits: those of 96, which Spark writes by itself, are others to delta-rs where nanoseconds do not reach."""
TRANSACTION = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
COMMENT = "spark.databricks.delta.commitInfo.userMetadata"
LOCK_SECONDS = 600.0
PAUSE_SECONDS = 0.05
_JAVA_CLASS = re.compile(r"^:?\s*(?:[\w$]+\.)+\w*(?:Exception|Error): ")
_CONCURRENT_CHANGE = re.compile(r"\[DELTA_(CONCURRENT_\w+|METADATA_CHANGED|PROTOCOL_CHANGED)")
_NO_FILE_SYSTEM = re.compile(r'Class \S*S3AFileSystem not found|No FileSystem for scheme "?\w+')


def to_spark_path(url: str) -> str:
    """Return an address as Spark takes it: a local folder is a plain path, in which nothing is escaped."""
    return unquote(urlsplit(url).path) if url.startswith("file:") else url


def render_table_name(url: str) -> str:
    """Return what Spark SQL calls the Delta table at an address."""
    return f"delta.{quote(to_spark_path(url))}"


def render_name_list(names: Iterable[str]) -> str:
    """Return names as a list in Spark SQL."""
    return ", ".join(quote(name) for name in names)


def read_column_types(session: SparkSession, url: str) -> dict[str, str]:
    """Return the types of a Delta table's columns by their names."""
    fields = session.sql(f"SELECT * FROM {render_table_name(url)} LIMIT 0").schema.fields
    return {field.name: field.dataType.simpleString() for field in fields}


_DELTAS_OWN = (
    "delta.columnMapping.",
    "delta.rowTracking.",
    "delta.feature.",
    "delta.inCommitTimestamp",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
)


def read_layout(session: SparkSession, url: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns by which a Delta table is partitioned, and those by which it is clustered."""
    (detail,) = session.sql(f"DESCRIBE DETAIL {render_table_name(url)}").toArrow().to_pylist()
    return tuple(detail["partitionColumns"]), tuple(detail["clusteringColumns"])


def read_user_properties(session: SparkSession, url: str) -> dict[str, str]:
    """Return the properties that somebody has given a Delta table: those that Delta keeps its own account in are left out."""
    (detail,) = session.sql(f"DESCRIBE DETAIL {render_table_name(url)}").toArrow().to_pylist()
    return {key: value for key, value in detail["properties"] or () if not key.startswith(_DELTAS_OWN)}


def has_been_clustered(session: SparkSession, url: str) -> bool:
    """Tell whether a Delta table is clustered, or was: Delta never makes a partitioned one of it."""
    (detail,) = session.sql(f"DESCRIBE DETAIL {render_table_name(url)}").toArrow().to_pylist()
    return "clustering" in (detail["tableFeatures"] or ())


def find_owner(session: SparkSession, url: str) -> str | None:
    """Return the sink whose table stands at an address, "" for a table of nobody's, None if there is none."""
    try:
        found = session.sql(f"SHOW TBLPROPERTIES {render_table_name(url)}").toArrow().to_pylist()
    except Exception as error:
        if "[DELTA_MISSING_DELTA_TABLE]" in str(error) or "[DELTA_PATH_DOES_NOT_EXIST]" in str(error):
            return None
        raise
    return next((row["value"] for row in found if row["key"] == OWNER), "")


def count_committed_rows(session: SparkSession, url: str, comment: str) -> int:
    """Return how many rows the last commit to a table has written, 0 if it is not the one with that comment."""
    (last,) = session.sql(f"DESCRIBE HISTORY {render_table_name(url)} LIMIT 1").toArrow().to_pylist()
    numbers = dict(last["operationMetrics"] or ())
    return int(numbers.get("numOutputRows", 0)) if last["userMetadata"] == comment else 0


@contextlib.contextmanager
def begin_transaction(session: SparkSession, app: str, version: int, comment: str) -> Iterator[str]:
    """Let the next commit to a Delta table count once: it is skipped where the table has this version of `app` or a later one."""
    settings = dict(zip((*TRANSACTION, COMMENT), (app, str(version), comment), strict=True))
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield comment
    finally:
        for key in settings:
            session.conf.unset(key)


@contextlib.contextmanager
def translate_errors(what: str, url: str) -> Iterator[None]:
    """Say in a sentence why Spark could not reach or write a table; raises Conflict where another writer was faster."""
    try:
        yield
    except TidelineError:
        raise
    except Exception as error:
        text = str(error)
        if found := _CONCURRENT_CHANGE.search(text):
            raise Conflict(f"{what}: {url} was written by another at the same time ({found[1]})") from error
        if _NO_FILE_SYSTEM.search(text):
            raise SinkError(
                f"{what}: Spark has no file system for {url}: `{FETCH_S3A}` fetches it for a Spark that is started here "
                "afterwards, a server has to have it; or write to a local folder"
            ) from error
        line = next((line.strip() for line in text.splitlines() if _is_message(line)), type(error).__name__)
        reason = simplify_message(_JAVA_CLASS.sub("", line))
        raise SinkError(f"{what}: {url} could not be read or written: {reason}") from error


def check_shared(session: SparkSession, what: str, url: str) -> None:
    """Raise SinkError if Spark's tasks would write the files of a table in a local folder to disks of their own."""
    if url.startswith("file:") and (fault := find_sharing_fault(session, Path(to_spark_path(url)))):
        raise SinkError(f"{what}: {fault}")


@contextlib.contextmanager
def hold_table_lock(url: str) -> Iterator[None]:
    """Hold the turn of this machine at a table in a local folder; elsewhere, and where there are no locks, nothing is held.

    Delta's commits to a local folder are renames that several Java processes could make at once, each over the other's.
    Raises SinkError if somebody else has had the turn for ten minutes.
    """
    if not url.startswith("file:"):
        yield
        return
    folder = Path(to_spark_path(url))
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        deadline = time.monotonic() + LOCK_SECONDS
        while not try_lock(descriptor):
            if time.monotonic() > deadline:
                raise SinkError(f"another process has been writing {url} for {LOCK_SECONDS:.0f} s")
            time.sleep(PAUSE_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _is_message(line: str) -> bool:
    """Tell whether a line of an error says what happened, and not where in Java."""
    return bool(line.strip()) and not re.match(r"\s*(at |An error occurred while calling)", line)

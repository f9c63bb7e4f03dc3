"""OPTIMIZE and VACUUM of the Delta tables that sinks have made: many small files become few, and what nobody reads is deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession

from engine.connectors.delta.sink.tables import (
    SETTINGS,
    check_shared,
    find_owner,
    hold_table_lock,
    render_table_name,
    translate_errors,
)
from engine.connectors.sinks.address import check_reachable
from engine.connectors.sinks.options import SinkOptions
from engine.errors import Conflict, TidelineError
from engine.runtime.spark.session import EngineSpark
from engine.spark_internals import activate
from engine.sql.catalog import Relation

LEAST_HOURS = 168.0
"""What Delta asks of VACUUM: files that left the table later than that may still be read, or belong to a commit on its way."""
_SETTINGS = SETTINGS | {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}

LISTING, LISTING_TASKS = "spark.sql.sources.parallelPartitionDiscovery.parallelism", 4
"""In how many tasks VACUUM lists a table's folders, for each that runs at the same time; Spark's own 10,000 are for none."""
_MERGED = (
    "metrics.numFilesAdded",
    "metrics.numFilesRemoved",
    "metrics.filesAdded.totalSize AS bytes_added",
    "metrics.filesRemoved.totalSize AS bytes_removed",
)
"""What OPTIMIZE reports, as far as it is passed on: Arrow does not take all of it."""


@dataclass(frozen=True)
class MaintenanceResult:
    """What was done to one table; `error` says why it was not, and `lost` that another writer was faster."""

    url: str
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    files_deleted: int = 0
    lost: bool = False
    error: str | None = None


def maintain_tables(
    sinks: Iterable[Relation],
    spark: Callable[[], SparkSession],
    *,
    optimize: bool,
    retain_hours: float | None,
) -> Iterator[MaintenanceResult]:
    """Optimize and vacuum each table once that a sink has made; those that somebody else has made are left to them.

    `retain_hours` None leaves VACUUM out; below LEAST_HOURS readers of older versions may lose files.
    """
    urls = {options.url for sink in sinks if (options := SinkOptions.of(sink.options)).connector == "delta"}
    if not urls:
        return
    running = EngineSpark.of(spark())
    listing = str(LISTING_TASKS * running.count_parallel_tasks())
    session = running.separate({**_SETTINGS, LISTING: listing}).session
    for url in sorted(urls):
        try:
            check_reachable(url)
            activate(session)
            with translate_errors("OPTIMIZE and VACUUM", url), hold_table_lock(url):
                check_shared(session, "OPTIMIZE and VACUUM", url)
                done = (
                    _maintain_table(session, url, optimize, retain_hours)
                    if find_owner(session, url)
                    else None
                )
        except TidelineError as error:
            lost = isinstance(error, Conflict)
            done = MaintenanceResult(url, lost=lost, error=None if lost else str(error))
        if done is not None:
            yield done


def _maintain_table(
    session: SparkSession, url: str, optimize: bool, retain_hours: float | None
) -> MaintenanceResult:
    added = removed = bytes_added = bytes_removed = deleted = 0
    if optimize:
        found = session.sql(f"OPTIMIZE {render_table_name(url)}").selectExpr(*_MERGED).toArrow()
        added, removed, bytes_added, bytes_removed = (column[0].as_py() or 0 for column in found.columns)
    if retain_hours is not None:
        gone = session.sql(f"VACUUM {render_table_name(url)} RETAIN {retain_hours:.6f} HOURS DRY RUN")
        deleted = gone.toArrow().num_rows
        if deleted:
            session.sql(f"VACUUM {render_table_name(url)} RETAIN {retain_hours:.6f} HOURS")
    return MaintenanceResult(url, added, removed, bytes_added, bytes_removed, deleted)

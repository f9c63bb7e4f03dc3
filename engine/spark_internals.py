"""Everything of PySpark that is used here and is no part of its public interface: what an upgrade may take away.

What it imports it imports late: the Python workers of others load this file, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

RUNS_ANEW = frozenset(
    {
        "CoalesceExec",
        "ExpandExec",
        "FilterExec",
        "GenerateExec",
        "GlobalLimitExec",
        "HashAggregateExec",
        "InputAdapter",
        "LocalLimitExec",
        "LocalTableScanExec",
        "MapInArrowExec",
        "ObjectHashAggregateExec",
        "OneRowRelationExec",
        "ProjectExec",
        "RangeExec",
        "RDDScanExec",
        "SortAggregateExec",
        "SortExec",
        "UnionExec",
        "WholeStageCodegenExec",
        "WindowExec",
        "WindowGroupLimitExec",
    }
)
"""Physical operators that compute everything anew in each job; exchanges, caches and adaptive plans keep their first result."""


def is_in_process(session: SparkSession) -> bool:
    """Tell whether the driver is in this process: it is not where the session is one of Spark Connect."""
    return hasattr(session, "_jsc")


def runs_in_this_process() -> bool:
    """Tell whether this process has a Spark of its own."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def activate(session: SparkSession) -> None:
    """Make the session the active one of this thread; a server does so by itself.

    In a thread that has none, or another one, Spark plans by the settings that it was built with: it knows no TIME type.
    """
    if is_in_process(session):
        _session_class(session._jvm).setActiveSession(session._jsparkSession)


@lru_cache(maxsize=1)
def _session_class(java: Any) -> Any:
    """Return Java's class of sessions: looked up by name, Java searches all jars for packages of that name first."""
    return java.SparkSession


def typed(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return a frame of which the schema is known: a client of Spark Connect asks the server for it otherwise, each time."""
    if hasattr(frame, "_jdf"):
        return frame
    from engine.claims import KNOWN_SCHEMA
    from engine.verification import broken, verifying

    if verifying() and (asked := frame.schema) != schema:
        raise broken(KNOWN_SCHEMA, f"{schema.simpleString()} is {asked.simpleString()} by the server")
    frame._cached_schema = schema  # type: ignore[attr-defined]  # that of Connect's frames
    return frame


def collect(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    """Run a frame and yield its few rows; a client of Spark Connect makes rows of a table by asking the server how."""
    if hasattr(frame, "_jdf"):
        return iter(frame.collect())
    found = frame.toArrow()
    return zip(*(column.to_pylist() for column in found.columns), strict=True)


def runs_anew(frame: DataFrame) -> bool:
    """Tell whether each job of a frame computes all of it, by the operators of its physical plan."""
    java: Any = frame._jdf
    return all(name in RUNS_ANEW for name in _operators(java.queryExecution().executedPlan()))


def _operators(plan: Any) -> Iterator[str]:
    yield str(plan.getClass().getSimpleName())
    for parts in (plan.children(), plan.subqueries()):
        for at in range(parts.size()):
            yield from _operators(parts.apply(at))


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type in which Spark gives a column; moments are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(kind, timezone="UTC")


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema in which Spark gives a frame; moments are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the schema of a frame made of Arrow columns; moments without a zone stay without one."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def run_daemon(
    print_exc: Callable[[], None], format_exc: Callable[[], str], collect: Callable[[], None]
) -> None:
    """Run PySpark's daemon of workers with another way to print an exception, and to collect garbage."""
    import pyspark.daemon

    daemon: Any = pyspark.daemon
    daemon.traceback = SimpleNamespace(print_exc=print_exc, format_exc=format_exc)
    daemon.gc = SimpleNamespace(collect=collect)
    daemon.manager()

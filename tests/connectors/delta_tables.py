"""Delta tables that tests write by Spark, and what a table that follows one is to hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from engine.connectors.contract import SourceReport
from engine.connectors.delta import DeltaSource
from engine.session import Session

FEED = "'delta.enableChangeDataFeed' = 'true'"


class DeltaTable:
    """One Delta table, written by SQL in which {} stands for it."""

    def __init__(self, spark: SparkSession, path: Path | str) -> None:
        self.spark, self.path = spark, path

    def sql(self, *texts: str) -> None:
        """Run statements of Spark SQL."""
        for text in texts:
            self.spark.sql(text.format(f"delta.`{self.path}`")).collect()

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

    def rows(self, columns: Sequence[str] = ("*",)) -> list[tuple[Any, ...]]:
        """Return its rows, in order."""
        found = self.spark.read.format("delta").load(str(self.path)).selectExpr(*columns)
        return sorted((tuple(row) for row in found.collect()), key=repr)


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

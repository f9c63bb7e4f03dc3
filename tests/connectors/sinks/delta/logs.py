"""What stands in the log of a Delta table, read as the files that it is, and its rows, read by delta-rs or by Spark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession


def actions(table: Path) -> list[dict[str, Any]]:
    """Return all actions of a table's commits, in their order."""
    commits = sorted((table / "_delta_log").glob("*.json"))
    return [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]


def versions(table: Path, app: str | None = None) -> list[int]:
    """Return the versions of the transactions of sinks, in the order of the commits."""
    found = [action["txn"] for action in actions(table) if "txn" in action]
    return [txn["version"] for txn in found if app is None or txn["appId"] == app]


def layout(table: Path) -> tuple[list[str], list[str]]:
    """Return the columns by which a table is partitioned, and those by which it is clustered, as its newest metadata say."""
    partitioned: list[str] = []
    clustered: list[str] = []
    for action in actions(table):
        if "metaData" in action:
            partitioned = action["metaData"]["partitionColumns"]
        domain = action.get("domainMetadata", {})
        if domain.get("domain") == "delta.clustering":
            paths = [] if domain["removed"] else json.loads(domain["configuration"])["clusteringColumns"]
            clustered = [".".join(path) for path in paths]
    return partitioned, clustered


def operations(table: Path) -> list[str]:
    """Return what each commit of a table was."""
    return [action["commitInfo"]["operation"] for action in actions(table) if "commitInfo" in action]


def columns(table: Path) -> list[str]:
    """Return the names of a table's columns."""
    return [field.name for field in DeltaTable(str(table)).schema().fields]


def rows(table: Path) -> Counter:
    """Return the rows of a table, each with how often it is there."""
    return counted(DeltaTable(str(table)).to_pyarrow_table())


def rows_by_spark(spark: SparkSession, table: Path | str) -> Counter:
    """Return the rows of a table, each with how often it is there, as Spark reads them."""
    return counted(spark.read.format("delta").load(str(table)).toArrow())


def counted(found: pa.Table) -> Counter:
    """Return rows, each with how often it is there."""
    return Counter(tuple(repr(value) for value in row.values()) for row in found.to_pylist())

"""The connector of sinks that keep a Delta table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from engine.connectors.delta.sink.checks import prepare_delta_sink
from engine.connectors.delta.sink.target import DeltaSink
from engine.connectors.sinks.address import check_reachable
from engine.connectors.sinks.contract import SinkConnector, TargetContext
from engine.connectors.sinks.option_parsing import build_option_error, check_place, parse_address
from engine.sql.catalog import Relation
from engine.sql.statements.ddl.sink_statements import CreateSink

DELTA_OPTIONS: Mapping[str, str] = {
    "path": "the folder of the table; a relative one starts at TIDELINE_HOME",
    "url": "instead of path: file:///folder or s3a://bucket/prefix",
    "partition_by": "columns by whose values the files lie in folders, as 'a, b'; where the sink makes the table",
    "cluster_by": "columns by which OPTIMIZE lays rows close together (liquid clustering), as 'a, b'; not with partition_by",
}


class DeltaSinkConnector(SinkConnector):
    """Delta tables: all that waits is one MERGE or append, which counts once."""

    name = "delta"
    options = DELTA_OPTIONS
    title = "Of Delta tables"

    def resolve_options(self, statement: CreateSink) -> dict[str, str]:
        """Return address and layout."""
        if statement.options.get("vnode_groups", "1") != "1":
            hint = "leave vnode_groups out: the work of one MERGE is divided among Spark's tasks"
            raise build_option_error(
                statement, "vnode_groups", "readers of their own would meet in one Delta table", hint
            )
        laid: dict[str, str] = {
            name: statement.options[name]
            for name in ("partition_by", "cluster_by")
            if name in statement.options
        }
        if len(laid) == 2:
            raise build_option_error(
                statement, "cluster_by", "a Delta table is partitioned or clustered, not both", "choose one"
            )
        url = re.sub(r"^s3:", "s3a:", parse_address(statement))
        check_place(statement, url, delta=True)
        return {"connector": "delta", "url": url, **laid}

    def prepare(
        self, store_url: str, relation: Relation, statement: CreateSink, spark: Callable[[], SparkSession]
    ) -> Relation:
        """Return the sink with its name in the table's transactions."""
        return prepare_delta_sink(store_url, relation, statement, spark)

    def open_target(self, opening: TargetContext) -> DeltaSink:
        """Open the table."""
        check_reachable(
            opening.relation.options.get("url", "")
        )  # a link may lead elsewhere since CREATE SINK
        return DeltaSink(opening.store, opening.relation, opening.start, opening.spark)

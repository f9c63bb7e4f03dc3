"""Types of plans, by Spark's own analysis of them over empty tables: no type rules of our own that could differ from Spark's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from engine.operators.compile import batch
from engine.operators.context import EpochContext
from engine.operators.flow import COMES, append_columns, as_frame
from engine.operators.grouping.aggregate import partials_batch
from engine.runtime.spark.errors import build_analysis_error
from engine.runtime.spark.typed_plans import annotate_types
from engine.spark_internals import derive_spark_schema
from engine.sql.catalog import Catalog
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import StoredPartials
from engine.sql.plan import Aggregate, Node, Project, Scan, list_scans
from engine.sql.typing.types import to_arrow


class SparkAnalyzer:
    """Gives the types of plan columns; holds the schemas of the catalog's tables and of the fragments that it knows."""

    def __init__(self, spark: SparkSession, catalog: Catalog, sql: str = "") -> None:
        self.spark, self.catalog, self.sql = spark, catalog, sql
        self.fragments: dict[str, StructType] = {}
        self._empty: dict[Scan, DataFrame] = {}

    def infer_types(self, node: Node) -> Mapping[str, str]:
        """Return the Spark type of each column of `node`; raises SqlError with Spark's words on a type clash."""
        return {
            f.name: f.dataType.simpleString()
            for f in self._infer_schema(lambda c: batch(node, c), node).fields
        }

    def add_fragment(self, fragment: Fragment) -> Fragment:
        """Take note of a fragment; return it with its table's columns, and the types of its expressions."""
        schema = self._infer_schema(lambda context: build_whole_frame(fragment, context), fragment.plan)
        self.fragments[fragment.table] = schema
        columns = tuple((field.name, field.dataType.simpleString()) for field in schema.fields)
        plan = annotate_types(fragment.plan, self._build_context(fragment.plan))
        return msgspec.structs.replace(fragment, plan=plan, columns=columns)

    def _infer_schema(self, build: Callable[[EpochContext], DataFrame], node: Node) -> StructType:
        try:
            return build(self._build_context(node)).schema
        except AnalysisException as error:
            raise build_analysis_error(error, self.sql) from error

    def _build_context(self, node: Node) -> EpochContext:
        schemas = {scan.table: self._build_schema(scan.table) for scan in list_scans(node)}
        return EpochContext(self.spark, "", {}, {}, None, 0, 1, 0, schemas=schemas, empty=self._empty)

    def _build_schema(self, name: str) -> StructType:
        if name in self.fragments:
            return self.fragments[name]
        return derive_spark_schema(self.get_table_schema(name))

    def get_table_schema(self, name: str) -> pa.Schema:
        """Return the Arrow schema of a table of the catalog, its columns named as they are stored."""
        columns = self.catalog.get(name).columns
        return pa.schema([pa.field(column.storage_name, to_arrow(column.type)) for column in columns])


def build_whole_frame(fragment: Fragment, context: EpochContext) -> DataFrame:
    """Return all rows of a fragment's table computed from whole inputs, hidden columns included, without `_w`."""
    plan, rule = fragment.plan, fragment.rule
    if isinstance(rule, StoredPartials):
        assert isinstance(plan, Project) and isinstance(plan.input, Aggregate)
        source = append_columns(batch(plan.input.input, context), COMES)
        return as_frame(partials_batch(plan, rule.partials, source))
    return batch(plan, context)

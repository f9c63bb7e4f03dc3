"""Types of plans, by Spark's own analysis of them over empty tables: no type rules of our own that could differ from Spark's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from engine.operators.aggregate import partials_batch
from engine.operators.compile import batch
from engine.operators.context import EpochContext
from engine.operators.flow import COMES, added, as_frame
from engine.runtime.spark.errors import refused
from engine.runtime.spark.typed_plans import typed_plan
from engine.spark_internals import spark_schema
from engine.sql.catalog import Catalog
from engine.sql.incremental.fragments import Fragment
from engine.sql.incremental.rules import StoredPartials
from engine.sql.plan import Aggregate, Node, Project, Scan, scans
from engine.sql.typing.types import to_arrow


class SparkAnalyzer:
    """Gives the types of plan columns; holds the schemas of the catalog's tables and of the fragments it was told of."""

    def __init__(self, spark: SparkSession, catalog: Catalog, sql: str = "") -> None:
        self.spark, self.catalog, self.sql = spark, catalog, sql
        self.fragments: dict[str, StructType] = {}
        self._empty: dict[Scan, DataFrame] = {}

    def types(self, node: Node) -> Mapping[str, str]:
        """Return the Spark type of each column of `node`; raises SqlError with Spark's words on a type clash."""
        return {
            f.name: f.dataType.simpleString() for f in self._schema(lambda c: batch(node, c), node).fields
        }

    def add(self, fragment: Fragment) -> Fragment:
        """Take note of a fragment; return it with its table's columns, and the types of its expressions."""
        schema = self._schema(lambda context: whole_fragment(fragment, context), fragment.plan)
        self.fragments[fragment.table] = schema
        columns = tuple((field.name, field.dataType.simpleString()) for field in schema.fields)
        plan = typed_plan(fragment.plan, self._context(fragment.plan))
        return msgspec.structs.replace(fragment, plan=plan, columns=columns)

    def _schema(self, build: Callable[[EpochContext], DataFrame], node: Node) -> StructType:
        try:
            return build(self._context(node)).schema
        except AnalysisException as error:
            raise refused(error, self.sql) from error

    def _context(self, node: Node) -> EpochContext:
        schemas = {scan.table: self._table(scan.table) for scan in scans(node)}
        return EpochContext(self.spark, "", {}, {}, None, 0, 1, 0, schemas=schemas, empty=self._empty)

    def _table(self, name: str) -> StructType:
        if name in self.fragments:
            return self.fragments[name]
        return spark_schema(self.table_schema(name))

    def table_schema(self, name: str) -> pa.Schema:
        """Return the Arrow schema of a table of the catalog, its columns named as they are stored."""
        columns = self.catalog.get(name).columns
        return pa.schema([pa.field(column.source, to_arrow(column.type)) for column in columns])


def whole_fragment(fragment: Fragment, context: EpochContext) -> DataFrame:
    """Return all rows of a fragment's table computed from whole inputs, hidden columns included, without `_w`."""
    plan, rule = fragment.plan, fragment.rule
    if isinstance(rule, StoredPartials):
        assert isinstance(plan, Project) and isinstance(plan.input, Aggregate)
        source = added(batch(plan.input.input, context), COMES)
        return as_frame(partials_batch(plan, rule.partials, source))
    return batch(plan, context)
